/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provision.h - gets the memory of a new allocation: from its owner's pooled memory, or from the device.
 *
 * If the device has too little memory, a provision first has pooled memory given back to the device, and waits until
 * this memory, and memory that is already on its way back, has arrived. If that is not enough, it has idle memory
 * evicted, and waits in the queue for memory (create-queue.h) if it has a timeout. Owns the device's job until the
 * allocation owns the job. Knows nothing of names and answers. The caller is told the result once, by done().
 */
#ifndef GPUB_PROVISION_H
#define GPUB_PROVISION_H

#include <stdint.h>

#include "broker/memory/pool.h"

struct allocation;
struct broker;
struct buffer;
struct create_wait;

/*
 * One request for an allocation's memory. The caller sets the members up to done, zeroes the others, and must not move
 * the struct before done() is called.
 */
struct provision {
	struct broker       *broker;
	struct allocation   *allocation; /* the allocation that gets the memory */
	/* the buffer that needs the memory; the status file shows it while the provision waits */
	const struct buffer *buffer;
	/* id of the session whose end ends the provision's wait; 0: the broker itself asked */
	uint64_t             session;
	uint64_t             request; /* number that the session gave its request */
	/* milliseconds that the provision may wait in the queue; 0: it may not wait; below 0: for ever */
	int                  timeout_ms;
	/* Called with 0 when the allocation has its memory, or with a negative errno and an error message. */
	void (*done)(struct provision *provision, int error, const char *text);

	struct create_wait *wait;     /* the provision's wait in the queue for memory; NULL: it is not in the queue */
	/* used while the provision waits for memory that is on its way back to the device */
	struct shortage     shortage;
	/* number of attempts to get spare memory for the provision since its last wait in the queue */
	unsigned            rounds;
};

/*
 * Begins to get the memory. Returns 0; done() is called later or before this function returns. Returns -ENOMEM, and
 * done() is not called, if the provision has no timeout and must wait for other creates of its user
 * (create_must_wait()).
 */
int provision_begin(struct provision *provision);

/*
 * Ends a provision whose memory nobody needs any more. If the provision waits in the queue and makes no try, done() is
 * called at once with -ENOMEM. Otherwise done() is called later, with the result of the try.
 */
void provision_abandon(struct provision *provision);

#endif
