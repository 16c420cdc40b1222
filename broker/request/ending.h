/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h - ends what a session has beside its mappings: requests that wait, timelines, ephemeral buffers. Also the
 * handler of LEAVE, by which a session ends in order.
 *
 * Owns nothing. session/session-end.c ends the mappings.
 */
#ifndef GPUB_ENDING_H
#define GPUB_ENDING_H

#include "common/wire.h"

struct session;

int ending_leave(struct session *session, const struct wire_message *message); /* LEAVE */

/*
 * The session's hooks (session_hooks). Each call does one piece of work and returns its cost in messages, or 0 if
 * nothing was left to do. expire refuses a request whose time is over. silence drops a request that waits. end ends a
 * timeline, or unlinks an ephemeral buffer of the session.
 */
unsigned ending_expire(struct session *session);
unsigned ending_silence(struct session *session);
unsigned ending_end(struct session *session);

#endif
