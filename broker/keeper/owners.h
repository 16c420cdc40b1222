/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owners.h - the keeper forks the owners of the devices, one after the other, and knows how the last one ended.
 *
 * The owner is a child of the keeper, so it outlives brokers and ends with the keeper. It begins with no descriptor of
 * the keeper's but its socket, and with a copy of the keeper's memory, without the memory that keeper and broker share:
 * a secret of the keeper's would be in it. Owns the process. Never speaks to the owner, and never decides that one
 * begins or ends.
 */
#ifndef GPUB_KEEPER_OWNERS_H
#define GPUB_KEEPER_OWNERS_H

#include <stdbool.h>
#include <stddef.h>

#include "child.h"
#include "handover.h"

/* All zeroes but base, ended, leave and context, which the keeper sets. */
struct owners {
	struct event_base *base;
	struct child       child;       /* the owner that runs */
	unsigned           number;      /* number of owners that have begun; the last one that failed counts, too */
	int                status;      /* how the last one ended: of wait(2), or -1 if it could not be forked */
	bool               untold;      /* the broker has not been told the status */
	void (*ended)(void *context);   /* called through the loop when the owner has ended */
	void (*leave)(void *context);   /* called in a forked owner: lets go of what no owner may have */
	void              *context;
};

/* Whether an owner runs. */
bool owners_run(const struct owners *owners);

/*
 * Forks an owner that serves the socket, which is closed here. None may run. If none can be forked the socket's other
 * end is told why, and `untold` is set.
 */
void owners_begin(struct owners *owners, int sock);

/* Adds the owner that runs, and what is known of those before. */
void owners_pack(const struct owners *owners, struct handover *handover);

/*
 * Takes over what owners_pack() has added in the program before: the owner is a child of this process already. Returns
 * 0, or a negative errno with the error message set.
 */
int owners_resume(struct owners *owners, const struct handover *from);

/* Ends the owner by SIGKILL; ended() follows. Does nothing if none runs. */
void owners_kill(const struct owners *owners);

#endif
