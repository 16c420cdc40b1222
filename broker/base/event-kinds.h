/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event-kinds.h - the kinds of events, and the text of each: one table, for the log, the journal and broker-ctl
 * events.
 *
 * Each row is a kind: its name, the part of the status file's ring that keeps it, the log level that shows it, and
 * its text. Rows are only added; the name of a kind never changes. Owns nothing.
 */
#ifndef GPUB_EVENT_KINDS_H
#define GPUB_EVENT_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"

/* A part of the ring. Events of one part never overwrite events of another part. */
enum event_part {
	EVENT_OF_BROKER, /* events that no client can cause at will */
	EVENT_OF_USERS,  /* requests of clients that were granted, and the ends of clients */
	/* requests and connections that were refused, and sessions cut off; a client may cause any number of them */
	EVENT_REFUSED,
	EVENT_PARTS
};

/* What the text of the event in the ring is: nothing, the name of a buffer, or the cause. */
enum event_subject { SUBJECT_NONE, SUBJECT_NAME, SUBJECT_CAUSE };

/*
 * Columns: identifier; name for people; part of the ring; the lowest log level that shows it, but LOG_VERBOSE for a
 * refusal with an ordinary error (event_is_ordinary()); largest number of log lines for each class (kind and reason) in
 * EVENT_WINDOW_MS, or 0: no limit; what its text in the ring is; format of the log line, with %a the actor, %o the
 * other process, %u the other user, %n the buffer, %b bytes, %d the detail, %m the detail as a mode, %e the cause.
 */
#define EVENTS_KNOWN(X)                                                                                              \
	X(START, "start", EVENT_OF_BROKER, LOG_NORMAL, 0, SUBJECT_CAUSE, "%e")                                       \
	X(PREDECESSOR, "predecessor-killed", EVENT_OF_BROKER, LOG_QUIET, 0, SUBJECT_NONE,                            \
	  "removed what the dead broker (%o) left behind, and kept its events")                                      \
	X(RELOAD, "reload", EVENT_OF_BROKER, LOG_NORMAL, 0, SUBJECT_CAUSE, "%e")                                     \
	X(RELOAD_REFUSED, "reload-refused", EVENT_OF_BROKER, LOG_QUIET, 0, SUBJECT_CAUSE,                            \
	  "%e; the configuration stays as it was")                                                                   \
	X(STOP, "stop", EVENT_OF_BROKER, LOG_NORMAL, 0, SUBJECT_CAUSE, "%e")                                         \
	X(DEVICE_FAILED, "device-failed", EVENT_OF_BROKER, LOG_QUIET, 20, SUBJECT_CAUSE, "device %d %e")             \
	X(STATUS_CUT, "status-cut", EVENT_OF_BROKER, LOG_QUIET, 5, SUBJECT_NONE,                                     \
	  "the status file was cut short: it is written anew, and its earlier events are lost")                      \
	X(CREATE, "create", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a created %n of %b with mode %m")        \
	X(CREATE_REFUSED, "create-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                              \
	  "%a was refused the create of %n of %b: %e")                                                               \
	X(CHMOD, "chmod", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a changed the mode of %n to %m")           \
	X(CHOWN, "chown", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a gave %n to user %u and group %d")        \
	X(CHANGE_REFUSED, "change-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                              \
	  "%a was refused a change of %n: %e")                                                                       \
	X(UNLINK, "unlink", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a unlinked %n")                          \
	X(UNLINK_ENDED, "unlink-ephemeral", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME,                            \
	  "%n was unlinked because its creator, %a, has ended")                                                      \
	X(UNLINK_REFUSED, "unlink-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                              \
	  "%a was refused the unlink of %n: %e")                                                                     \
	X(DRAIN, "drain", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a unlinked %n and drains it")              \
	X(DRAINED, "drained", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%n is drained for %a")                  \
	X(DRAIN_LATE, "drain-late", EVENT_OF_USERS, LOG_NORMAL, 5, SUBJECT_NAME,                                     \
	  "%n was not drained in the time that %a gave it")                                                          \
	X(DRAIN_REFUSED, "drain-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                                \
	  "%a was refused the drain of %n: %e")                                                                      \
	X(TICKET, "ticket", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a issued a ticket for %n")               \
	X(TICKET_REDEEMED, "ticket-redeemed", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME,                          \
	  "%a redeemed a ticket for %n")                                                                             \
	X(TICKETS_REVOKED, "tickets-revoked", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME,                          \
	  "tickets for %n are void, %d of which nobody had redeemed")                                                \
	X(ISSUE_REFUSED, "issue-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                                \
	  "%a was refused a ticket for %n: %e")                                                                      \
	X(TICKET_FORGED, "ticket-forged", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NONE,                                \
	  "%a wanted to redeem a ticket that is forged or damaged")                                                  \
	X(TICKET_EXPIRED, "ticket-expired", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NONE,                              \
	  "%a wanted to redeem a ticket that has expired")                                                           \
	X(TICKET_VOID, "ticket-void", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_CAUSE, "%a was refused a redeem: %e")    \
	X(ACQUIRE_REFUSED, "acquire-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                            \
	  "%a was refused the acquire of %n: %e")                                                                    \
	X(EVICT, "evict", EVENT_OF_USERS, LOG_QUIET, 20, SUBJECT_NONE,                                               \
	  "%o is disconnected: it was evicted by %a")                                                                \
	X(EVICT_REFUSED, "evict-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NONE,                                \
	  "%a was refused the eviction of %o: %e")                                                                   \
	X(CONNECTION_REFUSED, "connection-refused", EVENT_REFUSED, LOG_QUIET, 5, SUBJECT_CAUSE,                      \
	  "a connection is refused: %e")                                                                             \
	X(CUT, "cut", EVENT_REFUSED, LOG_QUIET, 20, SUBJECT_CAUSE, "%a is disconnected: %e")                         \
	X(DEATH, "death", EVENT_OF_USERS, LOG_NORMAL, 20, SUBJECT_NONE,                                              \
	  "%a died, and the mappings that it held have ended: %d")                                                     \
	X(TEARDOWN, "teardown", EVENT_OF_USERS, LOG_NORMAL, 20, SUBJECT_NONE,                                        \
	  "%a died, and the driver still tears down its work: what it holds waits for that")                         \
	X(RECLAIMED, "reclaimed", EVENT_OF_USERS, LOG_NORMAL, 20, SUBJECT_NONE,                                      \
	  "the work of %a is torn down, %d ms after its death")                                                      \
	X(UNPROVEN, "unproven", EVENT_OF_USERS, LOG_QUIET, 20, SUBJECT_CAUSE,                                        \
	  "%a died and what it mapped stays allocated: %e")                                                          \
	X(SEAL, "seal", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a sealed %n")                                \
	X(SEAL_REFUSED, "seal-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                                  \
	  "%a was refused the seal of %n: %e")                                                                       \
	X(UNLINK_REPLACED, "unlink-replaced", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME,                          \
	  "%n was unlinked because %a renamed another buffer to its name")                                           \
	X(RENAME, "rename", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a renamed %n")                           \
	X(RENAMED, "renamed", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%n has its name by a rename of %a")     \
	X(RENAME_REFUSED, "rename-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                              \
	  "%a was refused the rename of %n: %e")                                                                     \
	X(RESIZE, "resize", EVENT_OF_USERS, LOG_VERBOSE, 0, SUBJECT_NAME, "%a resized %n to %b")                     \
	X(RESIZE_REFUSED, "resize-refused", EVENT_REFUSED, LOG_NORMAL, 5, SUBJECT_NAME,                              \
	  "%a was refused the resize of %n to %b: %e")                                                               \
	X(NAME_RESTORED, "name-restored", EVENT_OF_BROKER, LOG_QUIET, 20, SUBJECT_CAUSE,                             \
	  "somebody removed a name of the broker, which is made again: %e")                                          \
	X(NAME_LOST, "name-lost", EVENT_OF_BROKER, LOG_QUIET, 20, SUBJECT_CAUSE, "%e")                               \
	X(OWNER_DIED, "owner-died", EVENT_OF_BROKER, LOG_QUIET, 0, SUBJECT_NONE,                                     \
	  "the process that owned the device memory (%o) has ended; buffers that lost their names: %d")              \
	X(OWNER_STARTED, "owner-started", EVENT_OF_BROKER, LOG_QUIET, 0, SUBJECT_CAUSE, "%e")                        \
	X(UNLINK_ORPHAN, "unlink-orphan", EVENT_OF_USERS, LOG_NORMAL, 20, SUBJECT_NAME,                              \
	  "%n was unlinked because the process that owned its memory has ended")                                     \
	X(LEDGER_DAMAGED, "ledger-damaged", EVENT_OF_BROKER, LOG_QUIET, 0, SUBJECT_CAUSE,                            \
	  "%d records of the broker before this one are damaged: no memory is freed until the processes that were "  \
	  "connected to it have ended (%e)")                                                                         \
	X(BROKER_REPLACED, "broker-replaced", EVENT_OF_BROKER, LOG_QUIET, 0, SUBJECT_CAUSE, "%e")

enum event_kind {
#define EVENT_ID(id, name, part, level, lines, subject, text) EVENT_##id,
	EVENTS_KNOWN(EVENT_ID)
#undef EVENT_ID
	EVENT_KINDS
};

/* A process that an event is about. All zeroes: the broker. */
struct event_party {
	uint64_t    session; /* id of the process's session; 0: the process has none */
	uint32_t    pid, uid;
	const char *command; /* name of the process's program, for the log only; NULL: not known */
};

struct broker_event {
	enum event_kind    kind;
	int                error; /* negative errno of a refusal or of a failure; 0: neither */
	struct event_party actor; /* the process that caused the event */
	struct event_party other; /* the process or user that was affected, if there is one */
	uint64_t           bytes;
	uint32_t           detail;   /* a number that the format of the kind shows, by %d or %m */
	const char        *name;     /* name of the buffer; NULL: none */
	/* the cause, of a refusal as the client was told; NULL: the cause is the usual text for `error` */
	const char        *text;
	/* not 0: the event stands for so many events of its kind and reason, which were left out */
	uint32_t           left_out;
};

#define EVENT_TEXT_MAX 512

/* Writes the line for the event to text, in printable ASCII. Returns text. */
const char *event_text(const struct broker_event *event, char text[EVENT_TEXT_MAX]);

/* A row of EVENTS_KNOWN. */
struct event_row {
	const char        *name;
	enum event_part    part;
	enum log_level     level;
	unsigned           lines;
	enum event_subject subject;
	const char        *text;
};

extern const struct event_row event_rows[EVENT_KINDS];

int event_find(const char *name); /* returns the number of the kind with the name; -1: there is none */

/* Returns the reason for a negative errno as a word, such as "quota", "memory", "permission"; "" for 0. */
const char *event_reason(int error);

#define EVENT_REASONS 13 /* reasons are numbered from 0, which means no error; the last one is "other" */
unsigned event_reason_number(int error);
int event_reason_error(unsigned number); /* returns the negative errno that has that number */
bool event_is_ordinary(int error); /* true: an error that programs meet in normal use, such as a name that is taken */

#endif
