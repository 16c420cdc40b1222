/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - the broker's side of a buffer's timeline: who writes it, and how it ends.
 *
 * An end is published twice. The board's end (common/board.h) is what the library reads: only the broker can write it.
 * The mark in the page releases the streams that wait there. The page belongs to its writer: a late signal, or any process
 * that has the page mapped, can overwrite the mark, so marks.c checks it.
 *
 * Owns the page's descriptors. The writable one is the broker's own open file and is never handed out: an open file's
 * flags (O_APPEND) are shared by all who have it. Never maps the page: it is the writing client's memory. Changes
 * it with pwrite(2) only, and only after the writer's end.
 */
#ifndef GPUB_TIMELINE_H
#define GPUB_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/base/tracked.h"

struct board_end;
struct marks;

/* What one costs the broker at most, and its owner is charged with: the broker's own, the readers', the writer's. */
#define TIMELINE_DESCRIPTORS 3

/* One session's: those of buffers that it made, and those that it writes. Zero it to begin with. */
struct timelines {
	struct timeline *made, *written;
};

struct timeline {
	int      writable, readable; /* readable: for readers, not used here */
	uint64_t writer; /* session; 0: nobody signalled yet */
	uint64_t serial;  /* its buffer's */
	struct board_end *end;
	uint64_t mark;    /* what is in the page from the end on; 0: it has not ended */
	struct timelines *creator, *of_writer; /* the sessions' in which it is; NULL: none, or gone */
	struct timeline  *made_prev, *made_next, *written_prev, *written_next;
	struct marks     *marks; /* marks.c's: NULL, or where it is checked */
	struct timeline  *marks_prev, *marks_next;
	struct timeline_shown {
		struct tracked    tracked;
		uint64_t          ended_ms; /* since 1970 */
		uint32_t          pid, rank; /* of the writer, which may be gone, */
		uid_t             uid;      /* and its user */
		uint64_t          round;    /* request/inquiry.c's: in which its value was read last */
		struct timeline **among;    /* the list that it is in; NULL: none */
		struct timeline  *prev, *next;
	} shown; /* to people */
};

/* A buffer's place in the board, and what tells it from others of that place. */
struct timeline_place {
	struct board_end *end;
	uint64_t          serial;
};

/* creator: the session's that made its buffer; NULL: the broker itself did. -EMFILE, -ENOMEM, -ENOSPC */
int timeline_create(struct timelines *creator, const struct timeline_place *place, struct timeline **timeline);
void timeline_destroy(struct timeline *timeline); /* behind marks_remove(); NULL is fine */

/* Makes the session its writer; the list is the session's. -EBUSY: another one is; -EOWNERDEAD: its writer is gone for good. */
int timeline_claim(struct timeline *timeline, uint64_t session, struct timelines *writer, const char *name);

/* Takes the timeline out of its creator's session, or out of its writer's. The timeline stays. */
void timeline_creator_leave(struct timeline *timeline);
void timeline_writer_leave(struct timeline *timeline);

/* Takes all timelines out of a session, which is gone. */
void timelines_forget(struct timelines *timelines);

/* A writable open file of its page that shares nothing with the broker's, for the writer: now the caller's. -EMFILE, -ENFILE */
int timeline_open(const struct timeline *timeline);

/* The value, whoever wrote it: of one that has ended the last one, as its writer left it. */
uint64_t timeline_value(const struct timeline *timeline);

/* Publishes its end, which releases every wait, unless it has ended. */
void timeline_end(struct timeline *timeline, bool died);

/* Its buffer has that serial from now on: whoever knows an earlier one finds its end all the same. */
void timeline_renew(struct timeline *timeline, uint64_t serial);

/* Writes the mark again where it was overwritten. True: it was. */
bool timeline_mark(struct timeline *timeline);

#endif
