/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal.h - the events that refused requests are (base/events.h), for the rows of dispatch.c. Owns nothing, answers
 * nobody.
 */
#ifndef GPUB_REFUSAL_H
#define GPUB_REFUSAL_H

#include <stdint.h>

#include "broker/base/event-kinds.h"

struct session;
struct wire_acquire;
struct wire_message;

/*
 * A request about the buffer of that name was refused. bytes: how many were asked for; 0: none. text: the error
 * message.
 */
void refusal_happened(struct session *session, enum event_kind kind, const char *name, uint64_t bytes, int error,
		      const char *text);

/* No event if the name is not there or the time is over, because programs poll that way. */
void refusal_of_acquire(struct session *session, const struct wire_message *message, int error, const char *text);
void refusal_of_waited_acquire(struct session *session, const struct wire_acquire *acquire, int error,
			       const char *text);

void refusal_of_evict(struct session *session, const struct wire_message *message, int error, const char *text);

/* No event for what is wrong with the ticket itself: delegation.c has that. */
void refusal_of_redeem(struct session *session, const struct wire_message *message, int error, const char *text);

#endif
