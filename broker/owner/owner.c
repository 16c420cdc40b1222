/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c - see owner.h */
#include "owner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/crash-point.h"
#include "common/tables.h"

/* Memory of the device. */
struct held {
	uint64_t       number;
	void          *ptr;
	uint64_t       size;     /* bytes */
	unsigned       exported; /* kind of export */
	UT_hash_handle hh; /* handle in the table owner->memory */
};

/* Enters the memory of an ALLOCATE or ADOPT, without an address. NULL: out of memory. */
static struct held *held_new(struct owner *owner, const struct order *order)
{
	struct held *held = calloc(1, sizeof *held);

	if (!held)
		return NULL;
	held->number = order->memory;
	held->size = order->size;
	held->exported = order->exported;
	HASH_ADD(hh, owner->memory, number, sizeof held->number, held);
	if (table_added(held))
		return held;
	free(held);
	return NULL;
}

static void held_free(struct owner *owner, struct held *held)
{
	HASH_DELETE(hh, owner->memory, held);
	free(held);
}

static struct held *held_find(const struct owner *owner, uint64_t number)
{
	struct held *held;

	HASH_FIND(hh, owner->memory, &number, sizeof number, held);
	return held;
}

void *owner_address(const struct owner *owner, uint64_t number)
{
	const struct held *held = held_find(owner, number);

	return held ? held->ptr : NULL;
}

static int unknown(uint64_t number)
{
	return error_set(-ENOENT, "memory %llu of the device ended with the process that had made it, and could not be "
				  "taken over", (unsigned long long)number);
}

static int make(const struct device *device, const struct order *order, struct held *held, struct outcome *outcome)
{
	int ordinal = (int)order->device, error;

	error = device->allocate(ordinal, order->size, order->exported, &held->ptr);
	if (error)
		return error;
	CRASH_POINT(memory_made);
	error = device->zero(ordinal, held->ptr, order->size);
	CRASH_POINT(memory_zeroed);
	if (!error)
		error = device->export_handle(ordinal, held->ptr, &outcome->handle, &outcome->descriptor);
	if (error)
		device->release(ordinal, held->ptr);
	return error;
}

static int allocate(struct owner *owner, const struct order *order, struct outcome *outcome)
{
	struct held *held = held_new(owner, order);
	int error;

	if (!held)
		return error_set(-ENOBUFS, "the broker is out of memory");
	error = make(owner->device, order, held, outcome);
	if (error)
		held_free(owner, held);
	return error;
}

static int adopt(struct owner *owner, const struct order *order, int descriptor)
{
	const struct device_memory memory = { .handle = order->handle,
					      .export = export_of(order->exported),
					      .descriptor = descriptor,
					      .size = order->size };
	struct held *held = held_new(owner, order);
	int error;

	if (!held)
		return error_set(-ENOBUFS, "the broker is out of memory");
	error = owner->device->adopt((int)order->device, &memory, &held->ptr);
	CRASH_POINT(memory_adopted);
	if (error)
		held_free(owner, held);
	return error;
}

static int zero(const struct owner *owner, const struct order *order)
{
	char *ptr = owner_address(owner, order->memory);
	int error;

	if (!ptr)
		return unknown(order->memory);
	error = owner->device->zero((int)order->device, ptr + order->offset, order->size);
	CRASH_POINT(range_zeroed);
	return error;
}

static int release(struct owner *owner, const struct order *order)
{
	struct held *held = held_find(owner, order->memory);
	int error;

	if (!held)
		return unknown(order->memory);
	error = owner->device->release((int)order->device, held->ptr);
	CRASH_POINT(memory_freed);
	held_free(owner, held);
	return error;
}

static int restore_names(struct owner *owner, struct outcome *outcome)
{
	int result = owner->device->names_restore ? owner->device->names_restore() : 0;

	outcome->renamed = owner->renamed = result > 0 || owner->untold;
	owner->untold = false;
	return result < 0 ? result : 0;
}

static int carry_out(struct owner *owner, const struct order *order, int descriptor, struct outcome *outcome)
{
	const struct device *device = owner->device;

	switch (order->kind) {
	case ORDER_ALLOCATE:
		return allocate(owner, order, outcome);
	case ORDER_ADOPT:
		return adopt(owner, order, descriptor);
	case ORDER_ZERO:
		return zero(owner, order);
	case ORDER_RELEASE:
		return release(owner, order);
	case ORDER_ROOM:
		return device->room((int)order->device, &outcome->room);
	case ORDER_GONE:
		return device->gone(order->pid, order->mps);
	default:
		return restore_names(owner, outcome);
	}
}

void owner_carry_out(struct owner *owner, const struct order *order, int descriptor, struct outcome *outcome)
{
	*outcome = (struct outcome){ .number = order->number, .descriptor = -1 };
	outcomes_forget(&owner->outcomes, order->acknowledged);
	outcome->error = carry_out(owner, order, descriptor, outcome);
	if (outcome->error)
		memcpy(outcome->text, error_text(), sizeof outcome->text);
	/* an ALLOCATE that the device refused is told how much memory is free */
	if (order->kind == ORDER_ALLOCATE && outcome->error == -ENOMEM &&
	    owner->device->room((int)order->device, &outcome->room))
		outcome->room = 0;
	if (order_is_kept(order->kind))
		outcomes_add(&owner->outcomes, order, outcome);
}

/* What the next broker is told of a kept outcome. Nothing opens memory that was released since. */
static void list_outcome(const struct owner *owner, const struct kept_outcome *kept, struct listed *listed)
{
	const struct held *held = held_find(owner, kept->memory);

	*listed = (struct listed){ .kind = LISTED_OUTCOME, .order = kept->kind, .memory = kept->memory };
	listed->outcome = kept->outcome;
	if (held) {
		listed->exported = held->exported;
		return;
	}
	listed->outcome.descriptor = -1;
	explicit_bzero(&listed->outcome.handle, sizeof listed->outcome.handle);
}

void owner_list(struct owner *owner, bool (*tell)(void *context, struct listed *listed), void *context)
{
	const struct held *held;
	struct listed listed;
	bool goes_on = true;

	owner->untold |= owner->renamed;
	for (held = owner->memory; held && goes_on; held = held->hh.next) {
		listed = (struct listed){ .kind = LISTED_MEMORY,
					  .memory = held->number,
					  .size = held->size,
					  .exported = held->exported,
					  .outcome.descriptor = -1 };
		goes_on = tell(context, &listed);
	}
	for (unsigned i = 0; i < owner->outcomes.count && goes_on; i++) {
		list_outcome(owner, outcomes_at(&owner->outcomes, i), &listed);
		goes_on = tell(context, &listed);
		explicit_bzero(&listed.outcome.handle, sizeof listed.outcome.handle);
	}
	listed = (struct listed){ .kind = LISTED_END, .outcome.descriptor = -1 };
	if (goes_on)
		tell(context, &listed);
}

void owner_deinit(struct owner *owner)
{
	struct held *held, *next;

	HASH_ITER(hh, owner->memory, held, next)
		held_free(owner, held);
}
