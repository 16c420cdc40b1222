/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provision.h - the memory of an allocation that is yet to be made: from its owner's pool, or from the device.
 *
 * Where the device has too little, it waits for what is kept and for what is on its way back, and then, with a timeout, in the queue of those
 * who wait for memory (create-queue.h). Owns the job until the allocation has it. Knows nothing of names and answers: the caller does,
 * who is told once, by done().
 */
#ifndef GPUB_PROVISION_H
#define GPUB_PROVISION_H

#include <stdint.h>

#include "broker/memory/pool.h"

struct allocation;
struct broker;
struct buffer;
struct create_wait;

/* The caller sets all up to done, and zeroes the rest. It stays in place until done() is called. */
struct provision {
	struct broker       *broker;
	struct allocation   *allocation;
	const struct buffer *buffer;  /* that the memory is for: it is shown while it waits */
	uint64_t             session; /* whose wait ends with it; 0: the broker's own */
	uint64_t             request; /* of that session */
	int                  timeout_ms;
	/* 0: the allocation has its memory. Else a negative errno, and why. */
	void (*done)(struct provision *provision, int error, const char *text);

	struct create_wait *wait; /* its place in the queue for memory; NULL: it has none */
	struct shortage     shortage; /* while it waits for what is on its way back */
	unsigned            rounds;   /* how often it did, since it was refused first */
};

/* Calls done(), perhaps at once. -ENOMEM: others of its user wait for memory, and it has no timeout: done() is not called. */
int provision_begin(struct provision *provision);

/* Nobody needs it any more: it does not wait for memory. done() is called, with an error, perhaps at once. */
void provision_abandon(struct provision *provision);

#endif
