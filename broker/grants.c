/* SPDX-License-Identifier: Apache-2.0 */
/* grants.c - see grants.h */
#include "grants.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "common/error.h"

/* ---- uses ---- */

static struct use *use_find(const struct grant *grant, const struct buffer *buffer)
{
	struct use *use;

	DL_SEARCH_SCALAR(buffer->uses, use, grant, grant);
	return use;
}

struct use *grant_find_use(const struct registry *registry, const struct grant *grant, uint64_t serial)
{
	struct buffer *buffer = registry_of_serial(registry, serial);

	return buffer ? use_find(grant, buffer) : NULL;
}

static void use_add(struct use *use, struct grant *grant, struct buffer *buffer)
{
	use->grant = grant;
	use->buffer = buffer;
	DL_APPEND(buffer->uses, use);
	DL_APPEND2(grant->uses, use, grant_prev, grant_next);
	grant->used++;
	grant->among->used++;
	buffer->used++;
	buffer->held += grant->held;
	buffer->allocation->used++;
}

static void use_take_off(struct use *use)
{
	DL_DELETE(use->buffer->uses, use);
	DL_DELETE2(use->grant->uses, use, grant_prev, grant_next);
	use->grant->used--;
	use->grant->among->used--;
	use->buffer->used--;
	use->buffer->held -= use->grant->held;
	use->buffer->allocation->used--;
}

static void use_end(struct registry *registry, struct use *use)
{
	use_take_off(use);
	charge_release(&use->charge, registry->accounting);
	free(use);
}

static void grant_forget_uses(struct registry *registry, struct grant *grant)
{
	while (grant->uses)
		use_end(registry, grant->uses);
}

static bool is_believed(const struct registry *registry, const struct grant *grant)
{
	return registry->believe == BELIEVE_OWNER && grant->uid == grant->allocation->slab.kind.owner;
}

bool grant_idle(struct registry *registry, struct use *use)
{
	struct buffer *buffer = use->buffer;

	/* then only the end of the whole mapping is of use */
	if (!is_believed(registry, use->grant)) {
		registry->hooks.notice(registry->context, use->grant, 0);
		return false;
	}
	/* where its memory is to be freed the CLOSED is waited for, and people see for whom */
	if (buffer->state == BUFFER_DRAINING && !registry_keeps(registry, buffer)) {
		registry_want_back(registry, use->grant);
		return true;
	}
	/* nothing else will ever be found under a grant of its own: its end is the CLOSED, and it stays charged until then */
	if (!use->grant->shared) {
		registry->hooks.notice(registry->context, use->grant, 0);
		return true;
	}
	use_end(registry, use);
	registry_settle_buffer(registry, buffer);
	return true;
}

/* ---- grants ---- */

/* The grant that later acquires of the session share. */
static struct grant *grant_shared(const struct allocation *allocation, const struct grant_order *order)
{
	struct grant *grant;

	if (order->own)
		return NULL;
	DL_FOREACH(allocation->grants, grant)
		if (grant->session == order->session && grant->device == order->device && grant->shared && !grant->held)
			return grant;
	return NULL;
}

static int grant_new(struct registry *registry, struct allocation *allocation, const struct grant_order *order,
		     struct grant **result)
{
	struct grant *grant = calloc(1, sizeof *grant);
	int64_t place;

	if (!grant)
		return error_set(-ENOMEM, "the broker is out of memory");
	place = places_take(&registry->tickets);
	if (place < 0) {
		free(grant);
		return error_set(-ENOSPC, "the board's %u tickets are all in use: close mappings (gpub_trim), or "
					  "start the broker with a larger board",
				 registry->tickets.count);
	}
	grant->id = registry->next_grant++;
	HASH_ADD(hh, order->grants->by_id, id, sizeof grant->id, grant);
	if (!table_added(grant)) {
		places_give(&registry->tickets, (uint32_t)place);
		free(grant);
		return error_set(-ENOMEM, "the broker is out of memory");
	}
	grant->session = order->session;
	grant->among = order->grants;
	grant->among->bytes += allocation->span;
	grant->uid = order->uid;
	grant->allocation = allocation;
	grant->device = order->device;
	grant->shared = !order->own;
	grant->ticket = (uint32_t)place;
	DL_APPEND(allocation->grants, grant);
	allocation->open++;
	registry->grant_count++;
	*result = grant;
	return 0;
}

int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct use **result,
		   bool *fresh)
{
	struct grant *grant = grant_shared(buffer->allocation, order);
	struct use *use = grant ? use_find(grant, buffer) : NULL;
	int error;

	*fresh = !grant;
	if (use)
		goto done;
	use = calloc(1, sizeof *use);
	if (!use)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&use->charge, registry->accounting, order->uid, RESOURCE_GRANTS, 1);
	if (!error && !grant)
		error = grant_new(registry, buffer->allocation, order, &grant);
	if (error) {
		charge_release(&use->charge, registry->accounting);
		free(use);
		return error;
	}
	use_add(use, grant, buffer);
done:
	use->rights = order->rights;
	*result = use;
	return 0;
}

struct grant *grant_find(const struct grants *grants, uint64_t id)
{
	struct grant *grant;

	HASH_FIND(hh, grants->by_id, &id, sizeof id, grant);
	return grant && !grant->held ? grant : NULL;
}

/* What an open grant costs beside the memory. */
static void grant_refund(struct registry *registry, struct grant *grant)
{
	struct use *use;

	DL_FOREACH2(grant->uses, use, grant_next)
		charge_release(&use->charge, registry->accounting);
	places_give(&registry->tickets, grant->ticket);
	registry->grant_count--;
}

/* One hold says all that there is to say of a process and an allocation: it ends with the process. */
static struct grant *grant_held_already(const struct grant *grant)
{
	struct grant *other;

	if (grant->allocation->held)
		DL_FOREACH(grant->allocation->grants, other)
			if (other->held && other->session == grant->session)
				return other;
	return NULL;
}

/* Nothing of it is over: the other grant stands for it. */
static void grant_merge(struct registry *registry, struct grant *into, struct grant *grant)
{
	struct use *use, *next;

	DL_FOREACH_SAFE2(grant->uses, use, next, grant_next) {
		if (use_find(into, use->buffer))
			continue;
		use_take_off(use);
		charge_release(&use->charge, registry->accounting);
		use_add(use, into, use->buffer);
	}
}

static void grant_hold(struct registry *registry, struct grant *grant)
{
	struct use *use;

	grant_refund(registry, grant);
	grant->held = true;
	grant->among->held++;
	grant->allocation->held++;
	DL_FOREACH2(grant->uses, use, grant_next)
		use->buffer->held++;
}

bool grant_closed(struct registry *registry, struct grant *grant)
{
	struct grant *held = is_believed(registry, grant) ? NULL : grant_held_already(grant);

	if (!held && !is_believed(registry, grant)) {
		grant_hold(registry, grant);
		return false;
	}
	if (held)
		grant_merge(registry, held, grant);
	grant_over(registry, grant);
	return true;
}

static void grant_take_off(struct grant *grant)
{
	HASH_DEL(grant->among->by_id, grant);
	grant->among->held -= grant->held;
	grant->among->bytes -= grant->allocation->span;
	DL_DELETE(grant->allocation->grants, grant);
	grant->allocation->held -= grant->held;
	grant->allocation->open--;
}

void grant_over(struct registry *registry, struct grant *grant)
{
	struct allocation *allocation = grant->allocation;
	struct buffer *buffer;

	grant_take_off(grant);
	if (!grant->held)
		grant_refund(registry, grant);
	if (!allocation->open && !allocation->named)
		grant_forget_uses(registry, grant); /* all that is in it goes with it */
	while (grant->uses) {
		buffer = grant->uses->buffer;
		use_end(registry, grant->uses);
		registry_settle_buffer(registry, buffer);
	}
	free(grant);
	registry_settle(registry, allocation);
}

void grants_forget(struct registry *registry, struct grants *grants)
{
	struct grant *grant, *next;

	HASH_ITER(hh, grants->by_id, grant, next) {
		grant_take_off(grant);
		grant_forget_uses(registry, grant);
		free(grant);
	}
}
