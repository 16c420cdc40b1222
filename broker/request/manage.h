/* SPDX-License-Identifier: Apache-2.0 */
/*
 * manage.h - what the managers of buffers and sessions ask for: unlink, change, seal, rename, drain, evict, issue a
 * ticket.
 *
 * Owns nothing: checks who may, changes the registry, answers. 0 or a negative errno with the error message set, which
 * dispatch.c then sends as the refusal.
 */
#ifndef GPUB_MANAGE_H
#define GPUB_MANAGE_H

#include "common/wire.h"

struct broker;
struct buffer;
struct session;

/*
 * Checks that the session may unlink, drain or change the buffer: it is the owner's, root's or the broker's own user's.
 */
int manage_check(const struct session *session, const struct buffer *buffer, const char *what);

/* Takes the name of a LIVE buffer away. Checks no rights. */
void manage_unlink(struct broker *broker, struct buffer *buffer);

/* The handlers. */
int manage_unlink_named(struct session *session, const struct wire_message *message); /* UNLINK */
int manage_change(struct session *session, const struct wire_message *message);
int manage_seal(struct session *session, const struct wire_message *message);
int manage_rename(struct session *session, const struct wire_message *message);
int manage_drain(struct session *session, const struct wire_message *message);
int manage_evict(struct session *session, const struct wire_message *message);
int manage_issue(struct session *session, const struct wire_message *message);

#endif
