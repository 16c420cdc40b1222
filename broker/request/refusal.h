/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal.h - makes events of refused requests (base/events.h). dispatch.c calls the functions for its rows, and
 * acquire.c calls one for an ACQUIRE that waited. Owns nothing. Sends no answer.
 */
#ifndef GPUB_REFUSAL_H
#define GPUB_REFUSAL_H

#include <stdint.h>

#include "broker/base/event-kinds.h"

struct session;
struct wire_acquire;
struct wire_message;

/*
 * Makes an event of the kind: a request of the session for the buffer with the name was refused. bytes: the size that
 * the request asked for; 0: none. text: the error message.
 */
void refusal_happened(struct session *session, enum event_kind kind, const char *name, uint64_t bytes, int error,
		      const char *text);

/*
 * Make the event of a refused ACQUIRE. Make none of -ENOENT and -ETIMEDOUT, because programs poll for a name with
 * ACQUIRE.
 */
void refusal_of_acquire(struct session *session, const struct wire_message *message, int error, const char *text);
void refusal_of_waited_acquire(struct session *session, const struct wire_acquire *acquire, int error,
			       const char *text);

void refusal_of_evict(struct session *session, const struct wire_message *message, int error, const char *text);

/* Makes the event of a refused REDEEM. Makes none if the ticket itself is void, because delegation.c has made one. */
void refusal_of_redeem(struct session *session, const struct wire_message *message, int error, const char *text);

#endif
