/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h - what ends with a session beside its grants: requests that wait, timelines, ephemeral buffers. And the
 * handler of LEAVE, by which a session ends in order.
 *
 * Owns nothing. Grants end in session/session-end.c.
 */
#ifndef GPUB_ENDING_H
#define GPUB_ENDING_H

#include "common/wire.h"

struct session;

int ending_leave(struct session *session, const struct wire_message *message);

/*
 * The session's hooks (session_hooks). Each does one piece and returns the cost of it in messages; 0: nothing was left
 * to do. expire refuses a request whose time is over; silence drops a request that waits; end ends a timeline, or
 * unlinks a buffer that ends with the session.
 */
unsigned ending_expire(struct session *session);
unsigned ending_silence(struct session *session);
unsigned ending_end(struct session *session);

#endif
