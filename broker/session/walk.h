/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.h - a task that sends a session a file with records of tracked objects: PART messages, and then a VIEW.
 *
 * Reads all slots (base/tracked.h), some in each step of the session's task. Each step is counted in the fair queue. An
 * object that begins or ends during the walk may be in the file or not. The PARTs are sent as the session's socket
 * takes them. A descriptor of a sealed memfd was considered instead. The memory of the memfd would be charged to the
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
	/* Sends the records of one object that the session may see. Returns how many records were sent. */
	unsigned (*visit)(struct walk *walk, const struct tracked *tracked);
	/* Sends the rest of the file after the last object, and sets view->size to the size of the file. */
	void (*end)(struct walk *walk, struct wire_view *view);
};

/* The first member of the structure that a kind of walk uses. */
struct walk {
	struct session_task     task;    /* the first member: step() and drop() cast it to the walk */
	const struct walk_kind *kind;
	struct session         *session;
	uint64_t                request; /* number of the request that the messages answer */
	uint32_t                slot;    /* index of the slot to visit next */
	uint32_t                count;   /* number of records sent; kept by the kind */
	struct charge           charge;  /* for the walk's memory */
};

/*
 * Begins a walk as the session's task. Allocates size bytes, with struct walk at their beginning and zeroes after it.
 * request: number of the request that the messages answer. On failure returns NULL, with *error and the error message
 * set: -EBUSY the session has a task already, -EDQUOT, -ENOMEM.
 */
struct walk *walk_begin(struct session *session, uint64_t request, size_t size, const struct walk_kind *kind,
			int *error);

/*
 * Sends bytes of the file, from that offset, as PARTs. Does not send zeroes at the end of the bytes, because bytes of
 * the reader's file that were not sent are zero.
 */
void walk_send(const struct walk *walk, uint64_t offset, const void *bytes, size_t size);

#endif
