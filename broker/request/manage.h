/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage.h - the handlers of the requests that manage buffers and sessions: UNLINK, CHANGE, SEAL, RENAME, DRAIN, EVICT,
 * ISSUE.
 *
 * Owns nothing. A handler checks the session's rights, changes the registry, and answers. Handlers return 0, or a
 * negative errno with the error message set, which dispatch.c sends as the refusal.
 */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include "common/wire.h"

struct broker;
struct buffer;
struct session;

/*
 * Checks that the session's user may manage the buffer: only the owner, root and the broker's own user may. Returns 0
 * or -EACCES. what: the verb for the error message, such as "unlink".
 */
int manage_check(const struct session *session, const struct buffer *buffer, const char *what);

/* Unlinks a LIVE buffer, and abandons its growth if it is growing. Does not check rights. May free the buffer. */
void manage_unlink(struct broker *broker, struct buffer *buffer);

/*
 * Handlers of UNLINK, CHANGE, SEAL, RENAME, DRAIN, EVICT and ISSUE: check the rights of the sender, and do what the
 * message asks for. Return 0, or a negative errno with the error message set.
 */
int manage_unlink_named(struct session *session, const struct wire_message *message);
int manage_change(struct session *session, const struct wire_message *message);
int manage_seal(struct session *session, const struct wire_message *message);
int manage_rename(struct session *session, const struct wire_message *message);
int manage_drain(struct session *session, const struct wire_message *message);
int manage_evict(struct session *session, const struct wire_message *message);
int manage_issue(struct session *session, const struct wire_message *message);

#endif
