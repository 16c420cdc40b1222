/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provision.h - gets the memory of a new allocation: from its owner's pooled memory, or from the device.
 *
 * If the device has too little memory, a provision first has spare memory given back to the device, and waits until
 * that memory and what is already on its way back have arrived. If that is not enough, a provision with a timeout waits
 * in the queue for memory (create-queue.h). Owns the device's job until the allocation owns it. Knows nothing of names
 * and answers. The caller is told the result once, by done().
 */
#ifndef GPUB_PROVISION_H
#define GPUB_PROVISION_H

#include <stdint.h>

#include "broker/memory/pool.h"

struct allocation;
struct broker;
struct buffer;
struct create_wait;

/* The caller sets all members up to done, and zeroes the rest. The caller must not move it before done() is called. */
struct provision {
	struct broker       *broker;
	struct allocation   *allocation; /* gets the memory */
	const struct buffer *buffer;  /* the buffer that the memory is for, shown while the provision waits */
	uint64_t             session; /* id of the session whose end ends the wait; 0: the broker itself waits */
	uint64_t             request; /* number of that session's request */
	int                  timeout_ms; /* how long it may wait in the queue; 0: not at all; below 0: for ever */
	/* Called with 0 when the allocation has its memory, or with a negative errno and an error message. */
	void (*done)(struct provision *provision, int error, const char *text);

	struct create_wait *wait;     /* its wait in the queue for memory; NULL: not in the queue */
	struct shortage     shortage; /* used while it waits for memory that is on its way back to the device */
	unsigned            rounds;   /* tries to have spare memory given back, since the last wait in the queue */
};

/*
 * Begins to get the memory. done() is called later or before this function returns. -ENOMEM: other creates of the user
 * wait for memory, and the provision has no timeout; done() is not called then.
 */
int provision_begin(struct provision *provision);

/*
 * Ends the wait for memory, because nobody needs the memory any more. If the provision waits in the queue, done() is
 * called at once with -ENOMEM. If the device is making the memory, done() is called later, with the device's result.
 */
void provision_abandon(struct provision *provision);

#endif
