/* SPDX-License-Identifier: Apache-2.0 */
/* ended-memory.c - see ended-memory.h */
#include "ended-memory.h"

#include <stdlib.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/base/log.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/registry/registry.h"
#include "broker/request/manage.h"
#include "common/tables.h"

void ended_memory_retire(struct broker *broker)
{
	uint64_t kept = broker->memory->usages.limit;

	usages_limit(&broker->memory->usages, 0);
	memory_close_named(broker->memory);
	usages_limit(&broker->memory->usages, kept);
}

bool ended_memory_is(const struct allocation *allocation)
{
	return allocation_is_made(allocation) && !export_of(allocation->slab.kind.exported)->by_descriptor;
}

void ended_memory_mark(struct broker *broker, struct allocation *allocation)
{
	allocation->ended = true;
	registry_freeing(broker->registry, allocation);
}

void ended_memory_mark_all(struct broker *broker)
{
	struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (ended_memory_is(allocation))
			ended_memory_mark(broker, allocation);
}

static bool any_ended(const struct broker *broker)
{
	const struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->ended)
			return true;
	return false;
}

unsigned ended_memory_unlink(struct broker *broker)
{
	struct buffer *buffer, *next;
	unsigned count = 0;

	if (!any_ended(broker))
		return 0;
	HASH_ITER(hh, broker->registry->names, buffer, next) {
		if (buffer->state != BUFFER_LIVE || !buffer->allocation->ended)
			continue;
		event_happened(broker, &(struct broker_event){ .kind = EVENT_UNLINK_ORPHAN, .name = buffer->name });
		manage_unlink(broker, buffer);
		count++;
	}
	return count;
}

/* Has no buffer made any more in memory that the owner could not take over. Clients can still open its descriptor. */
static void retire(struct broker *broker, uint64_t number)
{
	struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->memory == number)
			memory_make_private(broker->memory, allocation);
}

static void on_adopted(struct job *job)
{
	if (job->outcome.error) {
		pool_device_failed(job->context, job, "take over", ", which are used no more");
		retire(job->context, job->order.memory);
	}
	broker_changed(job->context); /* a stopping broker waited for the answer */
	free(job);
}

void ended_memory_adopt(struct broker *broker, const struct allocation *allocation)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		log_say("the broker is out of memory: %llu bytes of device %u are used no more",
			(unsigned long long)allocation->span, allocation->device);
		retire(broker, allocation->memory);
		return;
	}
	job->order = (struct order){ .kind = ORDER_ADOPT,
				     .device = allocation->device,
				     .memory = allocation->memory,
				     .size = allocation->span,
				     .exported = allocation->slab.kind.exported,
				     .handle = allocation->handle };
	job->done = on_adopted;
	job->context = broker;
	jobs_adopt(broker->jobs, job, allocation->descriptor);
}

void ended_memory_adopt_all(struct broker *broker)
{
	const struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->descriptor >= 0)
			ended_memory_adopt(broker, allocation);
}
