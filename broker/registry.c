/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - see registry.h */
#include "registry.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/board.h"
#include "common/error.h"
#include "delegation.h"
#include "identity.h"
#include "timeline.h"
#include "waiting.h"

int registry_init(struct registry *registry, _Atomic uint64_t *words, uint32_t buffers, uint32_t tickets,
		  struct accounting *accounting, const struct registry_hooks *hooks, void *context)
{
	memset(registry, 0, sizeof *registry);
	registry->board_words = words;
	registry->accounting = accounting;
	registry->hooks = *hooks;
	registry->context = context;
	registry->next_serial = registry->next_grant = 1;
	if (places_init(&registry->words, buffers))
		goto no_memory;
	if (places_init(&registry->tickets, tickets))
		goto no_tickets;
	return 0;
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

static void buffer_fill(struct registry *registry, struct buffer *buffer, const struct buffer_spec *spec,
			uint32_t place)
{
	strcpy(buffer->name, spec->name);
	buffer->serial = registry->next_serial++;
	buffer->place = place;
	buffer->size = spec->size;
	buffer->owner = spec->owner;
	buffer->group = spec->group;
	buffer->mode = spec->mode;
	buffer->flags = spec->flags;
	buffer->creator = spec->creator;
}

static int registry_enter(struct registry *registry, struct buffer *buffer, struct allocation *allocation)
{
	HASH_ADD_STR(registry->names, name, buffer);
	if (!table_added(buffer))
		return error_set(-ENOMEM, "the broker is out of memory");
	HASH_ADD(by_serial, registry->serials, serial, sizeof buffer->serial, buffer);
	if (!table_added_by(by_serial, buffer)) {
		HASH_DEL(registry->names, buffer);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	allocation->named = 1;
	buffer->allocation = allocation;
	DL_APPEND(allocation->buffers, buffer);
	DL_APPEND(registry->allocations, allocation);
	registry->buffer_count++;
	registry->bytes += allocation->span;
	return 0;
}

int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **result)
{
	struct allocation *allocation = NULL;
	struct buffer *buffer = NULL;
	int64_t place;
	int error;

	if (registry_find(registry, spec->name))
		return error_set(-EEXIST, "the name '%s' is taken: unlink it first, or choose another",
				 spec->name);
	allocation = calloc(1, sizeof *allocation);
	buffer = calloc(1, sizeof *buffer);
	error = -ENOMEM;
	if (!allocation || !buffer) {
		error_set(error, "the broker is out of memory");
		goto free_both;
	}
	error = charge_take(&buffer->charge, registry->accounting, spec->owner, RESOURCE_BUFFERS, 1);
	if (error)
		goto free_both;
	error = charge_take(&allocation->charge, registry->accounting, spec->owner, RESOURCE_BYTES, spec->span);
	if (error)
		goto refund_buffer;
	place = places_take(&registry->words);
	if (place < 0) {
		error = error_set(-EDQUOT, "the board holds %u buffers and is full: unlink some, or start the "
					   "broker with a larger one",
				  registry->words.count);
		goto refund_bytes;
	}
	allocation->device = spec->device;
	allocation->span = spec->span;
	buffer_fill(registry, buffer, spec, (uint32_t)place);
	error = registry_enter(registry, buffer, allocation);
	if (error)
		goto give_place;
	*result = buffer;
	return 0;
give_place:
	places_give(&registry->words, buffer->place);
refund_bytes:
	charge_release(&allocation->charge, registry->accounting);
refund_buffer:
	charge_release(&buffer->charge, registry->accounting);
free_both:
	free(buffer);
	free(allocation);
	return error;
}

void registry_ready(struct registry *registry, struct buffer *buffer, void *ptr, const struct device_handle *handle)
{
	struct allocation *allocation = buffer->allocation;

	allocation->ptr = ptr;
	allocation->handle = *handle;
	buffer->state = BUFFER_LIVE;
	word_store(registry, buffer, BOARD_LIVE);
}

static void buffer_destroy(struct registry *registry, struct buffer *buffer)
{
	word_store(registry, buffer, BOARD_FREE);
	places_give(&registry->words, buffer->place);
	charge_release(&buffer->charge, registry->accounting);
	timeline_destroy(buffer->timeline);
	waiting_forget_drain(buffer);
	delegation_forget(buffer, registry->accounting);
	registry->buffer_count--;
	free(buffer);
}

static void allocation_destroy(struct registry *registry, struct allocation *allocation)
{
	struct buffer *buffer, *next;

	assert(!allocation->grants && !allocation->named);
	DL_FOREACH_SAFE(allocation->buffers, buffer, next)
		buffer_destroy(registry, buffer);
	DL_DELETE(registry->allocations, allocation);
	registry->bytes -= allocation->span;
	charge_release(&allocation->charge, registry->accounting);
	explicit_bzero(&allocation->handle, sizeof allocation->handle);
	free(allocation->release_job);
	free(allocation);
}

static void name_remove(struct registry *registry, struct buffer *buffer)
{
	HASH_DEL(registry->names, buffer);
	HASH_DELETE(by_serial, registry->serials, buffer);
	buffer->allocation->named--;
}

/* Only the books go: memory that is still granted is left to the driver, until the process ends. */
static void allocation_forget(struct registry *registry, struct allocation *allocation)
{
	struct grant *grant, *next_grant;
	struct buffer *buffer;

	DL_FOREACH(allocation->buffers, buffer)
		if (buffer->state != BUFFER_DRAINING)
			name_remove(registry, buffer);
	DL_FOREACH_SAFE(allocation->grants, grant, next_grant) {
		charge_release(&grant->charge, registry->accounting);
		free(grant);
	}
	allocation->grants = NULL;
	allocation_destroy(registry, allocation);
}

void registry_deinit(struct registry *registry)
{
	struct allocation *allocation, *next;

	DL_FOREACH_SAFE(registry->allocations, allocation, next)
		allocation_forget(registry, allocation);
	places_deinit(&registry->tickets);
	places_deinit(&registry->words);
}

void registry_abandon(struct registry *registry, struct buffer *buffer)
{
	assert(buffer->state == BUFFER_CREATING);
	name_remove(registry, buffer);
	allocation_destroy(registry, buffer->allocation);
}

struct buffer *registry_find(const struct registry *registry, const char *name)
{
	struct buffer *buffer;

	HASH_FIND_STR(registry->names, name, buffer);
	return buffer;
}

struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial)
{
	struct buffer *buffer;

	HASH_FIND(by_serial, registry->serials, &serial, sizeof serial, buffer);
	return buffer && buffer->state == BUFFER_LIVE ? buffer : NULL;
}

/* Memory that several buffers share has one owner, so it never changes hands with one of them. */
int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner)
{
	struct allocation *allocation = buffer->allocation;
	struct charge place, bytes;
	int error;

	if (allocation->buffers->next)
		return error_set(-EBUSY, "'%s' shares its memory with other buffers of its owner", buffer->name);
	error = charge_take(&place, registry->accounting, owner, RESOURCE_BUFFERS, 1);
	if (error)
		return error;
	error = charge_take(&bytes, registry->accounting, owner, RESOURCE_BYTES, allocation->span);
	if (error) {
		charge_release(&place, registry->accounting);
		return error;
	}
	charge_release(&buffer->charge, registry->accounting);
	charge_release(&allocation->charge, registry->accounting);
	buffer->charge = place;
	allocation->charge = bytes;
	buffer->owner = owner;
	buffer->tenure++;
	return 0;
}

/* The one place that decides on a free. */
static void allocation_settle(struct registry *registry, struct allocation *allocation)
{
	if (allocation->named || allocation->open || allocation->freeing)
		return;
	allocation->freeing = true;
	registry->hooks.release(registry->context, allocation);
}

void registry_unlink(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;
	struct grant *grant;

	assert(buffer->state == BUFFER_LIVE);
	name_remove(registry, buffer);
	buffer->state = BUFFER_DRAINING;
	word_store(registry, buffer, BOARD_DRAINING);
	DL_FOREACH(allocation->grants, grant)
		if (!grant->held)
			registry->hooks.notice(registry->context, grant);
	allocation_settle(registry, allocation);
}

int registry_grant(struct registry *registry, struct buffer *buffer, struct session *session, uid_t uid,
		   struct grant **grants, unsigned device, unsigned rights, struct grant **result)
{
	struct grant *grant = calloc(1, sizeof *grant);
	int64_t place;
	int error;

	if (!grant)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&grant->charge, registry->accounting, uid, RESOURCE_GRANTS, 1);
	if (error)
		goto free_grant;
	place = places_take(&registry->tickets);
	if (place < 0) {
		error = error_set(-ENOSPC, "the board's %u tickets are all in use: close mappings (gpub_trim), or "
					   "start the broker with a larger board",
				  registry->tickets.count);
		goto refund;
	}
	grant->id = registry->next_grant++;
	HASH_ADD(hh, *grants, id, sizeof grant->id, grant);
	if (!table_added(grant)) {
		error = error_set(-ENOMEM, "the broker is out of memory");
		goto give_place;
	}
	grant->session = session;
	grant->uid = uid;
	grant->allocation = buffer->allocation;
	grant->device = device;
	grant->rights = rights;
	grant->ticket = (uint32_t)place;
	DL_APPEND(buffer->allocation->grants, grant);
	buffer->allocation->open++;
	registry->grant_count++;
	*result = grant;
	return 0;
give_place:
	places_give(&registry->tickets, (uint32_t)place);
refund:
	charge_release(&grant->charge, registry->accounting);
free_grant:
	free(grant);
	return error;
}

struct grant *registry_find_grant(struct grant *grants, uint64_t id)
{
	struct grant *grant;

	HASH_FIND(hh, grants, &id, sizeof id, grant);
	return grant && !grant->held ? grant : NULL;
}

/* What an open grant costs beside the memory. */
static void grant_refund(struct registry *registry, struct grant *grant)
{
	places_give(&registry->tickets, grant->ticket);
	charge_release(&grant->charge, registry->accounting);
	registry->grant_count--;
}

static bool is_believed(const struct registry *registry, const struct grant *grant)
{
	/* all buffers of an allocation have one owner */
	return registry->believe == BELIEVE_OWNER && grant->uid == grant->allocation->buffers->owner;
}

/* One hold says all that there is to say of a process and an allocation: it ends with the process. */
static bool is_held_already(const struct grant *grant)
{
	const struct grant *other;

	DL_FOREACH(grant->allocation->grants, other)
		if (other->held && other->session == grant->session)
			return true;
	return false;
}

bool registry_grant_closed(struct registry *registry, struct grant **grants, struct grant *grant)
{
	if (is_believed(registry, grant) || (grant->allocation->held && is_held_already(grant))) {
		registry_grant_over(registry, grants, grant);
		return true;
	}
	grant_refund(registry, grant);
	grant->held = true;
	grant->allocation->held++;
	return false;
}

void registry_grant_over(struct registry *registry, struct grant **grants, struct grant *grant)
{
	struct allocation *allocation = grant->allocation;

	HASH_DEL(*grants, grant);
	DL_DELETE(allocation->grants, grant);
	allocation->open--;
	if (grant->held)
		allocation->held--;
	else
		grant_refund(registry, grant);
	free(grant);
	allocation_settle(registry, allocation);
}

void registry_released(struct registry *registry, struct allocation *allocation)
{
	assert(allocation->freeing);
	allocation_destroy(registry, allocation);
}

struct buffer *allocation_find(const struct allocation *allocation, uint64_t serial)
{
	struct buffer *buffer;

	DL_SEARCH_SCALAR(allocation->buffers, buffer, serial, serial);
	return buffer;
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
