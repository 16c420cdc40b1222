/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.h - requests that cannot be answered yet: acquires of a name that is not there, drains whose buffer is not
 * freed; creates for which a device has no memory are in create-queue.h.
 *
 * Owns those requests and their timers. Acquires wait by name. Knows sessions by id only: one that is gone or cut off
 * when its turn comes is passed over.
 */
#ifndef GPUB_WAITING_H
#define GPUB_WAITING_H

#include <stdbool.h>
#include <sys/types.h>

#include <event2/event.h>

#include "common/wire.h"

struct broker;
struct buffer;
struct drain_wait;
struct name_line;
struct waiter;

struct session;

struct waiting {
	/* The name is LIVE: grants it to the session that waited for it, or refuses. */
	void (*grant)(struct session *session, uint64_t request, const struct wire_acquire *acquire);
	struct name_line *lines;   /* acquires, by name */
	struct name_line *waking;  /* those whose name came, and some of whose acquires are yet to be granted */
	struct drain_wait *drains; /* by the serial of what is drained */
	struct waiter    *waiters; /* all but the creates, by session */
	unsigned          count;   /* of all, the creates among them */
};

/*
 * Keeps an acquire until its name appears; refuses it with -ETIMEDOUT after acquire->timeout_ms. -EDQUOT: the
 * session has too many already.
 */
int waiting_acquire(struct broker *broker, uint64_t session, uint64_t request, const struct wire_acquire *acquire);

/*
 * The name is LIVE now: grants it to all who wait for it. To a few at once, to the others, who may be as many as all users'
 * quotas allow, in the next passes of the loop, unless the name is gone by then: then they wait for the next.
 */
void waiting_wake_name(struct broker *broker, const char *name);

/* A pass of the loop: grants some of those that are yet to be. True: there are more. */
bool waiting_wake_more(struct broker *broker);

/*
 * Answers that request when the LIVE buffer, which is about to be unlinked, is freed; with -ETIMEDOUT after timeout_ms.
 * There is one such wait a buffer at most, for only one can take its name away.
 */
int waiting_drain(struct broker *broker, const struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms);

/* The registry's hook: the memory of the buffer with that serial is freed, or clean. context: the broker. */
void waiting_drained(void *context, uint64_t serial);

/* The session is gone: drops what it waits for. */
void waiting_forget(struct broker *broker, uint64_t session);

/* The broker stops: drops all but the drains, which are answered when their memory is freed. */
void waiting_forget_all(struct broker *broker);

/* At the broker's end: the drains, too. */
void waiting_deinit(struct broker *broker);

/* For create-queue.c: so many more wait; and a timer for a timeout, NULL with 0 where it never ends, or -ENOMEM. */
void waiting_count(struct broker *broker, int by);
int waiting_timer(struct event **timer, struct event_base *base, int timeout_ms, event_callback_fn expired,
		  void *context);

#endif
