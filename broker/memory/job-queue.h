/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job-queue.h - the jobs of one device that wait to be sent to the owner, and which of them is next.
 *
 *   Releases, zeroing and requests (all other jobs) alternate. So memory that is given back is with the device soon,
 *   and a create does not wait for the zeroing of all the memory that its user has just given back.
 *   Releases are sent in the order of their submission, whoever owned the memory. Zeroing and requests have a fair
 *   queue each: one job of each user in turn, a user's jobs in the order of their submission. A question about a dead
 *   process counts as its user's. So a user waits for the few jobs that the owner has already (jobs.h), and for one of
 *   each other user and queue, however many jobs those have.
 *
 * Owns nothing: the queue's links are members of struct job. Nothing here can fail.
 */
#ifndef GPUB_JOB_QUEUE_H
#define GPUB_JOB_QUEUE_H

#include <stdbool.h>

#include "broker/base/round-robin.h"
#include "job.h"

#define USER_BUCKETS 64

enum { QUEUE_RELEASES, QUEUE_REQUESTS, QUEUE_ZEROES, QUEUES };

/* A fair queue of jobs: the users take turns, and each has a queue of its own. */
struct fair_jobs {
	struct round_robin users;
	struct job        *first[USER_BUCKETS]; /* lists of the first job of each user's queue, in buckets by uid */
};

/* All zeros: empty. */
struct job_queue {
	struct rr_item  *releases;     /* jobs with an ORDER_RELEASE, the oldest first */
	struct fair_jobs fair[QUEUES]; /* all other jobs; fair[QUEUE_RELEASES] is unused */
	/* index, modulo QUEUES, of the queue from which the next job is taken, if that queue has one */
	unsigned         next;
};

void job_queue_add(struct job_queue *queue, struct job *job);

bool job_queue_is_empty(const struct job_queue *queue);

/* Removes the next job. NULL: none waits. */
struct job *job_queue_take(struct job_queue *queue);

#endif
