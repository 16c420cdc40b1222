/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the handler of WRITER, by which a session becomes the one that signals a buffer's timeline. Owns nothing.
 */
#ifndef GPUB_WRITER_H
#define GPUB_WRITER_H

struct session;
struct wire_message;

/*
 * Answers with the timeline's page, writable. Negative errno with the error message set: dispatch.c sends the refusal.
 */
int writer_claim(struct session *session, const struct wire_message *message);

#endif
