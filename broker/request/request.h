/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - what each message of a welcomed client means for the registry.
 *
 * Owns nothing: reads a message that is already copied and checked for form, validates its sense, changes
 * the registry and answers. Never touches a socket but through session_send().
 */
#ifndef GPUB_REQUEST_H
#define GPUB_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire.h"

struct grant;
struct session;

/* Does what the message asks for. -EPROTO with the error message set: such a message breaks the protocol. */
int request_handle(struct session *session, const struct wire_message *message);

/* Grants a buffer that is LIVE to a session that asked for it, or refuses. waited_since: now_ns(CLOCK_MONOTONIC) then; 0: it did not wait. */
void request_grant(struct session *session, uint64_t request, const struct wire_acquire *acquire, uint64_t waited_since);

/* Tells who waited for a newer buffer of a name what it is. */
void request_tell_newer(struct session *session, uint64_t request, const struct wire_newer *newer);

/* The registry's hook: tells the grant's session that the buffer with that serial has no name any more, or another; 0: to close it all. */
void request_notice(void *context, struct grant *grant, uint64_t serial);

/*
 * The session's hooks (session_hooks). Each does one piece and returns its cost in messages; 0: nothing was left to do. expire refuses a request
 * whose time is over; silence drops a request that waits; end ends a timeline or unlinks a buffer that the session's end takes with it.
 */
unsigned request_expire(struct session *session);
unsigned request_silence(struct session *session);
unsigned request_end(struct session *session);

#endif
