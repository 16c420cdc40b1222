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
 * LANE_ORDERS (owner/order.h) orders of a lane are with the owner at most. If there are more than LANE_LEAST, they are
 * about LANE_BYTES at most.
 */
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
	/* number of orders that were sent and whose outcome is not handled yet: those in `sent`, and one in done() */
	unsigned         count;
	uint64_t         bytes;    /* bytes that they are about */
	/* number of the newest order whose outcome the owner keeps and whose done() has returned; 0: none */
	uint64_t         acknowledged;
	/* the owner has not sent LISTED_END yet; `held` has the jobs of jobs_submit_again() */
	bool             listing;
	uint64_t         last;     /* number of the order that the last owner carried out when it ended; 0: none */
};

struct jobs {
	struct lane  *lane;     /* one for each device, and a last one for ORDER_GONE and ORDER_NAMES */
	unsigned      lanes;
	/* event: a timer for orders that the kernel had no memory for; made active, it also lets jobs fail */
	struct event *again;
	struct tracking *tracking; /* has what the ledger notes of jobs; NULL: nothing is noted */
	unsigned      pending;  /* number of submitted jobs whose done() was not called yet */
	uint64_t      numbers;  /* number of the last order; a successor begins with the number of the broker before */
	uint64_t      answered; /* number of orders that owners have answered, but for adoptions */
	bool          lost;     /* the owner has ended, and no other one has started: jobs wait */
	bool          failed;   /* no other owner will start: jobs fail */
	bool          stopping; /* neither done() nor when_listed() is called any more */
	/* true: orders wait for jobs_send(), because nobody may act on a change that is not noted yet */
	bool          defers;
	bool          unsent;   /* orders wait for jobs_send() */
	bool          holds;    /* RELEASEs with a descriptor wait for jobs_let_release() */
	uint64_t      let;      /* while `holds`: number of the last order that does not wait */
	uint64_t      marked;   /* while `holds`: number of the last order that the next jobs_let_release() lets go */
	void (*when_lost)(void *context); /* called when an owner has ended */
	/* called with each entry of the owner's lists (jobs_join); NULL: the owner sends no lists */
	void (*when_listed)(void *context, unsigned lane, const struct listed *listed);
	void         *context;
};

/*
 * Begins to send orders to the owner at the other ends of `count` non-blocking sockets, which stay the caller's. If the
 * owner ends, when_lost(context) is called, and jobs wait until jobs_resume() or jobs_fail(). Returns 0, or -ENOMEM
 * with the error message set.
 */
int jobs_start(struct jobs *jobs, struct event_base *base, const int *socks, unsigned count,
	       void (*when_lost)(void *context), void *context);

/*
 * Says that the owner has served another broker (owner/serve.h), which has ended. Called after jobs_start() and before
 * any job is submitted. A lane's orders wait until the loop has read the owner's list of the lane, of which
 * when_listed(context, lane, listed) is told; lane: the device's number, or the number of devices:
 *   LISTED_MEMORY   memory that the owner has;
 *   LISTED_OUTCOME  what became of an order for which no job waits. The descriptor is the callee's. It is -EMFILE if
 *                   this process had none left for it;
 *   LISTED_END      orders are sent when when_listed() has returned. Until then it may call jobs_adopt(), for memory of
 *                   the device that was not listed, and jobs_submit_first().
 * If a job of jobs_submit_again() waits for the outcome, it is done instead. The outcome is acknowledged when
 * when_listed() or done() has returned. If the owner ends first, when_lost() is called, and the rest is not listed.
 */
void jobs_join(struct jobs *jobs, void (*when_listed)(void *context, unsigned lane, const struct listed *listed));

/*
 * Submits a job that an earlier broker had submitted, with its number there: order.number, and for an ALLOCATE
 * order.memory, are set. Not for an ADOPT. If the owner lists the order as carried out, done() is called, and the order
 * is not sent. Called before the loop reads the owner's list; at LISTED_END the jobs that are left go into the queue.
 */
void jobs_submit_again(struct jobs *jobs, struct job *job);

/* Waits until the owner has all orders, and forgets all jobs without a call of done(). The owner goes on. */
void jobs_stop(struct jobs *jobs);

/* Sends the orders that wait, as many as the owner may have. */
void jobs_send(struct jobs *jobs);

/*
 * Begins, or ends, to hold back each RELEASE that has a descriptor, until another process has closed its duplicate: the
 * last close, which frees the memory, must be the owner's. Orders of the same lane that follow a RELEASE wait with it.
 */
void jobs_hold_releases(struct jobs *jobs, bool holds);

/* Says that the RELEASEs that are submitted by now need no more than what that process has been asked by now. */
void jobs_mark_releases(struct jobs *jobs);

/* Whether RELEASEs may be held back that were not let go. */
bool jobs_hold_any(const struct jobs *jobs);

/* Lets the RELEASEs go that were marked: jobs_send() sends them. */
void jobs_let_release(struct jobs *jobs);

/*
 * Sends orders to another owner, which has the other ends of these sockets, as many as before. The one before it has
 * ended: the orders that it had not answered are sent again. Orders of jobs_adopt() go before all others. Returns 0, or
 * -ENOMEM with the error message set: jobs wait on.
 */
int jobs_resume(struct jobs *jobs, const int *socks);

/*
 * Has the next owner take over memory: order is an ADOPT but for its number. The descriptor stays the caller's, who has
 * it until the RELEASE of the memory is submitted. Called while there is no owner, or by when_listed(). done() is
 * called as for other jobs, but if the owner ends before it has answered, or none starts, the job is freed instead.
 */
void jobs_adopt(struct jobs *jobs, struct job *job, int descriptor);

/*
 * Submits a job whose order is sent before all others of its lane, whoever's turn it is. Called by when_listed(), for
 * the RELEASE of memory that the owner has and the broker does not know.
 */
void jobs_submit_first(struct jobs *jobs, struct job *job);

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
