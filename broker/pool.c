/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - see pool.h */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker.h"
#include "log.h"

#define COUNT_MAX 1024 /* allocations: looking for one takes as long as there are many */

static uint64_t bytes_kept(const struct broker *broker, unsigned device)
{
	return broker->pool.bytes[device] + broker->registry.idle_bytes[device];
}

bool pool_wants(const struct broker *broker, unsigned device, uint64_t span)
{
	const struct pool *pool = &broker->pool;
	uint64_t kept = bytes_kept(broker, device);

	return !pool_is_wanted(broker, device) && pool->count < COUNT_MAX && kept <= pool->limit &&
	       span <= pool->limit - kept;
}

/* Who waits for memory waits for none of it to be zeroed first. */
bool pool_is_wanted(const struct broker *broker, unsigned device)
{
	return broker->stopping || broker->waiting.creates[device] || broker->pool.shortages[device];
}

void pool_coming(struct broker *broker, struct job *job, bool kept)
{
	job->number = broker->pool.next++;
	broker->pool.releasing[job->device]++;
	if (kept)
		broker->pool.bytes[job->device] += job->span;
}

void pool_forgo(struct broker *broker, const struct job *job)
{
	broker->pool.bytes[job->device] -= job->span;
}

void pool_arrived(struct broker *broker, const struct job *job)
{
	struct shortage *shortage;

	broker->pool.releasing[job->device]--;
	DL_FOREACH(broker->pool.shortages[job->device], shortage)
		shortage->left -= job->number < shortage->before;
}

void pool_put(struct broker *broker, struct job *job)
{
	struct pool *pool = &broker->pool;

	job->next = pool->jobs;
	pool->jobs = job;
	pool->count++;
	pool_trim(broker, job->device); /* the limit may be lower now */
}

static struct job *unlink_job(struct pool *pool, struct job **link)
{
	struct job *job = *link;

	*link = job->next;
	pool->count--;
	pool->bytes[job->device] -= job->span;
	return job;
}

static bool is_same(const struct slab_kind *a, const struct slab_kind *b)
{
	return a->device == b->device && a->owner == b->owner && a->group == b->group && a->mode == b->mode;
}

struct job *pool_take(struct broker *broker, const struct slab_kind *kind, uint64_t span)
{
	struct job **link;

	for (link = &broker->pool.jobs; *link; link = &(*link)->next)
		if ((*link)->span == span && is_same(&(*link)->whose, kind))
			return unlink_job(&broker->pool, link);
	return NULL;
}

static void freed(struct job *job)
{
	struct broker *broker = job->context;

	if (job->error)
		log_line("device %u could not free %llu bytes: %s", job->device, (unsigned long long)job->span,
			 job->text);
	pool_arrived(broker, job);
	waiting_wake_memory(broker, job->device);
	broker_changed(broker);
	free(job);
}

static void give_back(struct broker *broker, struct job *job)
{
	explicit_bzero(&job->handle, sizeof job->handle);
	job->kind = JOB_RELEASE;
	job->done = freed;
	job->context = broker;
	pool_coming(broker, job, false);
	workers_submit(&broker->workers, job);
}

static struct job **oldest_of(struct pool *pool, unsigned device)
{
	struct job **link, **last = NULL;

	for (link = &pool->jobs; *link; link = &(*link)->next)
		if ((*link)->device == device)
			last = link;
	return last;
}

void pool_trim(struct broker *broker, unsigned device)
{
	struct job **link;

	while (bytes_kept(broker, device) > broker->pool.limit && (link = oldest_of(&broker->pool, device)))
		give_back(broker, unlink_job(&broker->pool, link));
}

void pool_flush(struct broker *broker, unsigned device, struct shortage *shortage)
{
	struct pool *pool = &broker->pool;
	struct job **link;

	while ((link = oldest_of(pool, device)))
		give_back(broker, unlink_job(pool, link));
	shortage->before = pool->next;
	shortage->left = pool->releasing[device];
	DL_APPEND(pool->shortages[device], shortage);
}

void pool_suffices(struct broker *broker, unsigned device, struct shortage *shortage)
{
	DL_DELETE(broker->pool.shortages[device], shortage);
}

void pool_forget(struct pool *pool)
{
	while (pool->jobs) {
		struct job *job = unlink_job(pool, &pool->jobs);

		explicit_bzero(&job->handle, sizeof job->handle);
		free(job);
	}
}
