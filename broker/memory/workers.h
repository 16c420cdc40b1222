/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - one thread for each device, which alone calls that device for the broker; and one that asks about dead processes.
 *
 * Device calls take from microseconds to seconds; the control loop must never wait for one (invariant 5).
 * The loop submits a job; the device's thread runs it; its done function runs in the loop again. Whether a process is gone
 * is asked of the driver, for all devices at once, on a thread of its own: a device that hangs must not keep the memory
 * of other devices from being freed.
 * Owns the threads, their queues, and a job from submission until done is called.
 *
 * Which job is next:
 *   Releases, zeroing and requests (all other jobs) alternate. So memory that is given back is with the device soon, and a
 *   create does not wait for the zeroing of all the memory that its user has just given back.
 *   Releases run in the order in which they came, whoever owned the memory. Zeroing and requests have a fair queue each:
 *   one job of each user in turn, a user's own in the order in which they came. A question about a dead process counts as
 *   its user's. So a user waits for one job of each other user and queue, however many jobs those have.
 */
#ifndef GPUB_WORKERS_H
#define GPUB_WORKERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <event2/event.h>

#include "broker/base/round-robin.h"
#include "common/error.h"
#include "device/device.h"

enum job_kind { JOB_ALLOCATE, JOB_ZERO, JOB_RELEASE, JOB_ROOM, JOB_GONE };

struct job {
	enum job_kind        kind;
	unsigned             device; /* GONE: none */
	uid_t                uid;  /* in whose queue it waits; RELEASE: none */
	uint64_t             span; /* bytes, whole granules; ZERO: any */
	uint32_t             range; /* ZERO: for done */
	uint64_t             serial; /* ZERO: of the buffer whose range it was, for done */
	uint64_t             room;   /* ROOM, and ALLOCATE that found none: bytes that the device has; 0: it could not tell */
	void                *ptr;  /* ALLOCATE: result; ZERO, RELEASE: what */
	pid_t                pid;  /* GONE: which process; 0 and -EBUSY as device.h says */
	bool                 mps;
	uint64_t             session;
	unsigned             exported; /* ALLOCATE: the kind of export */
	struct device_handle handle;
	int                  descriptor; /* ALLOCATE: result; the device's */
	int                  error; /* 0 or negative errno, with the error message in text */
	char                 text[ERROR_TEXT_MAX];
	void (*done)(struct job *job); /* in the loop; the job is its own from then on */
	void                *context, *subject; /* for done */
	struct rr_item       item;  /* in the queue that it is in */
	struct rr_user       queue; /* its user's, while it is the first in it */
	struct job          *same_prev, *same_next; /* then: in its bucket */
};

#define USER_BUCKETS 64

enum { QUEUE_RELEASES, QUEUE_REQUESTS, QUEUE_ZEROES, QUEUES };

/* A fair queue of jobs. */
struct job_queue {
	struct round_robin users;
	struct job        *first[USER_BUCKETS]; /* in each of those users' queues, by uid */
};

struct worker {
	struct workers    *workers;
	pthread_t          thread;
	struct rr_item    *releases; /* in the order in which they came */
	struct job_queue   queue[QUEUES]; /* all other jobs; of QUEUE_RELEASES: unused */
	unsigned           next;          /* from which queue the next job comes, if it has one */
	pthread_cond_t     work;
};

struct workers {
	const struct device *device;
	struct worker       *worker; /* of each device; the last one asks about processes */
	unsigned             devices, started;
	pthread_mutex_t      lock;
	bool                 stopping;
	struct rr_item      *done; /* in the order in which they were */
	int                  wake; /* eventfd: something is done */
	struct event        *woken;
	unsigned             pending; /* submitted and not done; only the loop reads it */
};

int workers_start(struct workers *workers, struct event_base *base, const struct device *device, unsigned devices);

/* Runs what was submitted, then ends the threads. Results not yet taken are dropped. */
void workers_stop(struct workers *workers);

void workers_submit(struct workers *workers, struct job *job);

#endif
