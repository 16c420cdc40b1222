/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.c - see reclaim.h */
#include "reclaim.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/memory/allocation.h"
#include "broker/memory/pool.h"
#include "broker/memory/workers.h"
#include "common/crash-point.h"
#include "registry.h"

void drain_move(struct drain **from, struct drain **to)
{
	*to = *from;
	*from = NULL;
	if (*to)
		(*to)->place = to;
}

void drain_end(struct drain *drain)
{
	if (drain)
		drain->done(drain);
}

/* Those who wait for the end of the buffers in it: they are answered when nothing of these is left. */
static struct drain *drains_take(const struct allocation *allocation)
{
	struct drain *drains = NULL, *drain;
	struct buffer *buffer;

	DL_FOREACH(allocation->buffers, buffer) {
		drain = buffer->drain;
		if (!drain)
			continue;
		drain_move(&buffer->drain, &drain->self);
		LL_PREPEND(drains, drain);
	}
	return drains;
}

static void drains_end(struct drain *drains)
{
	struct drain *drain, *next;

	LL_FOREACH_SAFE(drains, drain, next)
		drain_end(drain);
}

/* What could be zeroed is kept for the next create of its size, what could not is freed after all. */
static void release_done(struct job *job)
{
	struct broker *broker = job->context;
	struct allocation *allocation = job->subject;
	unsigned device = job->device;
	struct drain *drains;

	CRASH_POINT(release_done);
	if (job->kind == JOB_ZERO && (job->error || !pool_keeps(allocation))) {
		if (pool_keeps(allocation))
			pool_reject(broker, allocation);
		job->kind = JOB_RELEASE;
		workers_submit(broker->workers, job);
		return;
	}
	/* a device that fails to free keeps its memory for the broker's life; the registry goes on without it */
	if (job->error)
		log_line("device %u could not free %llu bytes: %s", job->device, (unsigned long long)job->span,
			 job->text);
	broker->counters.allocations_freed++;
	broker->counters.bytes_freed += job->span;
	allocation->job = job;
	drains = drains_take(allocation);
	registry_released(broker->registry, allocation);
	CRASH_POINT(released);
	if (job->kind == JOB_ZERO) {
		allocation->state = ALLOCATION_POOLED;
		pool_put(broker, allocation);
	} else {
		pool_returned(broker, allocation, job->error);
		allocation_free(allocation);
	}
	drains_end(drains);
	pool_came(broker, device);
	broker_changed(broker);
}

static void clean_done(struct job *job)
{
	struct broker *broker = job->context;

	CRASH_POINT(clean_done);
	if (job->error)
		log_line("device %u could not zero %llu bytes, which are used no more: %s", job->device,
			 (unsigned long long)job->span, job->text);
	else
		broker->counters.ranges_cleaned++;
	registry_cleaned(broker->registry, job->subject, job->range, job->error);
	drain_end(job->drain);
	pool_came(broker, job->device); /* where it is idle now, it may be asked back */
	broker_changed(broker);
	free(job);
}

/* Whoever waits for the buffer's end is answered when its memory is clean: then it may find the rest of it alone, too. */
bool reclaim_clean(void *context, struct buffer *buffer, uint32_t range)
{
	struct broker *broker = context;
	struct allocation *allocation = buffer->allocation;
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		drain_end(buffer->drain);
		return false;
	}
	job->kind = JOB_ZERO;
	job->device = allocation->device;
	job->uid = allocation->slab.kind.owner;
	job->range = range;
	job->span = allocation->slab.kind.range;
	job->ptr = (char *)allocation->ptr + range * job->span;
	job->done = clean_done;
	job->context = broker;
	job->subject = allocation;
	drain_move(&buffer->drain, &job->drain);
	workers_submit(broker->workers, job);
	CRASH_POINT(clean_submitted);
	return true;
}

void reclaim_release(void *context, struct allocation *allocation)
{
	struct broker *broker = context;
	struct job *job = allocation->job;
	/* others than its kind lets may have mapped what was parted */
	bool may_keep = !allocation->parted && !allocation->evicted;

	allocation->job = NULL;
	*job = (struct job){ .kind = pool_accept(broker, allocation, may_keep) ? JOB_ZERO : JOB_RELEASE,
			     .device = allocation->device,
			     .uid = allocation->slab.kind.owner,
			     .span = allocation->span,
			     .ptr = allocation->ptr,
			     .done = release_done,
			     .context = broker,
			     .subject = allocation };
	workers_submit(broker->workers, job);
	CRASH_POINT(release_submitted);
}
