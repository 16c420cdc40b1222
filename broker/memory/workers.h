/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - one thread for each device, which alone carries out the orders (owner/owner.h) about its memory, and one
 * thread that asks the driver about dead processes.
 *
 * Device calls take from microseconds to seconds, and the control loop must never wait for one (invariant 5). The loop
 * submits a job, the device's thread runs it, and its done function runs in the loop again. The question whether a
 * process is gone is put to the driver for all devices at once, on a thread of its own, because a device that hangs
 * must not keep the memory of other devices from being freed. Owns the threads, their queues, and a job from submission
 * until done is called.
 *
 * Which job of a device is next:
 *   Releases, zeroing and requests (all other jobs) alternate. So memory that is given back is with the device soon,
 *   and a create does not wait for the zeroing of all the memory that its user has just given back.
 *   Releases run in the order of their submission, whoever owned the memory. Zeroing and requests have a fair queue
 *   each: one job of each user in turn, a user's jobs in the order of their submission. A question about a dead process
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
#include "broker/owner/order.h"
#include "broker/owner/owner.h"

/* An order, and what the loop does when it is carried out. */
struct job {
	struct order         order;
	struct outcome       outcome;
	uint32_t             range;      /* ZERO: number of the range, for done() */
	uint64_t             serial;     /* ZERO: serial of the buffer that had the range, for done() */
	uint64_t             session;    /* GONE: id of the process's session, for done() */
	void (*done)(struct job *job);   /* called in the loop with the result; owns the job from then on */
	void                *context, *subject; /* pointers that done() needs */
	struct rr_item       item;       /* links in the queue that the job waits in, or in workers->done */
	struct rr_user       queue;      /* head of its user's queue, while the job is the first in it */
	/* links in the list job_queue.first, while the job is the first of its user */
	struct job          *same_prev, *same_next;
};

#define USER_BUCKETS 64

enum { QUEUE_RELEASES, QUEUE_REQUESTS, QUEUE_ZEROES, QUEUES };

/* A fair queue of jobs: the users take turns, and each has a queue of its own. */
struct job_queue {
	struct round_robin users;
	struct job        *first[USER_BUCKETS]; /* lists of the first job of each user's queue, in buckets by uid */
};

struct worker {
	struct workers    *workers;
	pthread_t          thread;
	struct owner       owner;         /* the memory of the device; used by the thread alone */
	struct rr_item    *releases;      /* jobs with an ORDER_RELEASE, the oldest first */
	struct job_queue   queue[QUEUES]; /* all other jobs; queue[QUEUE_RELEASES] is unused */
	/* index, modulo QUEUES, of the queue from which the next job is taken, if that queue has one */
	unsigned           next;
	pthread_cond_t     work;          /* signalled when a job was submitted, or the thread is to end */
};

struct workers {
	/* array of one worker for each device, and a last one that asks about processes */
	struct worker       *worker;
	unsigned             devices;  /* number of devices */
	unsigned             started;  /* number of workers whose thread runs */
	pthread_mutex_t      lock;     /* protects the queues, done and stopping */
	bool                 stopping;
	struct rr_item      *done;     /* jobs that the loop has not taken back yet, the oldest first */
	int                  wake;     /* eventfd that a worker writes when it added a job to `done` */
	struct event        *woken;    /* event of `wake` */
	/* number of submitted jobs whose done() was not called yet; used by the loop only */
	unsigned             pending;
	uint64_t             numbers;  /* number of the last memory that was ordered; used by the loop only */
};

/* Starts the threads. devices: number of devices. Returns 0 or a negative errno with the error message set. */
int workers_start(struct workers *workers, struct event_base *base, const struct device *device, unsigned devices);

/* Runs the submitted jobs, then ends the threads. Does not call done() of jobs that the loop has not taken back. */
void workers_stop(struct workers *workers);

/*
 * Puts a job into the queue of its device or, for GONE, of the thread that asks about processes. Gives an ALLOCATE the
 * number of its memory. The workers own the job until done() is called.
 */
void workers_submit(struct workers *workers, struct job *job);

#endif
