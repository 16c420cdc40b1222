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

struct timeline {
	int      writable, readable;
	uint64_t writer; /* session; 0: nobody signalled yet */
	uint64_t creator; /* session that made its buffer */
	bool     ended;
	struct timeline **all, *prev, *next; /* the list that it is in */
};

/* Adds it to the list of all. -EMFILE, -ENOMEM, -ENOSPC */
int timeline_create(struct timeline **all, uint64_t creator, struct timeline **timeline);
void timeline_destroy(struct timeline *timeline); /* NULL is fine */

/* Makes the session its writer. -EBUSY: another one is; -EOWNERDEAD: its writer is gone for good. */
int timeline_claim(struct timeline *timeline, uint64_t session);

/* Sets the end mark, which releases every wait, unless it is set. */
void timeline_end(struct timeline *timeline, bool died);

#endif
