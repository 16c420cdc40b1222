/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - the owner of the memory of fuzz-broker: a thread whose device can be held up, and that can die.
 *
 * A dead owner's orders have no answers. What it was carrying out takes effect when its end is proven, the latest
 * moment that there is, or never. Owns the device's gate.
 */
#ifndef GPUB_FUZZ_OWNER_H
#define GPUB_FUZZ_OWNER_H

#include <stdbool.h>

#include "broker/base/context.h"
#include "broker/owner/process.h"

/* What becomes of an owner that is to begin. */
enum owner_fate { OWNER_BEGINS, OWNER_NOT_FORKED, OWNER_ENDS_AT_ONCE, OWNER_WITHOUT_DEVICE };

/* Called before broker_init(). Returns where the broker's owners run. */
const struct owner_place *owner_install(struct broker *broker);

void gate_set(bool closed);       /* the device carries out nothing while the gate is closed */
void gate_start_set(bool closed); /* the next owner does not start its devices while this gate is closed */
void owner_hold_device(bool held); /* as gate_set(), unless the owner has died */

/* The owner dies. lands: what it is carrying out takes effect. Returns whether there was one. */
bool owner_dies(bool lands);

/* What a dead owner was carrying out takes effect now, if ever; then its end is proven. */
void owner_is_gone(void);

/* Lets the owner die that the broker has killed because it did not start. */
void owner_follow(void);

/* The next `count` owners that are to begin have this fate. */
void owner_fail_next(enum owner_fate fate, unsigned count);

/* The pause before another owner is over. */
void owner_pause_over(void);

/* Returns whether orders are carried out, or an owner starts that will carry them out. */
bool owner_works(void);

/* The owner has all memory that came by a descriptor, but what it could not adopt, which serves no new buffer. */
void owner_check(void);

/* Returns the number of all allocations of the devices. */
unsigned owner_memories(void);

#endif
