/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending.h - ends what a session has beside its mappings: its requests that wait, its timelines, and its ephemeral
 * buffers. Also has the handler of LEAVE, by which a client ends its session in order.
 *
 * Owns nothing. session/session-end.c ends the mappings.
 */
#ifndef GPUB_ENDING_H
#define GPUB_ENDING_H

#include "common/wire.h"

struct session;

/* Handles LEAVE: begins the end of the session in order. Returns 0. */
int ending_leave(struct session *session, const struct wire_message *message);

/*
 * Hooks of struct session_hooks. Each call does one piece of work and returns the cost of the work in messages (see
 * fair-queue.h), or 0 if nothing was left to do. ending_expire() refuses one request whose time is over.
 * ending_silence() drops one request that waits, without an answer (but a create of a client that leaves is refused);
 * when none is left, it takes the session out of the inquiry and has creates of others look for memory. ending_end()
 * ends one timeline, or unlinks one ephemeral buffer of the session.
 */
unsigned ending_expire(struct session *session);
unsigned ending_silence(struct session *session);
unsigned ending_end(struct session *session);

#endif
