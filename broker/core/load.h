/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.h - makes what the broker before this one had from its ledger (note.h): sessions, allocations, buffers,
 * mappings, grants, timelines, tickets, and the work on the devices that was under way.
 *
 * Checks each record. A record that names an object whose record is not there is of an object that was ending: it is
 * left out. A record that no object can have is damage. Nobody knows then what memory a process maps, so nothing is
 * freed until all processes that were connected are proven dead (memory.doubted). Changes no record of the ledger, and
 * no descriptors that are not taken. Owns nothing: each object is its room's as soon as it is made.
 */
#ifndef GPUB_LOAD_H
#define GPUB_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/session/session.h"
#include "keep.h"

struct broker;

/* The descriptors that outlived the broker before this one. */
struct kept_descriptors {
	/* Gives a descriptor to the caller. -1: none is kept. */
	int (*take)(void *context, enum kept_kind kind, uint64_t number);
	/* Gives a pidfd that nobody took, and the id of its session. -1: none is left. */
	int (*rest)(void *context, uint64_t *session);
	void *context;
};

/* What came of a load. */
struct loaded {
	unsigned objects;
	unsigned left_out; /* records of objects that were ending */
	unsigned damaged;  /* records that no object can have, and slots that were neither free nor whole */
};

/*
 * Loads the ledger `fd`, which stays the caller's, into a broker that has begun and served nobody yet. Returns 0 and
 * *loaded, after an event if something is damaged; or -EBADMSG: it is no ledger; or -ENOMEM, and then the broker must
 * end. The error message is set.
 */
int load_ledger(struct broker *broker, int fd, const struct kept_descriptors *kept, struct loaded *loaded);

/*
 * Goes on where the broker before this one was: publishes and notes what was loaded, sends the answers that were owed,
 * handles the requests again that were accepted and not answered, and then those of the packet in hand. crashed: that
 * broker has crashed; who sent a message that two brokers crashed at is disconnected. Returns 0, or -ENOMEM with the
 * error message set, and then the broker must end.
 */
int load_resume(struct broker *broker, bool crashed);

#endif
