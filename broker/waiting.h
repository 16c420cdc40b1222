/* SPDX-License-Identifier: Apache-2.0 */
/*
 * waiting.h - requests that cannot be answered yet: acquires of a name that is not there, creates for which
 * a device has no memory, drains whose buffer is not freed.
 *
 * Owns those requests and their timers. Acquires wait by name; creates wait in line, first come first
 * served for each device and user, so that a large one is not starved by small ones of the same user, and nobody's
 * holds up another user's. Knows sessions by id only: one that is gone or cut off when its turn comes is passed over.
 */
#ifndef GPUB_WAITING_H
#define GPUB_WAITING_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/wire.h"
#include "device/device.h"

struct acquire_wait;
struct broker;
struct buffer;
struct create_line;
struct create_wait;
struct name_line;
struct waiter;

struct waiting {
	struct name_line   *lines;   /* acquires, by name */
	struct name_line   *waking;  /* those whose name came, and some of whose acquires are yet to be granted */
	struct waiter      *waiters; /* all that waits, by session */
	struct create_line *create_lines;        /* creates, by device and user */
	struct create_line *creates[DEVICE_MAX]; /* the same, each device's: the user whose create ended last is the last */
	unsigned            ended; /* creates, so far: while it stays the same a device's lines do */
	unsigned            count;
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
 * Keeps a CREATING buffer in line for memory of its device. When memory came back and it is the first of its user,
 * retry() is called: the caller tries the device and then says waiting_create_failed(), which keeps its
 * place, or waiting_create_over(). When its time is over, or its session gone, it leaves the line and
 * expire() is called.
 */
struct create_hooks {
	void (*retry)(void *context);
	void (*expire)(void *context);
};
int waiting_create(struct broker *broker, unsigned device, uint64_t session, int timeout_ms,
		   const struct create_hooks *hooks, void *context, struct create_wait **wait);
void waiting_create_failed(struct create_wait *wait);
void waiting_create_over(struct create_wait *wait);

/* Is the user in line for memory of that device? Its newcomers then have to stand behind. */
bool waiting_for_memory(const struct broker *broker, unsigned device, uid_t uid);

/* Memory came back on that device: the first of each user tries again. */
void waiting_wake_memory(struct broker *broker, unsigned device);

/*
 * Answers that request when the LIVE buffer, which is about to be unlinked, is freed; with -ETIMEDOUT after timeout_ms.
 * There is one such wait a buffer at most, for only one can take its name away.
 */
int waiting_drain(struct broker *broker, struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms);

/* Nothing can touch the buffer any more: whoever waits for that is answered. */
void waiting_drained(struct broker *broker, struct buffer *buffer);

/* Forgets who waits for the buffer, unanswered: at the broker's end. */
void waiting_forget_drain(struct buffer *buffer);

/* The session is gone: drops what it waits for. */
void waiting_forget(struct broker *broker, uint64_t session);

/* The broker stops: drops all but the drains, which are answered when their memory is freed. */
void waiting_forget_all(struct broker *broker);

#endif
