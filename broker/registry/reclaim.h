/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.h - carries out what the registry decided: has memory zeroed, kept or freed by the device's thread.
 *
 * The registry's hooks, and what follows when the device is done: the registry, the pool, and who waits for the buffer's end
 * are told. Owns a job from the decision to its end. Never decides that memory may be freed.
 */
#ifndef GPUB_RECLAIM_H
#define GPUB_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct allocation;
struct buffer;
struct drain;

/* Has that range, the buffer's, zeroed. False: no memory to ask for it. context: the broker. */
bool reclaim_clean(void *context, struct buffer *buffer, uint32_t range);

/* Has the allocation freed, or zeroed and kept in the pool. context: the broker. */
void reclaim_release(void *context, struct allocation *allocation);

/* Who waits is pointed to from somewhere else from now on; nobody, as before, from where it was. */
void drain_move(struct drain **from, struct drain **to);

/* Who waits, NULL for nobody, is answered. */
void drain_end(struct drain *drain);

#endif
