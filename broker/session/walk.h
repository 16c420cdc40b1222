/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - a task that sends a session a file with records of tracked objects: PART messages, and then a VIEW.
 *
 * Reads all slots of tracked objects (base/tracked.h), some in each step of the session's task. The fair queue counts
 * each step. An object that begins or ends during the walk may be in the file or not. The PARTs are sent as the
 * session's socket takes them. A sealed memfd with the file was considered instead. Its memory would be charged to the
 * broker as long as a client keeps it, and a client may keep many. The session owns the walk as its task until all is
 * sent. struct walk_kind decides which objects the session may see and what is sent of them.
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
	/* Sends the records of one object, if the session may see it. Returns how many records were sent. */
	unsigned (*visit)(struct walk *walk, const struct tracked *tracked);
	/* Sends the rest of the file after the last object, and sets view->size to the size of the file. */
	void (*end)(struct walk *walk, struct wire_view *view);
};

/* State of a walk. The first member of the struct that each kind of walk has for its own state. */
struct walk {
	struct session_task     task;    /* must be the first member, because step() and drop() cast it to the walk */
	const struct walk_kind *kind;
	struct session         *session;
	uint64_t                request; /* number of the request that the PARTs and the VIEW answer */
	uint32_t                slot;    /* index of the slot to visit next */
	uint32_t                count;   /* number of records sent so far; visit() increments it */
	struct charge           charge;  /* charge for the memory of the walk */
};

/*
 * Begins a walk as the session's task. Allocates `size` bytes, with a struct walk at their beginning and zeroes after
 * it. request: number of the request that the messages answer. On failure returns NULL, with *error and the error
 * message set: -EBUSY the session has a task already, -EDQUOT, -ENOMEM.
 */
struct walk *walk_begin(struct session *session, uint64_t request, size_t size, const struct walk_kind *kind,
			int *error);

/*
 * Sends `size` bytes of the file, which begin at `offset` in the file, as PARTs. Does not send zeroes at the end of the
 * bytes, because the reader takes bytes that were not sent as zero.
 */
void walk_send(const struct walk *walk, uint64_t offset, const void *bytes, size_t size);

#endif
