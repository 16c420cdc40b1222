/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.h - the broker's side of a buffer's timeline: which session writes it, and how it ended.
 *
 * An end is published twice. The library reads it in the board (struct board_end in common/board.h), which only the
 * broker can write. The mark in the timeline's page releases the streams that wait on the page. A late signal, or any
 * process that has mapped the page for writing, can overwrite the mark, so marks.c checks it.
 *
 * Owns the page's descriptors. The writable one is the broker's own open file and is never sent to a client, because an
 * open file's flags (O_APPEND) are shared by all its holders. Never maps the page, which is the writing client's
 * memory. Changes it with pwrite(2) only, and only when the timeline ends, and later to write the mark again.
 */
#ifndef GPUB_TIMELINE_H
#define GPUB_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "broker/base/tracked.h"
#include "records.h"

struct board_end;
struct marks;

/*
 * Number of descriptors that the buffer's owner is charged for a timeline: the broker's writable one, the readable one
 * for readers, and one on its way to the writer.
 */
#define TIMELINE_DESCRIPTORS 3

/* The timelines of one session. All zeroes at the beginning. */
struct timelines {
	struct timeline *made;    /* list of the timelines of buffers that the session created */
	struct timeline *written; /* list of the timelines that the session writes */
};

struct timeline {
	int      writable, readable;    /* descriptors of the page; only `readable` is sent to clients */
	/* id of the session that writes or wrote the timeline; 0: no session has claimed it */
	uint64_t writer;
	uint64_t serial;                /* serial of the buffer that the timeline belongs to */
	uint64_t buffer;                /* the buffer's first serial */
	struct board_end *end;          /* entry of the board that says how the timeline ended */
	uint64_t mark;                  /* value that the page's word gets at the end; 0: the timeline has not ended */
	uint64_t last;                  /* the page's word at the end */
	/*
	 * timelines of the session that created the buffer; NULL: the session ended, or the broker created the buffer
	 */
	struct timelines *creator;
	/* timelines of the session that writes this one; NULL: no session writes it, or the session ended */
	struct timelines *of_writer;
	struct timeline  *made_prev, *made_next;       /* links in the list creator->made */
	struct timeline  *written_prev, *written_next; /* links in the list of_writer->written */
	/* set while marks.c checks the timeline's mark; NULL: the timeline has not ended */
	struct marks     *marks;
	struct timeline  *marks_prev, *marks_next;     /* links in the list marks->ended */
	bool              due;                         /* the timeline is in marks->due */
	struct timeline  *due_prev, *due_next;         /* links in that list */
	struct timeline_shown {         /* what the status file shows of the timeline */
		struct tracked    tracked;
		uint64_t          ended_ms; /* time of the end, in milliseconds since 1970 */
		uint32_t          pid, rank; /* pid and rank of the writer's process, kept after its end */
		uid_t             uid;      /* uid of the writer's user */
		/* number of the round in which request/inquiry.c last had the value written to the status file */
		uint64_t          round;
		struct timeline **among;    /* list of request/inquiry.c that the timeline is in; NULL: in none */
		struct timeline  *prev, *next; /* links in the list *among */
	} shown;
};

/*
 * The entry of the board for the end of a buffer's timeline, and the buffer's serial, by which a reader knows that the
 * entry is of this buffer.
 */
struct timeline_place {
	struct board_end *end;
	uint64_t          serial;
};

/*
 * Creates a timeline in *timeline. creator: the timelines of the session that creates the buffer; NULL: the broker
 * creates it. Returns 0, or -EMFILE, -ENFILE, -ENOMEM or -ENOSPC with the error message set.
 */
int timeline_create(struct timelines *creator, const struct timeline_place *place, struct timeline **timeline);

/* Fills in what the ledger notes of a timeline. */
void timeline_note(const struct timeline *timeline, struct timeline_record *record);

/*
 * Makes the timeline that the ledger's record is of, whose page has the descriptor `page`, and publishes its end again
 * if it has one. place: as of timeline_create(), with the buffer's present serial. writer: the timelines of its writer;
 * NULL: it has none, or the writer has ended. Takes over the descriptor. Returns 0, or a negative errno with the error
 * message set: then the descriptor stays the caller's.
 */
int timeline_restore(const struct timeline_record *record, int page, const struct timeline_place *place,
		     struct timelines *creator, struct timelines *writer, struct timeline **timeline);

/*
 * Frees a timeline, after marks_remove(). Publishes its end, and ends it if no session has claimed it, so that nobody
 * goes on waiting. Does nothing if `timeline` is NULL.
 */
void timeline_destroy(struct timeline *timeline);

/*
 * Makes a session the timeline's writer. session: its id. writer: its timelines. name: the buffer's name, for error
 * messages. Returns 0; -EBUSY: another session is the writer; -EOWNERDEAD: the timeline has ended.
 */
int timeline_claim(struct timeline *timeline, uint64_t session, struct timelines *writer, const char *name);

/*
 * Remove the timeline from its creator's list `made`, and from its writer's list `written`. Do nothing if it is in
 * none.
 */
void timeline_creator_leave(struct timeline *timeline);
void timeline_writer_leave(struct timeline *timeline);

/* Removes all timelines from both lists of a session that ends. Frees no timeline. */
void timelines_forget(struct timelines *timelines);

/*
 * Returns a new writable descriptor of the page for the writer, with an open file of its own, or -EMFILE or -ENFILE
 * with the error message set. The caller closes the descriptor.
 */
int timeline_open(const struct timeline *timeline);

/*
 * Returns the timeline's value: the word in the page or, after timeline_end(), the word that the page had then. The
 * writer may have stored any number there. 0 if no session has claimed the timeline.
 */
uint64_t timeline_value(const struct timeline *timeline);

/* Ends the timeline. died: the writer's process died. Does nothing if the timeline has ended already. */
void timeline_end(struct timeline *timeline, bool died);

/*
 * Publishes the end of a timeline in the board and in the page, which releases all waits. Does nothing if it has not
 * ended.
 */
void timeline_publish(struct timeline *timeline);

/* Gives the timeline its buffer's new serial. If the timeline has ended, it is to be published again. */
void timeline_renew(struct timeline *timeline, uint64_t serial);

/* Writes the end mark into the page if the page's word has another value. Returns true if the mark was written. */
bool timeline_mark(struct timeline *timeline);

#endif
