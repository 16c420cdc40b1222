/* SPDX-License-Identifier: Apache-2.0 */
/* grants.c - see grants.h */
#include "grants.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "broker/users/accounting.h"
#include "common/error.h"
#include "notices.h"
#include "places.h"
#include "registry.h"

/* ---- uses ---- */

struct use *grant_find_use(const struct grant *grant, uint64_t serial)
{
	struct use_key key = { grant->id, serial };
	struct use *use;

	HASH_FIND(hh, grant->among->uses, &key, sizeof key, use);
	return use;
}

static unsigned writes(const struct use *use)
{
	return use->rights & GPUB_WRITE ? 1 : 0;
}

static void use_set_rights(struct use *use, unsigned rights)
{
	use->buffer->writers -= writes(use);
	use->rights = rights;
	use->buffer->writers += writes(use);
}

void use_add_rights(struct use *use, unsigned rights)
{
	use_set_rights(use, use->rights | rights);
}

/* Enters the use in its session's table, under the grant and `serial`. -ENOMEM with the error message set. */
static int use_enter(struct use *use, const struct grant *grant, uint64_t serial)
{
	use->key = (struct use_key){ grant->id, serial };
	HASH_ADD(hh, grant->among->uses, key, sizeof use->key, use);
	return table_added(use) ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

static void use_add(struct registry *registry, struct use *use, struct grant *grant, struct buffer *buffer)
{
	use->grant = grant;
	use->buffer = buffer;
	DL_APPEND(buffer->uses, use);
	DL_APPEND2(grant->uses, use, grant_prev, grant_next);
	grant->used++;
	grant->among->used++;
	buffer->used++;
	buffer->writers += writes(use);
	buffer->orphaned += grant->orphaned;
	buffer->allocation->used++;
	tracked_begin(registry->tracking, &use->tracked, TRACKED_USE);
}

static void use_take_off(struct registry *registry, struct use *use)
{
	if (table_added(use))
		HASH_DEL(use->grant->among->uses, use);
	DL_DELETE(use->buffer->uses, use);
	if (use->buffer->notices.use == use)
		notices_pass(use);
	DL_DELETE2(use->grant->uses, use, grant_prev, grant_next);
	use->grant->used--;
	use->grant->among->used--;
	use->buffer->used--;
	use->buffer->writers -= writes(use);
	use->buffer->orphaned -= use->grant->orphaned;
	use->buffer->allocation->used--;
	tracked_end(registry->tracking, &use->tracked);
}

static void use_end(struct registry *registry, struct use *use)
{
	use_take_off(registry, use);
	registry_end_unwritable(registry, use->buffer);
	charge_release(&use->charge, registry->accounting);
	free(use);
}

static void grant_forget_uses(struct registry *registry, struct grant *grant)
{
	while (grant->uses)
		use_end(registry, grant->uses);
}

static bool is_trusted(const struct registry *registry, const struct grant *grant)
{
	return registry->trust == TRUST_OWNER && grant->uid == grant->allocation->slab.kind.owner;
}

static void ask_to_close(struct registry *registry, struct grant *grant)
{
	if (grant->allocation->state == ALLOCATION_EVICTED) /* all were asked; this session is asked again */
		registry->hooks.notice(registry->context, grant, 0);
	else
		memory_evict(registry->memory, grant->allocation);
}

bool use_quiesced(struct registry *registry, struct use *use)
{
	struct buffer *buffer = use->buffer;

	/* an untrusted session is asked to close the whole mapping: its death is what ends the grant */
	if (!is_trusted(registry, use->grant)) {
		registry->hooks.notice(registry->context, use->grant, 0);
		return false;
	}
	/*
	 * the allocation is freed after the CLOSED of this grant: the use stays until then, to show who is waited for
	 */
	if (buffer->state == BUFFER_DRAINING && !registry_keeps(registry, buffer)) {
		ask_to_close(registry, use->grant);
		return true;
	}
	/*
	 * a grant that is not shared serves one acquire only: its use ends with the CLOSED, and is charged until then
	 */
	if (!use->grant->shared) {
		registry->hooks.notice(registry->context, use->grant, 0);
		return true;
	}
	use_end(registry, use);
	registry_end_buffer(registry, buffer);
	return true;
}

/* ---- grants ---- */

static struct attachment *attachment_find(const struct grants *grants, const struct allocation *allocation)
{
	struct attachment *attachment;

	HASH_FIND_PTR(grants->attachments, &allocation, attachment);
	return attachment;
}

/* Creates the session's attachment for an allocation. It must have none. NULL: no memory. */
static struct attachment *attachment_new(struct grants *grants, struct allocation *allocation)
{
	struct attachment *attachment = calloc(1, sizeof *attachment);

	if (!attachment)
		return NULL;
	attachment->allocation = allocation;
	HASH_ADD_PTR(grants->attachments, allocation, attachment);
	if (table_added(attachment))
		return attachment;
	free(attachment);
	return NULL;
}

/* Frees the attachment if it has no grant. */
static void attachment_put(struct grants *grants, struct attachment *attachment)
{
	if (attachment->grants)
		return;
	HASH_DEL(grants->attachments, attachment);
	free(attachment);
}

/* Returns the grant on order->device that the session's acquires share. NULL: there is none, or order->own is set. */
static struct grant *grant_shared(const struct attachment *attachment, const struct grant_order *order)
{
	struct grant *grant;

	if (attachment && !order->own)
		DL_FOREACH2(attachment->shared, grant, shared_next)
			if (grant->device == order->device)
				return grant;
	return NULL;
}

static bool is_shared(const struct grant *grant)
{
	return grant->shared && !grant->orphaned;
}

/* Enters a new grant in the lists of its attachment and allocation, and counts it. Cannot fail. */
static void grant_add(struct registry *registry, struct grant *grant)
{
	struct attachment *attachment = grant->attachment;

	attachment->grants++;
	if (is_shared(grant))
		DL_APPEND2(attachment->shared, grant, shared_prev, shared_next);
	grant->bytes = grant->allocation->size;
	grant->among->bytes += grant->bytes;
	DL_APPEND(grant->allocation->grants, grant);
	grant->allocation->open++;
	registry->grant_count++;
	tracked_begin(registry->tracking, &grant->tracked, TRACKED_GRANT);
}

/* Creates a grant. attachment: the session's for the allocation; NULL: the function creates it. */
static int grant_new(struct registry *registry, struct allocation *allocation, struct attachment *attachment,
		     const struct grant_order *order, struct grant **result)
{
	struct grant *grant = calloc(1, sizeof *grant);
	int64_t place;
	int error;

	if (!grant)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&grant->charge, registry->accounting, order->uid, RESOURCE_MAPPINGS, 1);
	if (error)
		goto free_grant;
	place = places_take(&registry->handles);
	if (place < 0) {
		error = error_set(-ENOSPC, "the board's %u places for sealed handles are all in use: close mappings (gpub_trim), or "
					   "start the broker with a larger board",
				  registry->handles.count);
		goto refund;
	}
	*grant = (struct grant){ .id = registry->next_grant++,
				 .session = order->session,
				 .among = order->grants,
				 .attachment = attachment ? attachment : attachment_new(order->grants, allocation),
				 .uid = order->uid,
				 .allocation = allocation,
				 .device = order->device,
				 .place = (uint32_t)place,
				 .charge = grant->charge,
				 .shared = !order->own };
	if (!grant->attachment)
		goto give_place;
	HASH_ADD(hh, order->grants->by_id, id, sizeof grant->id, grant);
	if (!table_added(grant))
		goto put_attachment;
	grant_add(registry, grant);
	*result = grant;
	return 0;
put_attachment:
	attachment_put(order->grants, grant->attachment);
give_place:
	error = error_set(-ENOMEM, "the broker is out of memory");
	places_give(&registry->handles, (uint32_t)place);
refund:
	charge_release(&grant->charge, registry->accounting);
free_grant:
	free(grant);
	return error;
}

/* Returns the grant's place for a sealed handle, and its charge. */
static void grant_give_place(struct registry *registry, struct grant *grant)
{
	places_give(&registry->handles, grant->place);
	charge_release(&grant->charge, registry->accounting);
	registry->grant_count--;
}

/* Frees a grant that is in no list. */
static void grant_free(struct registry *registry, struct grant *grant)
{
	if (!grant->orphaned)
		grant_give_place(registry, grant);
	free(grant);
}

/* Removes the grant from all lists and counts. Frees its attachment if it was the last grant there. */
static void grant_take_off(struct registry *registry, struct grant *grant)
{
	struct attachment *attachment = grant->attachment;

	HASH_DEL(grant->among->by_id, grant);
	grant->among->orphaned -= grant->orphaned;
	grant->among->bytes -= grant->bytes;
	if (grant->allocation->notices.grant == grant)
		grant->allocation->notices.grant = grant->next;
	DL_DELETE(grant->allocation->grants, grant);
	grant->allocation->orphaned -= grant->orphaned;
	grant->allocation->open--;
	if (is_shared(grant))
		DL_DELETE2(attachment->shared, grant, shared_prev, shared_next);
	if (grant->orphaned)
		attachment->orphaned = NULL;
	attachment->grants--;
	attachment_put(grant->among, attachment);
	tracked_end(registry->tracking, &grant->tracked);
}

int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct use **result,
	       bool *fresh)
{
	struct attachment *attachment = attachment_find(order->grants, buffer->allocation);
	struct grant *grant = grant_shared(attachment, order);
	struct use *use = grant ? grant_find_use(grant, buffer->serial) : NULL;
	bool is_fresh = !grant;
	int error;

	if (use) {
		use_add_rights(use, order->rights);
		goto done;
	}
	use = calloc(1, sizeof *use);
	if (!use)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&use->charge, registry->accounting, order->uid, RESOURCE_GRANTS, 1);
	if (error)
		goto free_use;
	error = is_fresh ? grant_new(registry, buffer->allocation, attachment, order, &grant) : 0;
	if (error)
		goto refund;
	error = use_enter(use, grant, buffer->serial);
	if (error)
		goto undo_grant;
	use->rights = order->rights;
	use_add(registry, use, grant, buffer);
done:
	*result = use;
	*fresh = is_fresh;
	return 0;
undo_grant:
	if (is_fresh) {
		grant_take_off(registry, grant);
		grant_free(registry, grant);
	}
refund:
	charge_release(&use->charge, registry->accounting);
free_use:
	free(use);
	return error;
}

unsigned grant_missing(const struct buffer *buffer, const struct grant_order *order)
{
	const struct allocation *allocation = buffer->allocation, *chunk;
	uint64_t bytes, offset = allocation->span;
	const struct grant *grant;
	unsigned missing;

	if (allocation->descriptor < 0)
		return 0;
	grant = grant_shared(attachment_find(order->grants, allocation), order);
	bytes = grant ? grant->bytes : 0;
	missing = !bytes;
	DL_FOREACH2(allocation->chunks, chunk, chunk_next) {
		missing += offset >= bytes;
		offset += chunk->span;
	}
	return missing;
}

uint64_t grant_extend(struct registry *registry, struct grant *grant)
{
	uint64_t bytes = grant->bytes;

	if (bytes == grant->allocation->size)
		return bytes;
	grant->bytes = grant->allocation->size;
	grant->among->bytes += grant->bytes - bytes;
	tracked_changed(registry->tracking, &grant->tracked);
	return bytes;
}

/* ---- who writes ---- */

/* For each of the session's uses of the buffer under shared grants: at most one for each device. */
#define EACH_SHARED_USE(grants, buffer, use)                                                                   \
	for (struct attachment *attachment_ = attachment_find(grants, (buffer)->allocation); attachment_;      \
	     attachment_ = NULL)                                                                               \
		for (struct grant *grant_ = attachment_->shared; grant_; grant_ = grant_->shared_next)         \
			for (struct use *use = grant_find_use(grant_, (buffer)->serial); use; use = NULL)

bool grants_others_write(const struct grants *grants, const struct buffer *buffer)
{
	unsigned own = 0;

	EACH_SHARED_USE(grants, buffer, use)
		own += writes(use);
	return buffer->writers > own;
}

#define SCANS 64 /* most uses of other sessions that one message looks at (invariant 5) */

const struct use *grants_find_writer(const struct grants *grants, const struct buffer *buffer)
{
	const struct use *use = buffer->uses, *own = NULL;

	for (int i = 0; use && i < SCANS; i++, use = use->next) {
		if (!writes(use))
			continue;
		if (use->grant->among != grants)
			return use;
		if (!is_shared(use->grant) || use->key.serial != buffer->serial)
			own = use;
	}
	return own;
}

void grants_stop_writing(struct grants *grants, struct buffer *buffer)
{
	EACH_SHARED_USE(grants, buffer, use)
		use_set_rights(use, use->rights & ~GPUB_WRITE);
}

struct grant *grant_find(const struct grants *grants, uint64_t id)
{
	struct grant *grant;

	HASH_FIND(hh, grants->by_id, &id, sizeof id, grant);
	return grant && !grant->orphaned ? grant : NULL;
}

/*
 * Key of a use under an orphaned grant, in place of the serial: the buffer's place in the board. So a buffer has one
 * such use, however often it is renamed, and renames do not accumulate uses. No message names these uses.
 */
#define ORPHAN_KEY(buffer) (1ull << 63 | (buffer)->place)

/*
 * Moves the uses of `grant` to `into`, an orphaned grant of the same session and allocation. They stay charged. Visits
 * each use once in its life, so the cost is paid for by the message that opened the use (invariant 5).
 */
static void grant_merge(struct registry *registry, struct grant *into, struct grant *grant)
{
	struct use *use, *next, *same;

	DL_FOREACH_SAFE2(grant->uses, use, next, grant_next) {
		same = grant_find_use(into, ORPHAN_KEY(use->buffer));
		if (same) {
			use_add_rights(same, use->rights);
			continue;
		}
		use_take_off(registry, use);
		use_enter(use, into, ORPHAN_KEY(use->buffer)); /* on -ENOMEM the use is in no table, but counts */
		use_add(registry, use, into, use->buffer);
	}
}

/* Gives a use of an orphaned grant its new key, or merges it into the use that has that key. */
static void use_orphan(struct registry *registry, struct use *use)
{
	struct use *same = grant_find_use(use->grant, ORPHAN_KEY(use->buffer));

	if (same) {
		use_add_rights(same, use->rights);
		use_end(registry, use);
		return;
	}
	if (table_added(use))
		HASH_DEL(use->grant->among->uses, use);
	use_enter(use, use->grant, ORPHAN_KEY(use->buffer));
}

/*
 * Orphans the grant. Its uses stay charged to their user until the process is dead, because the quota alone limits how
 * many of them a process can leave.
 */
static void grant_hold(struct registry *registry, struct grant *grant)
{
	struct use *use, *next;

	grant_give_place(registry, grant);
	DL_FOREACH_SAFE2(grant->uses, use, next, grant_next)
		use_orphan(registry, use);
	if (is_shared(grant))
		DL_DELETE2(grant->attachment->shared, grant, shared_prev, shared_next);
	grant->attachment->orphaned = grant;
	grant->orphaned = true;
	tracked_changed(registry->tracking, &grant->tracked);
	grant->among->orphaned++;
	grant->allocation->orphaned++;
	DL_FOREACH2(grant->uses, use, grant_next)
		use->buffer->orphaned++;
}

bool grant_closed(struct registry *registry, struct grant *grant)
{
	/* a session keeps one orphaned grant for an allocation: the uses of later ones are moved to it */
	struct grant *orphaned = is_trusted(registry, grant) ? NULL : grant->attachment->orphaned;

	if (!orphaned && !is_trusted(registry, grant)) {
		grant_hold(registry, grant);
		return false;
	}
	if (orphaned)
		grant_merge(registry, orphaned, grant);
	grant_end(registry, grant);
	return true;
}

void grant_end(struct registry *registry, struct grant *grant)
{
	struct allocation *allocation = grant->allocation;
	struct buffer *buffer;

	grant_take_off(registry, grant);
	if (!allocation->open && !allocation->named)
		grant_forget_uses(registry, grant); /* the whole allocation is freed below, with its buffers */
	while (grant->uses) {
		buffer = grant->uses->buffer;
		use_end(registry, grant->uses);
		registry_end_buffer(registry, buffer);
	}
	grant_free(registry, grant);
	memory_decide_free(registry->memory, allocation);
}

void grants_forget(struct registry *registry, struct grants *grants)
{
	struct grant *grant, *next;

	HASH_ITER(hh, grants->by_id, grant, next) {
		grant_take_off(registry, grant);
		grant_forget_uses(registry, grant);
		charge_release(&grant->charge, registry->accounting);
		free(grant);
	}
}
