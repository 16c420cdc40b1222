/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - see registry.h */
#include "registry.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker/memory/allocation.h"
#include "broker/memory/slab.h"
#include "broker/memory/usage.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/board.h"
#include "common/error.h"
#include "marks.h"
#include "places.h"
#include "timeline.h"

static void evict_idle(void *context, struct spare *spare);

int registry_init(struct registry *registry, _Atomic uint64_t *words, uint32_t buffers, uint32_t tickets,
		  struct accounting *accounting, const struct registry_hooks *hooks, void *context)
{
	memset(registry, 0, sizeof *registry);
	registry->board_words = words;
	registry->accounting = accounting;
	registry->hooks = *hooks;
	registry->context = context;
	registry->next_serial = registry->next_grant = 1;
	registry->usages.kind[SPARE_IDLE].evict = evict_idle;
	registry->usages.kind[SPARE_IDLE].context = registry;
	if (places_init(&registry->words, buffers))
		goto no_memory;
	if (places_init(&registry->tickets, tickets))
		goto no_tickets;
	registry->by_place = calloc(buffers, sizeof *registry->by_place);
	if (registry->by_place)
		return 0;
	places_deinit(&registry->tickets);
no_tickets:
	places_deinit(&registry->words);
no_memory:
	return error_set(-ENOMEM, "no memory for the books of %u buffers: configure fewer", buffers);
}

bool registry_empty(const struct registry *registry)
{
	return !registry->allocations;
}

/* Release semantics: who reads the new word also sees all that the broker did before. */
static void word_store(struct registry *registry, const struct buffer *buffer, enum board_state state)
{
	atomic_store_explicit(&registry->board_words[buffer->place], BOARD_WORD(buffer->serial, state),
			      memory_order_release);
}

/* ---- notices ---- */

#define NOTICES 16 /* in one step: more could hold up others (invariant 5) */

static void buffer_notify_later(struct registry *registry, struct buffer *buffer)
{
	buffer->noticing = buffer->unnoticed != NULL;
	if (buffer->noticing)
		DL_APPEND2(registry->noticing_buffers, buffer, notice_prev, notice_next);
}

static void buffer_notify_no_more(struct registry *registry, struct buffer *buffer)
{
	if (buffer->noticing)
		DL_DELETE2(registry->noticing_buffers, buffer, notice_prev, notice_next);
	buffer->noticing = false;
}

/* So many of its uses at most, then it waits for its turn. Returns how many are left of the number. */
static unsigned buffer_notify(struct registry *registry, struct buffer *buffer, unsigned most)
{
	buffer_notify_no_more(registry, buffer);
	for (; buffer->unnoticed && most; most--) {
		const struct use *use = buffer->unnoticed;

		buffer->unnoticed = use->next;
		if (!use->grant->held)
			registry->hooks.notice(registry->context, use->grant, buffer->serial);
	}
	buffer_notify_later(registry, buffer);
	return most;
}

static void allocation_notify_later(struct registry *registry, struct allocation *allocation)
{
	allocation->noticing = allocation->unnoticed != NULL;
	if (allocation->noticing)
		DL_APPEND2(registry->noticing, allocation, notice_prev, notice_next);
}

static void allocation_notify_no_more(struct registry *registry, struct allocation *allocation)
{
	if (allocation->noticing)
		DL_DELETE2(registry->noticing, allocation, notice_prev, notice_next);
	allocation->noticing = false;
}

static unsigned allocation_notify(struct registry *registry, struct allocation *allocation, unsigned most)
{
	allocation_notify_no_more(registry, allocation);
	for (; allocation->unnoticed && most; most--) {
		struct grant *grant = allocation->unnoticed;

		allocation->unnoticed = grant->next;
		if (!grant->held)
			registry->hooks.notice(registry->context, grant, 0);
	}
	allocation_notify_later(registry, allocation);
	return most;
}

bool registry_notify(struct registry *registry)
{
	unsigned most = NOTICES;

	while (most && registry->noticing_buffers)
		most = buffer_notify(registry, registry->noticing_buffers, most);
	most = NOTICES;
	while (most && registry->noticing)
		most = allocation_notify(registry, registry->noticing, most);
	return registry->noticing_buffers || registry->noticing;
}

/* ---- memory that is mapped, and in which no buffer is ---- */

static void idle_leave(struct registry *registry, struct allocation *allocation)
{
	if (allocation->state != ALLOCATION_IDLE)
		return;
	allocation->state = ALLOCATION_IN_USE;
	spare_leave(&registry->usages, &allocation->spare);
}

/* For good: who maps it is soon asked to close it, and what is closed is freed. */
static void give_up_later(struct registry *registry, struct allocation *allocation)
{
	idle_leave(registry, allocation);
	slab_hide(&registry->slabs, &allocation->slab);
	allocation->slab.closed = true;
	allocation->given_up = true;
	allocation->unnoticed = allocation->grants;
	allocation_notify_later(registry, allocation);
}

/* The first of them are asked at once. */
static void give_up(struct registry *registry, struct allocation *allocation)
{
	give_up_later(registry, allocation);
	allocation_notify(registry, allocation, NOTICES);
}

void registry_want_back(struct registry *registry, struct grant *grant)
{
	if (grant->allocation->given_up)
		registry->hooks.notice(registry->context, grant, 0);
	else
		give_up(registry, grant->allocation);
}

static void evict_idle(void *context, struct spare *spare)
{
	struct registry *registry = context;
	struct allocation *allocation = (struct allocation *)((char *)spare - offsetof(struct allocation, spare));

	allocation->evicted = true;
	usage_leaving(&registry->usages, allocation->usage, &allocation->leaving, allocation->span);
	give_up_later(registry, allocation);
}

static void idle_enter(struct registry *registry, struct allocation *allocation)
{
	allocation->state = ALLOCATION_IDLE;
	spare_enter(&registry->usages, allocation->usage, &allocation->spare, SPARE_IDLE, allocation->span);
}

/* ---- reserving ---- */

static struct slab_kind kind_of(const struct buffer_spec *spec)
{
	return (struct slab_kind){ .range = spec->range ? spec->range : spec->span,
				   .device = spec->device,
				   .mode = spec->mode,
				   .owner = spec->owner,
				   .group = spec->group };
}

/*
 * The owner's idle memory is charged to it as well: as much of it goes as the quota lacks. A create for which all of it is
 * not enough evicts nothing.
 */
static void reclaim_charged(struct registry *registry, const struct buffer_spec *spec)
{
	uint64_t quota = accounting_quota(registry->accounting, spec->owner)->limit[RESOURCE_BYTES];
	uint64_t used = accounting_used(registry->accounting, spec->owner, RESOURCE_BYTES);

	if (used + spec->span > quota)
		usages_reclaim_charged(&registry->usages, spec->owner, used + spec->span - quota);
}

static int allocation_new(struct registry *registry, const struct buffer_spec *spec, struct allocation **result)
{
	struct allocation *allocation = calloc(1, sizeof *allocation);
	struct slab_kind kind = kind_of(spec);
	int error;

	if (!allocation || slab_init(&allocation->slab, &kind, spec->span)) {
		free(allocation);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	reclaim_charged(registry, spec);
	error = charge_take(&allocation->charge, registry->accounting, spec->owner, RESOURCE_BYTES, spec->span);
	if (!error && registry->descriptors)
		error = charge_take(&allocation->descriptors, registry->accounting, spec->owner, RESOURCE_DESCRIPTORS,
				    registry->descriptors);
	if (error)
		goto refund;
	allocation->usage = usage_hold(&registry->usages, spec->device, spec->owner);
	if (!allocation->usage) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto refund;
	}
	allocation->serial = registry->next_allocation++;
	allocation->slab.closed = spec->flags & GPUB_ALONE;
	allocation->device = spec->device;
	allocation->span = spec->span;
	DL_APPEND(registry->allocations, allocation);
	registry->bytes += allocation->span;
	*result = allocation;
	return 0;
refund:
	charge_release(&allocation->descriptors, registry->accounting);
	charge_release(&allocation->charge, registry->accounting);
	slab_deinit(&allocation->slab);
	free(allocation);
	return error;
}

static void allocation_drop(struct registry *registry, struct allocation *allocation)
{
	allocation_notify_no_more(registry, allocation);
	idle_leave(registry, allocation);
	slab_hide(&registry->slabs, &allocation->slab);
	slab_deinit(&allocation->slab);
	DL_DELETE(registry->allocations, allocation);
	registry->bytes -= allocation->span;
	usage_left(&registry->usages, &allocation->leaving);
	allocation->usage->made -= allocation_is_made(allocation) ? allocation->span : 0;
	usage_drop(&registry->usages, allocation->usage);
	allocation->usage = NULL;
	charge_release(&allocation->descriptors, registry->accounting);
	charge_release(&allocation->charge, registry->accounting);
}

static void buffer_destroy(struct registry *registry, struct buffer *buffer);

static void buffer_fill(struct registry *registry, struct buffer *buffer, const struct buffer_spec *spec)
{
	strcpy(buffer->name, spec->name);
	buffer->serial = registry->next_serial++;
	buffer->size = spec->size;
	buffer->owner = spec->owner;
	buffer->group = spec->group;
	buffer->mode = spec->mode;
	buffer->flags = spec->flags;
	buffer->ephemerals = spec->flags & GPUB_EPHEMERAL ? spec->ephemerals : NULL;
}

/* By name and by serial, or not at all. */
static int buffer_enter(struct registry *registry, struct buffer *buffer)
{
	HASH_ADD_STR(registry->names, name, buffer);
	if (!table_added(buffer))
		return error_set(-ENOMEM, "the broker is out of memory");
	HASH_ADD(by_serial, registry->serials, serial, sizeof buffer->serial, buffer);
	if (table_added_by(by_serial, buffer))
		return 0;
	HASH_DEL(registry->names, buffer);
	return error_set(-ENOMEM, "the broker is out of memory");
}

/* Nothing fails from here on. */
static void buffer_join(struct registry *registry, struct buffer *buffer, struct allocation *allocation)
{
	idle_leave(registry, allocation);
	buffer->allocation = allocation;
	buffer->offset = slab_take(&registry->slabs, &allocation->slab) * allocation->slab.kind.range;
	DL_APPEND(allocation->buffers, buffer);
	if (buffer->ephemerals)
		DL_APPEND2(*buffer->ephemerals, buffer, ephemeral_prev, ephemeral_next);
	allocation->named++;
	tracked_begin(registry->tracking, &buffer->tracked, TRACKED_BUFFER);
}

/* All that a buffer has but its memory. */
static int buffer_new(struct registry *registry, const struct buffer_spec *spec, struct buffer **result)
{
	struct buffer *buffer = calloc(1, sizeof *buffer);
	int64_t place;
	int error;

	if (!buffer)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&buffer->charge, registry->accounting, spec->owner, RESOURCE_BUFFERS, 1);
	if (error)
		goto free_buffer;
	place = places_take(&registry->words);
	if (place < 0) {
		error = error_set(-EDQUOT, "the board holds %u buffers and is full: unlink some, or start the "
					   "broker with a larger one",
				  registry->words.count);
		goto refund;
	}
	buffer->place = (uint32_t)place;
	buffer_fill(registry, buffer, spec);
	error = buffer_enter(registry, buffer);
	if (error)
		goto give_place;
	registry->by_place[place] = buffer;
	registry->buffer_count++;
	*result = buffer;
	return 0;
give_place:
	places_give(&registry->words, buffer->place);
refund:
	charge_release(&buffer->charge, registry->accounting);
free_buffer:
	free(buffer);
	return error;
}

int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **result)
{
	struct slab_kind kind = kind_of(spec);
	struct allocation *allocation = spec->flags & GPUB_ALONE ? NULL : allocation_of(slabs_find(&registry->slabs, &kind));
	struct buffer *buffer = NULL;
	int error;

	if (registry_find(registry, spec->name))
		return error_set(-EEXIST, "the name '%s' is taken: unlink it first, or choose another",
				 spec->name);
	error = buffer_new(registry, spec, &buffer);
	if (error)
		return error;
	error = allocation ? 0 : allocation_new(registry, spec, &allocation);
	if (error) {
		HASH_DEL(registry->names, buffer);
		buffer_destroy(registry, buffer);
		return error;
	}
	buffer_join(registry, buffer, allocation);
	*result = buffer;
	return 0;
}

void registry_live(struct registry *registry, struct buffer *buffer)
{
	buffer->state = BUFFER_LIVE;
	tracked_changed(registry->tracking, &buffer->tracked);
	word_store(registry, buffer, BOARD_LIVE);
}

void registry_ready(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;

	allocation->state = ALLOCATION_IN_USE;
	allocation->usage->made += allocation->span;
	slab_offer(&registry->slabs, &allocation->slab);
	registry_live(registry, buffer);
}

/* ---- the end ---- */

static uint32_t range_of(const struct buffer *buffer)
{
	return (uint32_t)(buffer->offset / buffer->allocation->slab.kind.range);
}

static void buffer_destroy(struct registry *registry, struct buffer *buffer)
{
	assert(!buffer->drain);
	buffer_notify_no_more(registry, buffer);
	word_store(registry, buffer, BOARD_FREE);
	HASH_DELETE(by_serial, registry->serials, buffer);
	registry->by_place[buffer->place] = NULL;
	places_give(&registry->words, buffer->place);
	charge_release(&buffer->charge, registry->accounting);
	marks_remove(buffer->timeline);
	timeline_destroy(buffer->timeline);
	charge_release(&buffer->descriptors, registry->accounting);
	if (registry->hooks.forget)
		registry->hooks.forget(registry->context, buffer);
	registry->buffer_count--;
	tracked_end(registry->tracking, &buffer->tracked);
	free(buffer);
}

/* With all buffers that are in it. */
static void allocation_leave(struct registry *registry, struct allocation *allocation)
{
	struct buffer *buffer, *next;

	assert(!allocation->grants && !allocation->named && !allocation->used);
	DL_FOREACH_SAFE(allocation->buffers, buffer, next)
		buffer_destroy(registry, buffer);
	allocation->buffers = NULL;
	allocation_drop(registry, allocation);
}

/* ---- what may go ---- */

/* The one place that decides on a free. */
static void allocation_release(struct registry *registry, struct allocation *allocation)
{
	struct buffer *buffer;

	idle_leave(registry, allocation);
	slab_hide(&registry->slabs, &allocation->slab); /* also while it waits: a newcomer would keep what is over in it */
	if (allocation->cleaning || allocation->state == ALLOCATION_FREEING)
		return;
	allocation->state = ALLOCATION_FREEING;
	DL_FOREACH(allocation->buffers, buffer)
		tracked_changed(registry->tracking, &buffer->tracked);
	usage_left(&registry->usages, &allocation->leaving);
	registry->hooks.release(registry->context, allocation);
}

static bool is_worth_keeping(const struct registry *registry, const struct allocation *allocation)
{
	return !allocation->slab.closed && (allocation->buffers || allocation->span <= registry->usages.limit);
}

/* Others are in it, or it may wait for the next one of its kind. */
bool registry_keeps(const struct registry *registry, const struct buffer *buffer)
{
	const struct allocation *allocation = buffer->allocation;
	bool alone = allocation->buffers == buffer && !buffer->next;

	return !allocation->slab.closed && (!alone || allocation->span <= registry->usages.limit);
}

void registry_settle(struct registry *registry, struct allocation *allocation)
{
	if (!allocation->named && !allocation->open)
		allocation_release(registry, allocation);
	else if (allocation->buffers || allocation->cleaning || allocation->state == ALLOCATION_IDLE || allocation->given_up)
		return;
	else if (allocation->slab.vacant && is_worth_keeping(registry, allocation))
		idle_enter(registry, allocation);
	else
		give_up(registry, allocation);
}

/* Its range waits for the device to clean it. */
static void buffer_over(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;
	uint32_t range = range_of(buffer);

	if (registry->hooks.clean(registry->context, buffer, range))
		allocation->cleaning++;
	DL_DELETE(allocation->buffers, buffer);
	buffer_destroy(registry, buffer);
	registry_settle(registry, allocation);
}

void registry_settle_buffer(struct registry *registry, struct buffer *buffer)
{
	if (buffer->state != BUFFER_DRAINING || buffer->used)
		return;
	if (!buffer->allocation->named && !buffer->allocation->open)
		registry_settle(registry, buffer->allocation);
	else if (registry_keeps(registry, buffer))
		buffer_over(registry, buffer);
	else if (!buffer->allocation->given_up)
		give_up(registry, buffer->allocation); /* it stays in the books for as long as its memory is mapped */
}

void registry_cleaned(struct registry *registry, struct allocation *allocation, uint32_t range, int error)
{
	allocation->cleaning--;
	if (!error)
		slab_vacate(&registry->slabs, &allocation->slab, range);
	registry_settle(registry, allocation);
}

static void creator_leave(struct buffer *buffer)
{
	if (!buffer->ephemerals)
		return;
	DL_DELETE2(*buffer->ephemerals, buffer, ephemeral_prev, ephemeral_next);
	buffer->ephemerals = NULL;
}

void registry_disown(struct buffer **ephemerals)
{
	while (*ephemerals)
		creator_leave(*ephemerals);
}

static void name_remove(struct registry *registry, struct buffer *buffer)
{
	HASH_DEL(registry->names, buffer);
	creator_leave(buffer);
	buffer->allocation->named--;
}

/* Only the books go; those of its grants are gone. */
static void allocation_forget(struct registry *registry, struct allocation *allocation)
{
	struct buffer *buffer;

	DL_FOREACH(allocation->buffers, buffer)
		if (buffer->state != BUFFER_DRAINING)
			name_remove(registry, buffer);
	allocation_leave(registry, allocation);
	allocation_free(allocation);
}

void registry_deinit(struct registry *registry)
{
	struct allocation *allocation, *next;

	DL_FOREACH_SAFE(registry->allocations, allocation, next)
		allocation_forget(registry, allocation);
	usages_deinit(&registry->usages);
	free(registry->by_place);
	places_deinit(&registry->tickets);
	places_deinit(&registry->words);
}

void registry_abandon(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;
	uint32_t range = range_of(buffer);

	assert(buffer->state == BUFFER_CREATING);
	name_remove(registry, buffer);
	if (!allocation_is_made(allocation)) {
		allocation_leave(registry, allocation);
		allocation_free(allocation);
		return;
	}
	DL_DELETE(allocation->buffers, buffer);
	buffer_destroy(registry, buffer);
	slab_vacate(&registry->slabs, &allocation->slab, range); /* nobody ever saw it */
	registry_settle(registry, allocation);
}

struct buffer *registry_find(const struct registry *registry, const char *name)
{
	struct buffer *buffer;

	HASH_FIND_STR(registry->names, name, buffer);
	return buffer;
}

struct buffer *registry_find_live(const struct registry *registry, const char *name)
{
	struct buffer *buffer;

	if (name_check(name))
		return NULL;
	buffer = registry_find(registry, name);
	if (buffer && buffer->state == BUFFER_LIVE)
		return buffer;
	error_set(-ENOENT, "there is no buffer '%s': broker-status lists the names there are", name);
	return NULL;
}

struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial)
{
	struct buffer *buffer;

	HASH_FIND(by_serial, registry->serials, &serial, sizeof serial, buffer);
	return buffer && buffer->state == BUFFER_LIVE ? buffer : NULL;
}

/* The other ranges must be clean, too: what was in them is not for the eyes of others. */
int registry_may_part(const struct buffer *buffer)
{
	const struct slab *slab = &buffer->allocation->slab;

	if (slab->vacant == slab->ranges - 1)
		return 0;
	return error_set(-EBUSY, "'%s' shares its memory with other small buffers of its owner, mode and group: "
				 "create it with memory of its own (GPUB_ALONE, broker-ctl create --alone) where "
				 "others shall get it", buffer->name);
}

void registry_part(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;

	allocation->slab.closed = allocation->parted = true;
	slab_hide(&registry->slabs, &allocation->slab);
}

int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner)
{
	struct allocation *allocation = buffer->allocation;
	struct charge *const old[] = { &buffer->charge, &buffer->descriptors, &allocation->charge,
				       &allocation->descriptors };
	struct charge charged[sizeof old / sizeof *old] = { 0 };
	struct usage *usage;
	int error = registry_may_part(buffer);

	for (size_t i = 0; i < sizeof old / sizeof *old && !error; i++)
		if (old[i]->account)
			error = charge_take(&charged[i], registry->accounting, owner, old[i]->resource, old[i]->amount);
	if (error)
		goto refund;
	usage = usage_hold(&registry->usages, allocation->device, owner);
	if (!usage) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto refund;
	}
	registry_part(registry, buffer);
	allocation->usage->made -= allocation->span;
	usage->made += allocation->span;
	usage_drop(&registry->usages, allocation->usage);
	allocation->usage = usage;
	for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
		charge_release(old[i], registry->accounting);
		*old[i] = charged[i];
	}
	allocation->slab.kind.owner = buffer->owner = owner;
	buffer->tenure++;
	tracked_changed(registry->tracking, &buffer->tracked);
	return 0;
refund:
	for (size_t i = 0; i < sizeof old / sizeof *old; i++)
		charge_release(&charged[i], registry->accounting);
	return error;
}

void registry_unlink(struct registry *registry, struct buffer *buffer)
{
	assert(buffer->state == BUFFER_LIVE);
	name_remove(registry, buffer);
	buffer->state = BUFFER_DRAINING;
	tracked_changed(registry->tracking, &buffer->tracked);
	word_store(registry, buffer, BOARD_DRAINING);
	buffer->unnoticed = buffer->uses;
	buffer_notify(registry, buffer, NOTICES);
	registry_settle_buffer(registry, buffer);
}

void registry_released(struct registry *registry, struct allocation *allocation)
{
	assert(allocation->state == ALLOCATION_FREEING);
	allocation_leave(registry, allocation);
}

unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity)
{
	unsigned bits;

	if (!identity->uid)
		return GPUB_READ | GPUB_WRITE;
	bits = identity->uid == buffer->owner ? buffer->mode >> 6 :
	       identity_in_group(identity, buffer->group) ? buffer->mode >> 3 : buffer->mode;
	return (bits & 4 ? GPUB_READ : 0) | (bits & 2 ? GPUB_WRITE : 0);
}
