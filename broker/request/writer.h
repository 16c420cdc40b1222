/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer.h - the handler of WRITER, by which a session becomes the writer of a buffer's timeline. Owns nothing.
 */
#ifndef GPUB_WRITER_H
#define GPUB_WRITER_H

struct session;
struct wire_message;

/*
 * Makes the session the writer of the timeline, and answers with a writable descriptor of the timeline's page. Returns
 * 0, or a negative errno with the error message set, which dispatch.c sends as the refusal.
 */
int writer_claim(struct session *session, const struct wire_message *message);

#endif
