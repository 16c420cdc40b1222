/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-end.h - ends sessions: hang-up, death, the proof of death, and the end of their grants.
 *
 * A session without grants ends when its socket hung up. With grants it ends when the process died: **pidfd readable
 * and socket hung up, both** (invariant 9), and then no device lists the process any more. What follows for others, and the end of
 * its grants, is done in its user's share of each pass. Owns the questions to the devices. Never waits for a client or a device: a thread that serves no
 * device asks (workers.h).
 */
#ifndef GPUB_SESSION_END_H
#define GPUB_SESSION_END_H

#include <stdbool.h>

#include <event2/util.h>

struct broker;
struct session;

/* The client closed its end of the socket. May end the session. */
void session_hang_up(struct session *session);

/* The event callback of the session's pidfd: the process is dead. */
void session_on_death(evutil_socket_t fd, short what, void *session);

/*
 * The process is dead and the socket hung up: asks the devices whether they are done with it, once. Then the session
 * ends.
 */
void session_prove(struct session *session);

/* Does what is due, as long as the user's share allows it. True: all is done. Else the session waits in its user's queue. */
bool session_do_due(struct session *session);

/* Ends grants as long as the user's share allows it, and the session with the last of them. */
void session_end_grants(struct session *session);

/* Frees a session without ending its grants: what a living process maps is not freed. */
void session_free(struct session *session);

void sessions_deinit(struct broker *broker); /* before the registry's */

#endif
