/* SPDX-License-Identifier: Apache-2.0 */
/* workers.c - see workers.h */
#include "workers.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utlist.h>

#include "common/thread.h"

/* ---- the queue of a device: see workers.h for its order; the callers have the lock ---- */

static struct job *job_of(struct rr_item *item)
{
	return (struct job *)((char *)item - offsetof(struct job, item));
}

static struct job **bucket_of(struct job_queue *queue, uid_t uid)
{
	return &queue->first[uid % USER_BUCKETS];
}

static void job_add(struct job_queue *queue, struct job *job)
{
	struct job **bucket = bucket_of(queue, job->order.uid), *first;

	DL_FOREACH2(*bucket, first, same_next)
		if (first->order.uid == job->order.uid)
			break;
	if (!first) {
		first = job;
		first->queue.items = NULL;
		DL_APPEND2(*bucket, first, same_prev, same_next);
	}
	rr_append(&queue->users, &first->queue, &job->item);
}

/*
 * Takes the first job of the next user of the fair queue. The user's second job, if any, becomes the head of the user's
 * queue.
 */
static struct job *job_take_fair(struct job_queue *queue)
{
	struct rr_user *user = queue->users.users;
	struct job *job = job_of(user->items), *next, **bucket = bucket_of(queue, job->order.uid);

	rr_remove(&queue->users, user, &job->item);
	DL_DELETE2(*bucket, job, same_prev, same_next);
	if (user->items) {
		next = job_of(user->items);
		rr_served(&queue->users, user, &next->queue);
		DL_APPEND2(*bucket, next, same_prev, same_next);
	}
	return job;
}

static struct job *item_take(struct rr_item **items)
{
	struct rr_item *item = *items;

	DL_DELETE(*items, item);
	return job_of(item);
}

static struct job *queue_take_from(struct worker *worker, unsigned queue)
{
	if (queue == QUEUE_RELEASES)
		return worker->releases ? item_take(&worker->releases) : NULL;
	return worker->queue[queue].users.users ? job_take_fair(&worker->queue[queue]) : NULL;
}

/* Takes the next job of a device; its queues take turns. NULL: all queues are empty. */
static struct job *queue_take(struct worker *worker)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		unsigned queue = (worker->next + i) % QUEUES;
		struct job *job = queue_take_from(worker, queue);

		if (!job)
			continue;
		worker->next = queue + 1;
		return job;
	}
	return NULL;
}

/* ---- the threads ---- */

static struct job *job_take(struct worker *worker)
{
	struct workers *workers = worker->workers;
	struct job *job;

	pthread_mutex_lock(&workers->lock);
	while (!(job = queue_take(worker)) && !workers->stopping)
		pthread_cond_wait(&worker->work, &workers->lock);
	pthread_mutex_unlock(&workers->lock);
	return job;
}

static void job_hand_back(struct workers *workers, struct job *job)
{
	uint64_t one = 1;

	pthread_mutex_lock(&workers->lock);
	DL_APPEND(workers->done, &job->item);
	pthread_mutex_unlock(&workers->lock);
	/* cannot fail, because the eventfd's counter cannot overflow before the loop reads it */
	if (write(workers->wake, &one, sizeof one) < 0)
		abort();
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct job *job;

	while ((job = job_take(worker))) {
		owner_carry_out(&worker->owner, &job->order, &job->outcome);
		job_hand_back(worker->workers, job);
	}
	return NULL;
}

static void on_woken(evutil_socket_t fd, short what, void *argument)
{
	struct workers *workers = argument;
	struct rr_item *done;
	struct job *job;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof count) < 0)
		return;
	pthread_mutex_lock(&workers->lock);
	done = workers->done;
	workers->done = NULL;
	pthread_mutex_unlock(&workers->lock);
	while (done) {
		job = item_take(&done);
		workers->pending--;
		job->done(job);
	}
}

static int worker_start(struct worker *worker)
{
	pthread_cond_init(&worker->work, NULL);
	return thread_start(&worker->thread, worker_main, worker);
}

int workers_start(struct workers *workers, struct event_base *base, const struct device *device, unsigned devices)
{
	int error = -ENOMEM;

	memset(workers, 0, sizeof *workers);
	pthread_mutex_init(&workers->lock, NULL);
	workers->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (workers->wake < 0)
		return error_set(-errno, "no eventfd for the device threads: %m");
	workers->woken = event_new(base, workers->wake, EV_READ | EV_PERSIST, on_woken, workers);
	workers->worker = calloc(devices + 1, sizeof *workers->worker);
	if (!workers->woken || event_add(workers->woken, NULL) || !workers->worker)
		goto stop;
	workers->devices = devices;
	for (unsigned i = 0; i <= devices; i++) {
		workers->worker[i].workers = workers;
		workers->worker[i].owner.device = device;
		error = worker_start(&workers->worker[i]);
		if (error)
			goto stop;
		workers->started++;
	}
	return 0;
stop:
	workers_stop(workers);
	return error_set(error, "the device threads cannot start: %s", strerror(-error));
}

void workers_stop(struct workers *workers)
{
	pthread_mutex_lock(&workers->lock);
	workers->stopping = true;
	for (unsigned i = 0; i < workers->started; i++)
		pthread_cond_signal(&workers->worker[i].work);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->started; i++) {
		pthread_join(workers->worker[i].thread, NULL);
		pthread_cond_destroy(&workers->worker[i].work);
		owner_deinit(&workers->worker[i].owner);
	}
	while (workers->done)
		free(item_take(&workers->done));
	if (workers->woken)
		event_free(workers->woken);
	close(workers->wake);
	free(workers->worker);
	pthread_mutex_destroy(&workers->lock);
}

static struct worker *worker_of(struct workers *workers, const struct job *job)
{
	return &workers->worker[job->order.kind == ORDER_GONE ? workers->devices : job->order.device];
}

void workers_submit(struct workers *workers, struct job *job)
{
	struct worker *worker = worker_of(workers, job);

	workers->pending++;
	if (job->order.kind == ORDER_ALLOCATE)
		job->order.memory = ++workers->numbers;
	pthread_mutex_lock(&workers->lock);
	if (job->order.kind == ORDER_RELEASE)
		DL_APPEND(worker->releases, &job->item);
	else
		job_add(&worker->queue[job->order.kind == ORDER_ZERO ? QUEUE_ZEROES : QUEUE_REQUESTS], job);
	pthread_cond_signal(&worker->work);
	pthread_mutex_unlock(&workers->lock);
}
