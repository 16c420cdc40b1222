/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session-end.h - ends sessions: hang-up, death, the proof of death, and the end of their mappings.
 *
 * A session without mappings ends when its socket has hung up. A session with mappings ends when its process is dead:
 * **pidfd readable and socket hung up, both** (invariant 9), and then no device lists the process any more. The end of
 * the session's requests, timelines and mappings is done in its user's share of each pass. Owns the questions to the
 * devices, which a thread of the owner that serves no device asks (owner/serve.h). Never waits for a client or a
 * device.
 */
#ifndef GPUB_SESSION_END_H
#define GPUB_SESSION_END_H

#include <stdbool.h>

#include <event2/util.h>

struct broker;
struct session;

/*
 * Handles the hang-up of a session's client: closes the socket, and drops the requests that wait. May end and free the
 * session.
 */
void session_hang_up(struct session *session);

/* Callback of the event of the session's pidfd: handles the death of the process. May end and free the session. */
void session_on_death(evutil_socket_t fd, short what, void *session);

/*
 * Asks the devices whether they are done with the session's process, which is dead and whose socket has hung up. Asks
 * again until they are, and then ends the session. If they cannot tell, ends everything of the session but its
 * mappings. A second call does nothing.
 */
void session_prove(struct session *session);

/*
 * Asks the devices again, if there was no memory for the timer of the next question. For serve.c.
 */
void session_prove_again(struct session *session);

/*
 * Does the work in session->due, within the user's share. If work is left, puts the session into its user's queue and
 * returns false.
 */
bool session_do_due(struct session *session);

/*
 * Ends the session's mappings, as long as the user's share allows, and frees the session after the last mapping. If
 * mappings are left, puts the session into its user's queue.
 */
void session_end_mappings(struct session *session);

/*
 * Frees a session. If the session still has mappings, frees no memory that they map, because a living process may map
 * it.
 */
void session_free(struct session *session);

void sessions_deinit(struct broker *broker); /* called before registry_deinit() */

#endif
