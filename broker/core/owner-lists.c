/* SPDX-License-Identifier: Apache-2.0 */
/* owner-lists.c - see owner-lists.h */
#include "owner-lists.h"

#include <stdlib.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "common/tables.h"
#include "ended-memory.h"

/* Memory that the owner has, by its number. */
struct listed_memory {
	uint64_t       number, size;
	UT_hash_handle hh;
};

static void list_remove(struct listed_memory **list, struct listed_memory *memory)
{
	HASH_DELETE(hh, *list, memory);
	free(memory);
}

static void list_forget(struct listed_memory **list)
{
	struct listed_memory *memory, *next;

	HASH_ITER(hh, *list, memory, next)
		list_remove(list, memory);
}

void owner_lists_forget(struct owner_lists *lists)
{
	for (unsigned device = 0; device < DEVICE_MAX; device++)
		list_forget(&lists->of[device]);
}

bool owner_lists_add(struct owner_lists *lists, unsigned device, const struct listed *listed)
{
	struct listed_memory *memory = calloc(1, sizeof *memory), **list = &lists->of[device];

	if (!memory)
		return false;
	memory->number = listed->memory;
	memory->size = listed->size;
	HASH_ADD(hh, *list, number, sizeof memory->number, memory);
	if (table_added(memory))
		return true;
	free(memory);
	return false;
}

/* Takes the memory with the number out of the list. Returns false if the list has no such memory. */
static bool list_take(struct listed_memory **list, uint64_t number)
{
	struct listed_memory *memory;

	HASH_FIND(hh, *list, &number, sizeof number, memory);
	if (!memory)
		return false;
	list_remove(list, memory);
	return true;
}

/* Compares the pooled memory of a device with the owner's list. */
struct pool_check {
	struct listed_memory **list;
	bool                   lacks; /* the owner lacks some of the memory */
};

static void check_pooled(void *context, struct allocation *allocation)
{
	struct pool_check *check = context;

	if (!list_take(check->list, allocation->memory))
		check->lacks = true;
}

/*
 * Takes what the pool has of the device out of the list. Gives all spare memory back if the owner lacks some of it, as
 * after the end of an owner: the release of memory that an owner lacks succeeds.
 */
static void compare_pool(struct broker *broker, struct listed_memory **list, unsigned device)
{
	struct pool_check check = { .list = list };
	uint64_t kept = broker->memory->usages.limit;
	struct allocation *allocation;

	DL_FOREACH(broker->pool->leaving, allocation)
		if (allocation->device == device)
			list_take(check.list, allocation->memory);
	pool_each(broker, device, check_pooled, &check);
	if (!check.lacks)
		return;
	usages_limit(&broker->memory->usages, 0);
	usages_limit(&broker->memory->usages, kept);
}

/* The owner lacks the memory of an allocation that is not being freed. */
static void missing(struct broker *broker, struct allocation *allocation)
{
	if (allocation->descriptor >= 0) {
		ended_memory_adopt(broker, allocation);
	} else if (ended_memory_is(allocation) && !allocation->ended) {
		memory_make_private(broker->memory, allocation);
		ended_memory_mark(broker, allocation);
	}
}

static void compare_allocations(struct broker *broker, struct listed_memory **list, unsigned device)
{
	struct allocation *allocation;

	DL_FOREACH(broker->memory->allocations, allocation)
		if (allocation->device == device && !list_take(list, allocation->memory) &&
		    allocation_is_made(allocation) && allocation->state != ALLOCATION_FREEING)
			missing(broker, allocation);
}

static void on_unknown_released(struct job *job)
{
	struct broker *broker = job->context;

	if (job->outcome.error)
		pool_device_failed(broker, job, "free", "");
	pool_wake(broker, job->order.device);
	broker_changed(broker); /* a stopping broker waited for the answer */
	free(job);
}

/* Releases memory that the last broker ordered, and of which the ledger has nothing. */
static void release_unknown(struct broker *broker, unsigned device, const struct listed_memory *memory)
{
	struct job *job = calloc(1, sizeof *job);

	if (!job) {
		log_say("the broker is out of memory: %llu bytes of device %u are used no more",
			(unsigned long long)memory->size, device);
		return;
	}
	job->order = (struct order){
		.kind = ORDER_RELEASE, .device = device, .memory = memory->number, .size = memory->size
	};
	job->descriptor = -1;
	job->done = on_unknown_released;
	job->context = broker;
	jobs_submit_first(broker->jobs, job);
}

void owner_lists_end(struct owner_lists *lists, struct broker *broker, unsigned device)
{
	struct listed_memory **list = &lists->of[device], *memory;

	compare_pool(broker, list, device);
	compare_allocations(broker, list, device);
	for (memory = *list; memory; memory = memory->hh.next)
		release_unknown(broker, device, memory);
	list_forget(list);
	ended_memory_unlink(broker);
	broker_changed(broker);
}
