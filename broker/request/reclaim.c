/* SPDX-License-Identifier: Apache-2.0 */
/* reclaim.c - see reclaim.h */
#include "reclaim.h"

#include <stddef.h>
#include <stdlib.h>

#include "broker/base/context.h"
#include "broker/memory/pool.h"
#include "broker/memory/jobs.h"
#include "broker/registry/registry.h"
#include "common/crash-point.h"
#include "drains.h"

/* ---- the whole allocation: freed, or zeroed for the pool ---- */

/*
 * Returns true if the allocation goes to the device in place of the pool, because its memory could not be zeroed or the
 * pool keeps it no more; then submits the job that frees the memory.
 */
static bool must_be_freed(struct broker *broker, struct job *job)
{
	struct allocation *allocation = job->subject;

	if (job->order.kind == ORDER_RELEASE || (!job->outcome.error && pool_keeps(allocation)))
		return false;
	if (pool_keeps(allocation))
		pool_reject(broker, allocation);
	allocation_order_release(allocation, job);
	tracked_changed(broker->tracking, &allocation->tracked);
	jobs_submit(broker->jobs, job);
	return true;
}

static void count_freed(struct counters *counters, uint64_t bytes)
{
	counters->allocations_freed++;
	counters->bytes_freed += bytes;
}

static void release_done(struct job *job)
{
	struct broker *broker = job->context;
	struct allocation *allocation = job->subject;
	unsigned device = job->order.device;
	struct buffer *buffers;
	uint64_t serial;

	CRASH_POINT(release_done);
	if (must_be_freed(broker, job))
		return;
	/* memory that a device fails to free is lost for the life of the broker, whose account shows that */
	if (job->outcome.error)
		pool_device_failed(broker, job, "free", "");
	else
		count_freed(&broker->counters, job->order.size);
	allocation->job = job;
	buffers = registry_released(broker->registry, allocation);
	CRASH_POINT(released);
	if (job->order.kind == ORDER_ZERO) {
		allocation->state = ALLOCATION_POOLED;
		pool_put(broker, allocation);
	} else {
		pool_returned(broker, allocation, job->outcome.error);
		allocation_free(broker->tracking, allocation);
	}
	broker_changed(broker);
	/* the drains are answered last, so that the status file shows the freed memory before */
	while ((serial = registry_forget(broker->registry, &buffers)))
		drain_ended(broker, serial);
	pool_wake(broker, device);
}

void reclaim_release(void *context, struct allocation *allocation)
{
	struct broker *broker = context;
	struct job *job = allocation->job;
	/*
	 * users whom the mode bits of later buffers do not allow may know the handle of a private allocation: it is not
	 * pooled
	 */
	bool may_keep = !allocation->is_private && !allocation->reclaimed && !allocation->releasing;

	registry_freeing(broker->registry, allocation);
	allocation->job = NULL;
	*job = (struct job){
		.order = { .kind = ORDER_ZERO,
			   .device = allocation->device,
			   .uid = allocation->slab.kind.owner,
			   .memory = allocation->memory,
			   .size = allocation->span },
		.done = release_done,
		.context = broker,
		.subject = allocation,
	};
	if (!pool_accept(broker, allocation, may_keep))
		allocation_order_release(allocation, job);
	jobs_submit(broker->jobs, job);
	CRASH_POINT(release_submitted);
}

/* ---- one range of an allocation ---- */

void reclaim_note(const struct tracked *cleaning, struct cleaning_record *record)
{
	const struct job *job = (const struct job *)((const char *)cleaning - offsetof(struct job, tracked));
	const struct allocation *allocation = job->subject;

	*record = (struct cleaning_record){
		.allocation = allocation->serial, .serial = job->serial, .range = job->range
	};
}

static void clean_done(struct job *job)
{
	struct broker *broker = job->context;

	CRASH_POINT(clean_done);
	/* -ENOENT: the memory has ended with its owner, as an event has told */
	if (job->outcome.error && job->outcome.error != -ENOENT)
		pool_device_failed(broker, job, "zero", ", which are used no more");
	if (!job->outcome.error)
		broker->counters.ranges_cleaned++;
	broker_changed(broker);
	memory_cleaned(broker->memory, job->subject, job->range, job->outcome.error);
	drain_ended(broker, job->serial);
	/* the allocation may be idle now, so that it can be evicted for a create */
	pool_wake(broker, job->order.device);
	tracked_end(broker->tracking, &job->tracked);
	free(job);
}

bool reclaim_clean(void *context, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	struct broker *broker = context;
	struct job *job = calloc(1, sizeof *job);

	if (!job || tracking_reserve(broker->tracking, 1)) {
		free(job);
		drain_ended(broker, serial);
		return false;
	}
	tracked_begin(broker->tracking, &job->tracked, TRACKED_CLEANING);
	job->order.kind = ORDER_ZERO;
	job->order.device = allocation->device;
	job->order.uid = allocation->slab.kind.owner;
	job->range = range;
	job->serial = serial;
	job->order.size = allocation->slab.kind.range;
	job->order.memory = allocation->memory;
	job->order.offset = range * job->order.size;
	job->done = clean_done;
	job->context = broker;
	job->subject = allocation;
	jobs_submit(broker->jobs, job);
	CRASH_POINT(clean_submitted);
	return true;
}
