/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore.h - what the ledger notes of sessions, and how the next broker gets its sessions from that.
 *
 * A session is the socket that was kept, so nothing is proven anew: the kernel still says who connected. Connections
 * that were not welcomed are not noted; their clients connect again. Owns nothing: a restored session is session.c's.
 */
#ifndef GPUB_SESSION_RESTORE_H
#define GPUB_SESSION_RESTORE_H

#include <stdint.h>

#include <event2/event.h>

struct broker;
struct session;

/* What the ledger notes of a session. Fields are only added, at the end (ledger_copy()). */
struct session_record {
	uint64_t id;
	uint64_t start;         /* start time of the process (base/process-start.h) */
	uint64_t since;         /* in seconds since 1970 */
	uint64_t leave_request; /* number of the LEAVE, if the state is SESSION_LEAVING */
	uint32_t pid, own_pid, rank, revision;
	uint32_t uid, gid;
	uint8_t  state;         /* enum session_state: SESSION_OPEN or later */
	uint8_t  opened, answers, mps;
	uint8_t  hung_up;       /* the client has closed the socket, which is not kept */
	uint8_t  owes;          /* it was sent an INQUIRE and has not answered */
	uint8_t  unused[2];
	char     command[16];
};

void session_note(const struct session *session, struct session_record *record);

/* Descriptors that were kept for a session. */
struct session_descriptors {
	int sock;  /* -1: the client has hung up */
	int pidfd;
};

/*
 * Makes the session that the record is of, charged to its user, with its events; `ready` is called when the socket can
 * be read. Takes over the descriptors. Returns 0; -ENOMEM; -EBADMSG: no session can have such a record, or the socket
 * is another process's. On failure the descriptors stay the caller's. The error message is set.
 */
int session_restore(struct broker *broker, const struct session_record *record,
		    const struct session_descriptors *kept, event_callback_fn ready, struct session **session);

/*
 * Handles all requests again that the broker before this one had accepted and not answered, in the order in which they
 * were accepted. Returns 0, or -ENOMEM with the error message set.
 */
int sessions_resume_pending(struct broker *broker);

#endif
