/* SPDX-License-Identifier: Apache-2.0 */
/* job-queue.c - see job-queue.h */
#include "job-queue.h"

#include <stddef.h>

#include <utlist.h>

static struct job *job_of(struct rr_item *item)
{
	return (struct job *)((char *)item - offsetof(struct job, item));
}

static struct job **bucket_of(struct fair_jobs *fair, uid_t uid)
{
	return &fair->first[uid % USER_BUCKETS];
}

static void fair_add(struct fair_jobs *fair, struct job *job)
{
	struct job **bucket = bucket_of(fair, job->order.uid), *first;

	DL_FOREACH2(*bucket, first, same_next)
		if (first->order.uid == job->order.uid)
			break;
	if (!first) {
		first = job;
		first->queue.items = NULL;
		DL_APPEND2(*bucket, first, same_prev, same_next);
	}
	rr_append(&fair->users, &first->queue, &job->item);
}

/* Takes the first job of the next user. The user's second job, if any, becomes the head of the user's queue. */
static struct job *fair_take(struct fair_jobs *fair)
{
	struct rr_user *user = fair->users.users;
	struct job *job = job_of(user->items), *next, **bucket = bucket_of(fair, job->order.uid);

	rr_remove(&fair->users, user, &job->item);
	DL_DELETE2(*bucket, job, same_prev, same_next);
	if (user->items) {
		next = job_of(user->items);
		rr_served(&fair->users, user, &next->queue);
		DL_APPEND2(*bucket, next, same_prev, same_next);
	}
	return job;
}

static struct job *release_take(struct job_queue *queue)
{
	struct rr_item *item = queue->releases;

	DL_DELETE(queue->releases, item);
	return job_of(item);
}

static struct job *take_from(struct job_queue *queue, unsigned which)
{
	if (which == QUEUE_RELEASES)
		return queue->releases ? release_take(queue) : NULL;
	return queue->fair[which].users.users ? fair_take(&queue->fair[which]) : NULL;
}

void job_queue_add(struct job_queue *queue, struct job *job)
{
	if (job->order.kind == ORDER_RELEASE)
		DL_APPEND(queue->releases, &job->item);
	else
		fair_add(&queue->fair[job->order.kind == ORDER_ZERO ? QUEUE_ZEROES : QUEUE_REQUESTS], job);
}

bool job_queue_is_empty(const struct job_queue *queue)
{
	return !queue->releases && !queue->fair[QUEUE_REQUESTS].users.users && !queue->fair[QUEUE_ZEROES].users.users;
}

struct job *job_queue_take(struct job_queue *queue)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		unsigned which = (queue->next + i) % QUEUES;
		struct job *job = take_from(queue, which);

		if (!job)
			continue;
		queue->next = which + 1;
		return job;
	}
	return NULL;
}
