/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - the broker's side of a buffer's timeline: which session writes it, and how it ended.
 *
 * An end is published twice. The library reads it in the board (struct board_end in common/board.h), which only the
 * broker can write. The mark in the timeline's page releases the streams that wait on the page. A late signal, or any
 * process that has mapped the page, can overwrite the mark, so marks.c checks it.
 *
 * Owns the page's descriptors. The writable one is the broker's own open file and is never sent to a client, because an
 * open file's flags (O_APPEND) are shared by all its holders. Never maps the page, which is the writing client's
 * memory. Changes it with pwrite(2) only, and only after the writer's end.
 */
#ifndef GPUB_TIMELINE_H
#define GPUB_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/base/tracked.h"

struct board_end;
struct marks;

/*
 * Descriptors that the owner is charged for each timeline: the broker's, one for readers, one on its way to the writer.
 */
#define TIMELINE_DESCRIPTORS 3

/* The timelines of one session. Zeroed at first. */
struct timelines {
	struct timeline *made;    /* list: of buffers that the session created */
	struct timeline *written; /* list: that the session writes */
};

struct timeline {
	int      writable, readable;    /* descriptors of the page; readable is sent to clients */
	uint64_t writer;                /* id of the session that writes; 0: none has claimed the timeline */
	uint64_t serial;                /* of the buffer */
	struct board_end *end;          /* where the board says how the timeline ended */
	uint64_t mark;                  /* value that the page has after the end; 0: the timeline has not ended */
	struct timelines *creator;      /* of the creating session; NULL: it ended, or the broker created the buffer */
	struct timelines *of_writer;    /* of the session that writes; NULL: none does, or it ended */
	struct timeline  *made_prev, *made_next;       /* in creator->made */
	struct timeline  *written_prev, *written_next; /* in of_writer->written */
	struct marks     *marks;        /* where marks.c checks the timeline; NULL: it does not */
	struct timeline  *marks_prev, *marks_next;     /* in marks->ended */
	struct timeline_shown {         /* for the status file */
		struct tracked    tracked;
		uint64_t          ended_ms; /* milliseconds since 1970 */
		uint32_t          pid, rank; /* of the writer's process, kept after its end */
		uid_t             uid;      /* of the writer's user */
		uint64_t          round;    /* number of the round in which request/inquiry.c last read the value */
		struct timeline **among;    /* list that request/inquiry.c keeps the timeline in; NULL: none */
		struct timeline  *prev, *next; /* in *among */
	} shown;
};

/*
 * Where the board says how a buffer's timeline ended, and the serial by which a reader knows that it is this buffer's.
 */
struct timeline_place {
	struct board_end *end;
	uint64_t          serial;
};

/*
 * Creates a timeline. creator: the timelines of the session that creates the buffer; NULL: the broker creates it.
 * -EMFILE, -ENOMEM, -ENOSPC, with the error message set.
 */
int timeline_create(struct timelines *creator, const struct timeline_place *place, struct timeline **timeline);

/*
 * Frees a timeline, after marks_remove(). Publishes an end if it has no writer, so that no wait stays. NULL is allowed.
 */
void timeline_destroy(struct timeline *timeline);

/*
 * Makes `session` the writer; `writer` is that session's timelines, `name` the buffer's, for error messages. -EBUSY:
 * another session is the writer. -EOWNERDEAD: the timeline has ended.
 */
int timeline_claim(struct timeline *timeline, uint64_t session, struct timelines *writer, const char *name);

/* Remove the timeline from its creator's list, and from its writer's. Do nothing if it is in none. */
void timeline_creator_leave(struct timeline *timeline);
void timeline_writer_leave(struct timeline *timeline);

/* Empties both lists of a session that ends. The timelines stay. */
void timelines_forget(struct timelines *timelines);

/*
 * Returns a new writable descriptor of the page for the writer, with an open file of its own. The caller closes it.
 * -EMFILE, -ENFILE, with the error message set.
 */
int timeline_open(const struct timeline *timeline);

/*
 * Returns the timeline's value: the word in the page, and after timeline_end() the word of that moment. The writer may
 * have stored any number there.
 */
uint64_t timeline_value(const struct timeline *timeline);

/*
 * Publishes the end, which releases all waits. died: the writer's process died. Does nothing if the timeline has ended.
 */
void timeline_end(struct timeline *timeline, bool died);

/* Gives the timeline its buffer's new serial, in the board, too, if it has ended. */
void timeline_renew(struct timeline *timeline, uint64_t serial);

/* Writes the mark into the page if the page has another value. True: it did. */
bool timeline_mark(struct timeline *timeline);

#endif
