/* SPDX-License-Identifier: Apache-2.0 */
/* workers.c - see workers.h */
#include "workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/thread.h"

/* Zeroed before anybody can be granted it (invariant 6); undone in reverse order. */
static int job_allocate(const struct device *device, struct job *job)
{
	int error = device->allocate((int)job->device, job->span, &job->ptr);

	if (error)
		return error;
	error = device->zero((int)job->device, job->ptr, job->span);
	if (!error)
		error = device->export_handle((int)job->device, job->ptr, &job->handle);
	if (error)
		device->release((int)job->device, job->ptr);
	return error;
}

/* For the refused, who may get what is missing from elsewhere. */
static void job_ask_room(const struct device *device, struct job *job)
{
	if (device->room((int)job->device, &job->room))
		job->room = 0;
}

static int job_do(const struct device *device, struct job *job)
{
	switch (job->kind) {
	case JOB_ALLOCATE:
		return job_allocate(device, job);
	case JOB_ZERO:
		return device->zero((int)job->device, job->ptr, job->span);
	case JOB_RELEASE:
		return device->release((int)job->device, job->ptr);
	case JOB_ROOM:
		return device->room((int)job->device, &job->room);
	default:
		return device->gone(job->pid, job->mps);
	}
}

static void job_run(const struct device *device, struct job *job)
{
	job->error = job_do(device, job);
	if (job->error)
		memcpy(job->text, error_text(), sizeof job->text);
	if (job->kind == JOB_ALLOCATE && job->error == -ENOMEM)
		job_ask_room(device, job);
}

/* ---- the queue of a device: see workers.h for its order; all under the lock ---- */

static void queue_init(struct worker *worker)
{
	worker->release_end = &worker->release;
	worker->lines_end = &worker->lines;
}

static void release_add(struct worker *worker, struct job *job)
{
	*worker->release_end = job;
	worker->release_end = &job->next;
}

static struct job *release_take(struct worker *worker)
{
	struct job *job = worker->release;

	if (!job)
		return NULL;
	worker->release = job->next;
	if (!job->next)
		worker->release_end = &worker->release;
	return job;
}

/* The job is the first of its line, which has its turn after all others. */
static void line_append(struct worker *worker, struct job *first)
{
	first->next_line = NULL;
	*worker->lines_end = first;
	worker->lines_end = &first->next_line;
}

static void line_add(struct worker *worker, struct job *job)
{
	struct job *first = worker->lines;

	while (first && first->uid != job->uid)
		first = first->next_line;
	if (first) {
		first->last->next = job;
		first->last = job;
		return;
	}
	job->last = job;
	line_append(worker, job);
}

/* From the line whose turn it is; what is left of that goes behind the others. */
static struct job *line_take(struct worker *worker)
{
	struct job *job = worker->lines;

	if (!job)
		return NULL;
	worker->lines = job->next_line;
	if (!job->next_line)
		worker->lines_end = &worker->lines;
	if (job->next) {
		job->next->last = job->last;
		line_append(worker, job->next);
	}
	return job;
}

static struct job *queue_take(struct worker *worker)
{
	bool release = worker->release && (worker->releases || !worker->lines);

	worker->releases = !release;
	return release ? release_take(worker) : line_take(worker);
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

	job->next = NULL;
	pthread_mutex_lock(&workers->lock);
	*workers->done_last = job;
	workers->done_last = &job->next;
	pthread_mutex_unlock(&workers->lock);
	/* the counter cannot overflow before the loop reads it, so this cannot fail */
	if (write(workers->wake, &one, sizeof one) < 0)
		abort();
}

static void *worker_main(void *argument)
{
	struct worker *worker = argument;
	struct job *job;

	while ((job = job_take(worker))) {
		job_run(worker->workers->device, job);
		job_hand_back(worker->workers, job);
	}
	return NULL;
}

static void on_woken(evutil_socket_t fd, short what, void *argument)
{
	struct workers *workers = argument;
	struct job *job, *next;
	uint64_t count;

	(void)what;
	if (read(fd, &count, sizeof count) < 0)
		return;
	pthread_mutex_lock(&workers->lock);
	job = workers->done_first;
	workers->done_first = NULL;
	workers->done_last = &workers->done_first;
	pthread_mutex_unlock(&workers->lock);
	for (; job; job = next) {
		next = job->next;
		workers->pending--;
		job->done(job);
	}
}

static int worker_start(struct worker *worker)
{
	queue_init(worker);
	pthread_cond_init(&worker->work, NULL);
	return thread_start(&worker->thread, worker_main, worker);
}

int workers_start(struct workers *workers, struct event_base *base, const struct device *device, unsigned devices)
{
	int error = -ENOMEM;

	memset(workers, 0, sizeof *workers);
	workers->device = device;
	workers->done_last = &workers->done_first;
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
	struct job *job, *next;

	pthread_mutex_lock(&workers->lock);
	workers->stopping = true;
	for (unsigned i = 0; i < workers->started; i++)
		pthread_cond_signal(&workers->worker[i].work);
	pthread_mutex_unlock(&workers->lock);
	for (unsigned i = 0; i < workers->started; i++) {
		pthread_join(workers->worker[i].thread, NULL);
		pthread_cond_destroy(&workers->worker[i].work);
	}
	for (job = workers->done_first; job; job = next) {
		next = job->next;
		free(job);
	}
	if (workers->woken)
		event_free(workers->woken);
	close(workers->wake);
	free(workers->worker);
	pthread_mutex_destroy(&workers->lock);
}

static struct worker *worker_of(struct workers *workers, const struct job *job)
{
	return &workers->worker[job->kind == JOB_GONE ? workers->devices : job->device];
}

void workers_submit(struct workers *workers, struct job *job)
{
	struct worker *worker = worker_of(workers, job);

	job->next = NULL;
	workers->pending++;
	pthread_mutex_lock(&workers->lock);
	if (job->kind == JOB_RELEASE)
		release_add(worker, job);
	else
		line_add(worker, job);
	pthread_cond_signal(&worker->work);
	pthread_mutex_unlock(&workers->lock);
}
