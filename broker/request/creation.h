/* SPDX-License-Identifier: Apache-2.0 */
/*
 * creation.h - creates a buffer: checks the request, enters the buffer in the registry, has the owner make the
 * memory, or lets the create wait for memory (create-queue.h).
 *
 * Owns a create from creation_begin() to its answer. Each create gets exactly one answer. A create keeps the id of its
 * session and not a pointer, because the session may have ended when the device is done.
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

/* Says who asked for a create, and how the create is answered. */
struct creation_order {
	uint64_t session;    /* id of the session to answer; 0: the broker itself asked */
	uint64_t request;    /* number that the session gave its request */
	/* milliseconds that the create may wait in the queue for memory; 0: not at all; below 0: for ever */
	int      timeout_ms;
	/* called with the result, in place of an answer to the session; NULL: the session is answered */
	void (*done)(void *context, int error, const char *text);
	void    *context;    /* first argument of done() */
};

/*
 * Begins a create. Fills in those members of spec that follow from the session, the size and the flags, and rounds the
 * reserve. Returns 0 if the create is answered now or later, as the order says. Returns a negative errno with the error
 * message set if the create is refused at once; the order is not answered then.
 */
int creation_begin(struct broker *broker, struct buffer_spec *spec, const struct creation_order *order);

/*
 * Creates a buffer that belongs to the broker's own user. done() is called with 0 or a negative errno when the create
 * has ended. Returns a negative errno with the error message set if the create is refused at once; done() is not called
 * then.
 */
int broker_create(struct broker *broker, const char *name, const struct amount *amount, unsigned flags, unsigned mode,
		  void (*done)(void *context, int error, const char *text), void *context);

#endif
