/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch.h - the broker's side of the table of messages (common/wire.h): the handler of each client's message, and
 * the event that a refusal makes.
 *
 * Owns nothing. Takes a message that is already copied and checked for form, checks that the session may send the
 * message now, calls the handler, and sends a refusal if the handler fails. To add a message, add a row in
 * common/wire.h, a handler in a file of this folder, and a row in dispatch.c.
 */
#ifndef GPUB_DISPATCH_H
#define GPUB_DISPATCH_H

struct session;
struct wire_message;

/*
 * Handles one message of a client; a hook of struct session_hooks. Returns 0, also if the request is refused. -EPROTO
 * with the error message set: the message breaks the protocol.
 */
int dispatch_message(struct session *session, const struct wire_message *message);

#endif
