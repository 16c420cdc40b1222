/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create-queue.h - creates that wait for memory: a queue for each device and user.
 *
 * First come, first served within a queue: small creates do not starve a large one of their user, and one user's do not delay another's.
 * A create that needs more than all that its user has on the device waits for other users: later ones that fit may then pass
 * it, since they take nothing from it. The driver does not report that a process outside the broker freed memory, so a device
 * for which a create waits is asked at intervals how much it has.
 * Owns the queues; waiting.h ends a wait whose time is over. Never asks a device for memory: the create's hooks do.
 */
#ifndef GPUB_CREATE_QUEUE_H
#define GPUB_CREATE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/device.h"
#include "waiting.h"

struct allocation;
struct broker;
struct buffer;
struct create_queue;
struct create_wait;
struct event;

/* Who waits for one device. */
struct create_waits {
	struct broker       *broker;
	unsigned             device;
	struct create_queue *queues;   /* one a user */
	struct event        *look;     /* timer: it is asked how much it has; NULL: nobody waits */
	unsigned             pause_ms; /* until then */
	bool                 asked;    /* its answer is awaited */
};

struct create_queues {
	struct create_waits  device[DEVICE_MAX];
	struct create_queue *by_key; /* all of them */
	uint64_t             forgotten; /* a bit for each device: creates ended with their session, others are yet to be woken */
	uint64_t             wakes;     /* so far */
};

/*
 * Keeps a CREATING buffer in the queue for its allocation's memory. When there may be enough, and it is the first of its
 * user or may pass those before it, retry() is called: the caller tries, and then says create_wait_failed(), which keeps
 * its place, or create_wait_over(). When its time is over, or its session gone, it leaves the queue and expire() is
 * called; where it tries just then, that comes first. -ENOMEM.
 */
struct create_hooks {
	void (*retry)(void *context);
	void (*expire)(void *context);
	const struct buffer *(*buffer)(const void *context); /* that is to be made; NULL: it is not shown */
};
int create_wait(struct broker *broker, const struct allocation *allocation, struct wait_key key, int timeout_ms,
		const struct create_hooks *hooks, void *context, struct create_wait **wait);
void create_wait_failed(struct create_wait *wait);
void create_wait_over(struct create_wait *wait);

/* Its time is over now. */
void create_wait_abandon(struct create_wait *wait);

/* Whether that user waits for memory of that device, so that its new creates must wait, too. */
bool create_must_wait(const struct broker *broker, unsigned device, uid_t uid);

/* Memory came back on that device, or is about to: those try again for whom it may be enough, one of each user. */
void create_wake(struct broker *broker, unsigned device);

/* Creates that waited ended with their session: there may be enough for those behind them. */
void create_wake_forgotten(struct broker *broker);

#endif
