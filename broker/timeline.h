/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - the broker's side of a buffer's timeline: who writes it, and the end mark when that ends.
 *
 * Owns the page's descriptors, one writable and one that can only be read. Never maps the page: it is the
 * writing client's memory. Changes it with pwrite(2) only, and only after the writer's end.
 */
#ifndef GPUB_TIMELINE_H
#define GPUB_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

/* What one costs the broker at most, and its owner is charged with: the broker's own, the readers', the writer's. */
#define TIMELINE_DESCRIPTORS 3

/* One session's: those of buffers that it made, and those that it writes. Zero it to begin with. */
struct timelines {
	struct timeline *made, *written;
};

struct timeline {
	int      writable, readable;
	uint64_t writer; /* session; 0: nobody signalled yet */
	bool     ended;
	struct timelines *creator, *of_writer; /* the sessions' in which it is; NULL: none, or gone */
	struct timeline  *made_prev, *made_next, *written_prev, *written_next;
};

/* creator: the session's that made its buffer; NULL: the broker itself did. -EMFILE, -ENOMEM, -ENOSPC */
int timeline_create(struct timelines *creator, struct timeline **timeline);
void timeline_destroy(struct timeline *timeline); /* NULL is fine */

/* Makes the session, whose list that is, its writer. -EBUSY: another one is; -EOWNERDEAD: its writer is gone for good. */
int timeline_claim(struct timeline *timeline, uint64_t session, struct timelines *writer);

/* The session is gone: the timelines stay. */
void timelines_forget(struct timelines *timelines);

/* Sets the end mark, which releases every wait, unless it is set. */
void timeline_end(struct timeline *timeline, bool died);

#endif
