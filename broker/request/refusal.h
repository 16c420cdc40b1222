/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal.h - which refusals of requests are events (base/events.h), and of which kind. Owns nothing, answers nobody.
 *
 * An acquire of a name that is not there, or whose time is over, is none: programs poll so. Nor is what changes nothing, such as
 * a STAT.
 */
#ifndef GPUB_REFUSAL_H
#define GPUB_REFUSAL_H

#include <stdint.h>

struct session;
struct wire_acquire;
struct wire_message;

/* The request was refused with that error, and that message. */
void refusal_happened(struct session *session, const struct wire_message *message, int error, const char *text);

/* The same of an acquire that may have waited. */
void refusal_of_acquire(struct session *session, const struct wire_acquire *acquire, int error, const char *text);

#endif
