/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - one thread for each device, which alone calls that device for the broker; and one that asks about dead
 * processes.
 *
 * Device calls take from microseconds to seconds, and the control loop must never wait for one (invariant 5). The loop
 * submits a job, the device's thread runs it, and its done function runs in the loop again. Whether a process is gone
 * is asked of the driver for all devices at once, on a thread of its own, because a device that hangs must not keep the
 * memory of other devices from being freed. Owns the threads, their queues, and a job from submission until done is
 * called.
 *
 * Which job is next:
 *   Releases, zeroing and requests (all other jobs) alternate. So memory that is given back is with the device soon,
 *   and a create does not wait for the zeroing of all the memory that its user has just given back.
 *   Releases run in the order in which they came, whoever owned the memory. Zeroing and requests have a fair queue
 *   each: one job of each user in turn, a user's own in the order in which they came. A question about a dead process
 *   counts as its user's. So a user waits for one job of each other user and queue, however many jobs those have.
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
	unsigned             device;     /* the broker's index; unused by GONE */
	uid_t                uid;        /* the user in whose queue the job waits; unused by RELEASE */
	uint64_t             span;       /* bytes: whole granules, for ZERO any number */
	uint32_t             range;      /* ZERO: for done() */
	uint64_t             serial;     /* ZERO: of the buffer that had the range, for done() */
	uint64_t             room;       /* result of ROOM, and of ALLOCATE that fails: free bytes; 0: not known */
	void                *ptr;        /* result of ALLOCATE; what ZERO and RELEASE work on */
	pid_t                pid;        /* GONE: the process; device.h says what 0 and -EBUSY mean */
	bool                 mps;        /* GONE: the process ran under MPS */
	uint64_t             session;    /* GONE: for done() */
	unsigned             exported;   /* ALLOCATE: the kind of export */
	struct device_handle handle;     /* result of ALLOCATE */
	int                  descriptor; /* result of ALLOCATE; it stays the device's */
	int                  error;      /* result: 0, or a negative errno with the error message in text */
	char                 text[ERROR_TEXT_MAX];
	void (*done)(struct job *job);   /* called in the loop, and owns the job from then on */
	void                *context, *subject; /* for done() */
	struct rr_item       item;       /* in the queue that it waits in */
	struct rr_user       queue;      /* its user's queue, while the job is the first in it */
	struct job          *same_prev, *same_next; /* the first jobs of users in one bucket */
};

#define USER_BUCKETS 64

enum { QUEUE_RELEASES, QUEUE_REQUESTS, QUEUE_ZEROES, QUEUES };

/* A fair queue of jobs: each user has a queue in it. */
struct job_queue {
	struct round_robin users;
	struct job        *first[USER_BUCKETS]; /* the first job of each user's queue, in buckets by uid */
};

struct worker {
	struct workers    *workers;
	pthread_t          thread;
	struct rr_item    *releases;      /* jobs of that kind, the oldest first */
	struct job_queue   queue[QUEUES]; /* all other jobs; queue[QUEUE_RELEASES] is unused */
	unsigned           next;          /* index of the queue that the next job comes from, if it has one */
	pthread_cond_t     work;          /* a job came, or the thread is to end */
};

struct workers {
	const struct device *device;
	struct worker       *worker;   /* one for each device, and one behind them that asks about processes */
	unsigned             devices;  /* number of devices */
	unsigned             started;  /* number of workers whose thread runs */
	pthread_mutex_t      lock;     /* of the queues, done and stopping */
	bool                 stopping;
	struct rr_item      *done;     /* jobs that the loop has not taken back yet, the oldest first */
	int                  wake;     /* eventfd: done has a job */
	struct event        *woken;    /* of wake */
	unsigned             pending;  /* jobs submitted whose done() was not called; only the loop reads it */
};

/* Starts the threads. Negative errno with the error message set. */
int workers_start(struct workers *workers, struct event_base *base, const struct device *device, unsigned devices);

/* Runs the submitted jobs, then ends the threads. Does not call done() of jobs that the loop has not taken back. */
void workers_stop(struct workers *workers);

/* Puts a job into its queue. Its owner is the worker until done() is called. */
void workers_submit(struct workers *workers, struct job *job);

#endif
