/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.h - the broker's side of the table of messages (common/wire.h): which handler a client's message has, and
 * which event a refusal is.
 *
 * Owns nothing. Takes a message that is already copied and checked for form, looks whether the session may send it now,
 * has its handler do what it asks for, and sends the refusal where that fails. To add a message: a row in
 * common/wire.h, a handler in the file of this room that does such things, and a row here.
 */
#ifndef GPUB_DISPATCH_H
#define GPUB_DISPATCH_H

struct session;
struct wire_message;

/* The session's hook (session_hooks). -EPROTO with the error message set: the message breaks the protocol. */
int dispatch_message(struct session *session, const struct wire_message *message);

#endif
