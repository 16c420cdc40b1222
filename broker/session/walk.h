/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - a task that sends a session something of every tracked object, as the PARTs of a file and then a VIEW.
 *
 * Goes through all slots (base/tracked.h), some in each step of the session's task, each counted in the fair queue:
 * objects that begin or end meanwhile are in the file or not. The parts go over the session's socket as it takes them.
 * A descriptor of the file was considered (a sealed memfd): its memory would be the broker's for as long as any client
 * keeps it, and a client may keep many. Owns itself until all is sent. What is sent of an object, and to whom, is the
 * kind's business.
 */
#ifndef GPUB_WALK_H
#define GPUB_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/base/tracked.h"
#include "session.h"

struct walk;

struct walk_kind {
	/* Sends what the session gets of one object, if anything. Returns how many records were sent. */
	unsigned (*visit)(struct walk *walk, const struct tracked *tracked);
	/* Sends what comes last, and sets view.size. */
	void (*end)(struct walk *walk, struct wire_view *view);
};

/* The first member of what a kind needs. */
struct walk {
	struct session_task     task; /* the first member */
	const struct walk_kind *kind;
	struct session         *session;
	uint64_t                request;
	uint32_t                slot;  /* to be looked at next */
	uint32_t                count; /* records sent; the kind's */
	struct charge           charge; /* of its own memory, while its client reads */
};

/*
 * Begins a walk for the session, in size bytes, which are zeroes behind struct walk. request: what the messages answer.
 * NULL and *error, with the error message set: -EBUSY the session has a task already, -EDQUOT, -ENOMEM.
 */
struct walk *walk_begin(struct session *session, uint64_t request, size_t size, const struct walk_kind *kind, int *error);

/* Sends bytes of the file in PARTs. Zeroes at their end are not sent: they are zeroes in the reader's file as well. */
void walk_send(const struct walk *walk, uint64_t offset, const void *bytes, size_t size);

#endif
