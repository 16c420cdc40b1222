/* SPDX-License-Identifier: Apache-2.0 */
/*
 * creation.h - a buffer on its way from the request to LIVE: checked, entered in the registry, made by the
 * device's thread, or waiting for memory until some comes back (create-queue.h).
 *
 * Owns a create from creation_begin() to its answer, of which there is exactly one. Knows sessions by id
 * only: one may be gone when the device is done.
 */
#ifndef GPUB_CREATION_H
#define GPUB_CREATION_H

#include <stdint.h>

struct amount;
struct broker;
struct buffer_spec;
struct session;
struct wire_message;

/* The handler of CREATE. */
int creation_request(struct session *session, const struct wire_message *message);

/* Whom to answer: a session, or, for the broker's own, a function. */
struct creation_order {
	uint64_t session, request;
	int      timeout_ms; /* how long it may wait for memory */
	void (*done)(void *context, int error, const char *text);
	void    *context;
};

/*
 * Fills the members of spec that the session and the size decide. A request that is refused at once gets no other answer:
 * negative errno, message set.
 */
int creation_begin(struct broker *broker, struct buffer_spec *spec, const struct creation_order *order);

/* Makes a buffer that belongs to the broker's own user. Completes in the loop; done gets 0 or the errno. */
int broker_create(struct broker *broker, const char *name, const struct amount *amount, unsigned flags, unsigned mode,
		  void (*done)(void *context, int error, const char *text), void *context);

#endif
