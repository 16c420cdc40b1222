/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.h - the broker's ends of the lanes: sends the owner of the device memory the broker's orders (owner/order.h),
 * and calls what the loop does when one is carried out.
 *
 * Device calls take from microseconds to seconds, and the control loop must never wait for one (invariant 5). The loop
 * submits a job, the owner carries out the job's order, and the job's done function runs in the loop. Each device has a
 * lane, and the questions that concern all devices have one more, because a device that hangs must not keep the memory
 * of other devices from being freed. Some orders of a lane are with the owner; the other jobs wait here, in the order
 * of job-queue.h. Owns the jobs from submission until done is called.
 */
#ifndef GPUB_JOBS_H
#define GPUB_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>

#include "job-queue.h"

/*
 * How many orders of a lane are with the owner at most, and for how many bytes if there are more than LANE_LEAST. With
 * fewer, an owner that has to wait for a processor would do little each time; with more, a user would wait longer
 * behind those of others.
 */
#define LANE_ORDERS 16
#define LANE_BYTES  (64u << 20)
#define LANE_LEAST  2

struct jobs;

struct lane {
	struct jobs     *jobs;
	int              sock;
	struct event    *readable; /* event: the owner has answered, or has ended */
	struct job_queue queue;    /* jobs that are not sent yet */
	struct rr_item  *held;     /* jobs that are sent before those of the queue, the first of them first */
	struct rr_item  *failing;  /* jobs that fail as soon as the loop runs `again` */
	struct rr_item  *sent;     /* list of the jobs that the owner has not answered */
	unsigned         count;    /* number of jobs in `sent` */
	uint64_t         bytes;    /* bytes that they are about */
	uint64_t         last;     /* number of the order that the last owner carried out when it ended; 0: none */
};

struct jobs {
	struct lane  *lane;     /* one for each device, and a last one for ORDER_GONE and ORDER_NAMES */
	unsigned      lanes;
	/* event: a timer for orders that the kernel had no memory for; made active, it also lets jobs fail */
	struct event *again;
	struct tracking *tracking; /* has what the ledger notes of jobs; NULL: nothing is noted */
	unsigned      pending;  /* number of submitted jobs whose done() was not called yet */
	uint64_t      numbers;  /* number of the last order */
	uint64_t      answered; /* number of orders that owners have answered, but for adoptions */
	bool          lost;     /* the owner has ended, and no other one has started: jobs wait */
	bool          failed;   /* no other owner will start: jobs fail */
	void (*when_lost)(void *context); /* called when an owner has ended */
	void         *context;
};

/*
 * Begins to send orders to the owner at the other ends of `count` non-blocking sockets, which stay the caller's. If the
 * owner ends, when_lost(context) is called, and jobs wait until jobs_resume() or jobs_fail(). Returns 0, or -ENOMEM
 * with the error message set.
 */
int jobs_start(struct jobs *jobs, struct event_base *base, const int *socks, unsigned count,
	       void (*when_lost)(void *context), void *context);

/* Waits until the owner has all orders, and forgets all jobs without a call of done(). The owner goes on. */
void jobs_stop(struct jobs *jobs);

/*
 * Sends orders to another owner, which has the other ends of these sockets, as many as before. The one before it has
 * ended: the orders that it had not answered are sent again. Orders of jobs_adopt() go before all others. Returns 0, or
 * -ENOMEM with the error message set: jobs wait on.
 */
int jobs_resume(struct jobs *jobs, const int *socks);

/*
 * Has the next owner take over memory: order is an ADOPT but for its number. The descriptor stays the caller's, who has
 * it until the RELEASE of the memory is submitted. Called while there is no owner. done() is called as for other jobs,
 * but if the next owner ends before it has answered, or none starts, the job is freed instead.
 */
void jobs_adopt(struct jobs *jobs, struct job *job, int descriptor);

/*
 * Notes that the owner has ended, as a lane's end does: reads the answers that it has sent, then calls when_lost().
 * Does nothing if that is known.
 */
void jobs_lose(struct jobs *jobs);

/*
 * Says how much the last owner's end is to be blamed on what it was doing on each device: JOBS_CRASH if it crashed,
 * JOBS_KILL if it was killed by SIGKILL, as by a kernel that is out of memory. An order at which three owners crashed,
 * or a hundred were killed, fails with -EIO, so that it does not end all later ones. A question is not blamed. Called
 * while there is no owner.
 */
#define JOBS_CRASH 34
#define JOBS_KILL  1
void jobs_blame(struct jobs *jobs, unsigned blame);

/* Lets all jobs fail with -EIO, from now on. Called while there is no owner. */
void jobs_fail(struct jobs *jobs);

/*
 * Has the owner carry out the job's order, and gives it its number; for an ALLOCATE this is the memory's, too. The
 * jobs own the job until done() is called, which is never called before this function returns.
 */
void jobs_submit(struct jobs *jobs, struct job *job);

#endif
