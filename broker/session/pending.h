/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending.h - the requests of clients that are accepted and not answered, as the ledger notes them: the message, and
 * when it came.
 *
 * A broker that takes over handles them again, with the time that is left, so no kind of request has a record of its
 * own. Nothing is kept while the broker has no ledger. Owns the notes, each from the end of its message's handler to
 * the answer or the end of the session. Never answers.
 */
#ifndef GPUB_PENDING_H
#define GPUB_PENDING_H

#include <stdint.h>

#include "broker/base/tracked.h"
#include "common/tables.h"
#include "common/wire.h"

struct pending {
	struct wire_message message;
	uint64_t            order;       /* a request that was accepted later has a larger one */
	uint64_t            received_ms; /* by CLOCK_MONOTONIC */
	uint64_t            serial;      /* serial of the buffer whose end is awaited; 0: none is */
	uint64_t            session;     /* id */
	struct tracked      tracked;
	UT_hash_handle      hh;          /* handle in the table of its session, by message.request */
};

/* What the notes of all sessions have in common. All zeroes: nothing is noted. */
struct pendings {
	struct tracking *tracking; /* NULL: the broker has no ledger */
	struct pending  *next;     /* memory for the next note; NULL: there is none */
	uint64_t         order;    /* number of notes so far */
};

/* What the ledger notes of a request. Fields are only added, at the end (ledger_copy()). */
struct pending_record {
	uint64_t            session;
	uint64_t            order, received_ms, serial;
	struct wire_message message;
};

/*
 * Makes sure that the next pending_begin() succeeds. Called before a message is handled. Returns 0 or -ENOMEM with the
 * error message set.
 */
int pending_prepare(struct pendings *all);

/* Frees what pending_prepare() has made ready. */
void pendings_deinit(struct pendings *all);

/*
 * Notes a request of the session that its handler has accepted and not answered. table: the notes of the session.
 * serial: of the buffer whose end is awaited, or 0. Does nothing if the request is noted.
 */
void pending_begin(struct pendings *all, struct pending **table, uint64_t session, const struct wire_message *message,
		   uint64_t serial);

/* Forgets a request that is answered. Does nothing if it is not noted. */
void pending_end(struct pendings *all, struct pending **table, uint64_t request);

/* Forgets all requests of a session. */
void pending_forget(struct pendings *all, struct pending **table);

void pending_note(const struct pending *pending, struct pending_record *record);

/* Notes a request of the broker before this one. Returns 0 or -ENOMEM with the error message set. */
int pending_restore(struct pendings *all, struct pending **table, const struct pending_record *record);

/*
 * Leaves a request, which is handled again, the rest of its time, and at least a millisecond: with none it would be
 * refused otherwise.
 */
void pending_shorten(struct wire_message *message, uint64_t received_ms);

#endif
