/* SPDX-License-Identifier: Apache-2.0 */
/*
 * create-queue.h - creates that wait for memory: one queue for each device and user.
 *
 * A queue is first come, first served, so that small creates do not starve a large create of the same user, and creates
 * of one user do not delay those of another. A create that needs memory which only other users can free may be passed
 * by later creates of its user, because these take nothing from it. The driver does not report that a process outside
 * the broker freed memory. So a device for which a create waits is asked at intervals how much memory it has free. Owns
 * the queues; waiting.h ends a wait whose time is over. Never allocates device memory: the hook retry() of a create
 * asks the device for memory.
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

/* The queues of creates that wait for memory of one device. */
struct create_waits {
	struct broker       *broker;
	unsigned             device;
	struct create_queue *queues;   /* list with one queue for each user who has a create that waits */
	struct event        *look;     /* timer for asking the device how much memory is free; NULL: no create waits */
	unsigned             pause_ms; /* length of the timer `look`, in milliseconds */
	bool                 asked;    /* the device has not answered the last question for its free memory yet */
};

struct create_queues {
	struct create_waits  device[DEVICE_MAX];
	struct create_queue *by_key;    /* the queues of all devices, by device and user */
	uint64_t             forgotten; /* a bit for each device on which create_wake_forgotten() must wake creates */
	uint64_t             wakes;     /* number of calls of create_wake() since the broker began */
};

struct create_hooks {
	/*
	 * begins a try to get the memory; the owner of the create ends it by create_wait_failed() or create_wait_over()
	 */
	void (*retry)(void *context);
	void (*expire)(void *context); /* called when the wait has ended without memory */
	/* returns the buffer that the status file shows for the wait; NULL hook: no buffer is shown */
	const struct buffer *(*buffer)(const void *context);
};

/*
 * Puts a create into the queue of its user for memory of the allocation's device, and sets *wait. Calls retry() when
 * there may be enough memory and all earlier creates in the queue may be passed. When the time of the wait is over, its
 * request is cancelled, its session has ended or the broker stops, the create leaves the queue and expire() is called.
 * A try that is under way then ends first, and expire() is called only if the try failed. key: session and number of
 * the request that waits. timeout_ms: below 0 for ever. Returns 0 or -ENOMEM with the error message set.
 */
int create_wait(struct broker *broker, const struct allocation *allocation, struct wait_key key, int timeout_ms,
		const struct create_hooks *hooks, void *context, struct create_wait **wait);

/*
 * Ends a try that got no memory. The create keeps its place in the queue, unless its wait has ended meanwhile. Has
 * another create of the queue try, if there may be enough memory for that one.
 */
void create_wait_failed(struct create_wait *wait);

/* Takes the create out of the queue, frees the wait, and wakes other creates of the device. */
void create_wait_over(struct create_wait *wait);

/* Ends the wait as if its time were over, and wakes other creates of the device. */
void create_wait_abandon(struct create_wait *wait);

/*
 * Returns true if new creates of the user must wait for memory of the device, because a create of the user already
 * waits that later ones may not pass, or too many creates wait to look at all of them.
 */
bool create_must_wait(const struct broker *broker, unsigned device, uid_t uid);

/*
 * Has one create of each user without a try under way try again, if there may be enough memory for the create. Called
 * when the device has got memory back or was asked for its free memory, and when a create has left its queue.
 */
void create_wake(struct broker *broker, unsigned device);

/* Calls create_wake() for each device for whose memory a create waited that has ended with its session. */
void create_wake_forgotten(struct broker *broker);

#endif
