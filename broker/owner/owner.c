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
	UT_hash_handle hh; /* handle in the table owner->memory */
};

/* Enters the number, without an address. NULL: out of memory. */
static struct held *held_new(struct owner *owner, uint64_t number)
{
	struct held *held = calloc(1, sizeof *held);

	if (!held)
		return NULL;
	held->number = number;
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
	struct held *held = held_new(owner, order->memory);
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
	struct held *held = held_new(owner, order->memory);
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

static int restore_names(const struct owner *owner, struct outcome *outcome)
{
	int result = owner->device->names_restore ? owner->device->names_restore() : 0;

	outcome->renamed = result > 0;
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
	*outcome = (struct outcome){ .descriptor = -1 };
	outcome->error = carry_out(owner, order, descriptor, outcome);
	if (outcome->error)
		memcpy(outcome->text, error_text(), sizeof outcome->text);
	/* an ALLOCATE that the device refused is told how much memory is free */
	if (order->kind == ORDER_ALLOCATE && outcome->error == -ENOMEM &&
	    owner->device->room((int)order->device, &outcome->room))
		outcome->room = 0;
}

void owner_deinit(struct owner *owner)
{
	struct held *held, *next;

	HASH_ITER(hh, owner->memory, held, next)
		held_free(owner, held);
}
