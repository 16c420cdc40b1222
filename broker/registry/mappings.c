/* SPDX-License-Identifier: Apache-2.0 */
/* mappings.c - see mappings.h */
#include "mappings.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

#include "broker/users/accounting.h"
#include "common/error.h"
#include "notices.h"
#include "places.h"
#include "registry.h"

/* ---- grants ---- */

struct grant *mapping_find_grant(const struct mapping *mapping, uint64_t serial)
{
	struct grant_key key = { mapping->id, serial };
	struct grant *grant;

	HASH_FIND(hh, mapping->among->grants, &key, sizeof key, grant);
	return grant;
}

static unsigned writes(const struct grant *grant)
{
	return grant->rights & GPUB_WRITE ? 1 : 0;
}

static void grant_set_rights(struct registry *registry, struct grant *grant, unsigned rights)
{
	if (grant->rights == rights)
		return;
	grant->buffer->writers -= writes(grant);
	grant->rights = rights;
	grant->buffer->writers += writes(grant);
	tracked_changed(registry->tracking, &grant->tracked);
}

void grant_add_rights(struct registry *registry, struct grant *grant, unsigned rights)
{
	grant_set_rights(registry, grant, grant->rights | rights);
}

/*
 * Enters the grant in its session's table, by the mapping and `serial`. Returns 0, or -ENOMEM with the error message
 * set.
 */
static int grant_enter(struct grant *grant, const struct mapping *mapping, uint64_t serial)
{
	grant->key = (struct grant_key){ mapping->id, serial };
	HASH_ADD(hh, mapping->among->grants, key, sizeof grant->key, grant);
	return table_added(grant) ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

static void grant_add(struct registry *registry, struct grant *grant, struct mapping *mapping, struct buffer *buffer)
{
	grant->mapping = mapping;
	grant->buffer = buffer;
	DL_APPEND(buffer->grants, grant);
	DL_APPEND2(mapping->grants, grant, mapping_prev, mapping_next);
	mapping->grant_count++;
	mapping->among->grant_count++;
	buffer->grant_count++;
	buffer->writers += writes(grant);
	buffer->orphaned += mapping->orphaned;
	buffer->allocation->grant_count++;
	tracked_begin(registry->tracking, &grant->tracked, TRACKED_GRANT);
}

static void grant_remove(struct registry *registry, struct grant *grant)
{
	if (table_added(grant))
		HASH_DEL(grant->mapping->among->grants, grant);
	DL_DELETE(grant->buffer->grants, grant);
	if (grant->buffer->notices.grant == grant)
		notices_pass(grant);
	DL_DELETE2(grant->mapping->grants, grant, mapping_prev, mapping_next);
	grant->mapping->grant_count--;
	grant->mapping->among->grant_count--;
	grant->buffer->grant_count--;
	grant->buffer->writers -= writes(grant);
	grant->buffer->orphaned -= grant->mapping->orphaned;
	grant->buffer->allocation->grant_count--;
	tracked_end(registry->tracking, &grant->tracked);
}

static void grant_end(struct registry *registry, struct grant *grant)
{
	grant_remove(registry, grant);
	registry_end_unwritable(registry, grant->buffer);
	charge_release(&grant->charge, registry->accounting);
	free(grant);
}

static void mapping_forget_grants(struct registry *registry, struct mapping *mapping)
{
	while (mapping->grants)
		grant_end(registry, mapping->grants);
}

static bool is_trusted(const struct registry *registry, const struct mapping *mapping)
{
	return registry->trust == TRUST_OWNER && mapping->uid == mapping->allocation->slab.kind.owner;
}

static void ask_to_close(struct registry *registry, struct mapping *mapping)
{
	/* the eviction asked all sessions already; this session is asked again */
	if (mapping->allocation->state == ALLOCATION_EVICTED)
		registry->hooks.notice(registry->context, mapping, 0);
	else
		memory_evict(registry->memory, mapping->allocation);
}

bool grant_quiesced(struct registry *registry, struct grant *grant)
{
	struct buffer *buffer = grant->buffer;

	/* asks an untrusted session to close the whole mapping, but only the death of its process ends the mapping */
	if (!is_trusted(registry, grant->mapping)) {
		registry->hooks.notice(registry->context, grant->mapping, 0);
		return false;
	}
	/*
	 * the allocation is freed after the CLOSED of this mapping. The grant stays until then, to show whose CLOSED is
	 * awaited
	 */
	if (buffer->state == BUFFER_DRAINING && !registry_keeps(registry, buffer)) {
		ask_to_close(registry, grant->mapping);
		return true;
	}
	/* a mapping that is not shared serves one acquire only: its grant stays, and stays charged, until the CLOSED */
	if (!grant->mapping->shared) {
		registry->hooks.notice(registry->context, grant->mapping, 0);
		return true;
	}
	grant_end(registry, grant);
	registry_end_buffer(registry, buffer);
	return true;
}

/* ---- mappings ---- */

static struct siblings *siblings_find(const struct session_mappings *mappings, const struct allocation *allocation)
{
	struct siblings *siblings;

	HASH_FIND_PTR(mappings->by_allocation, &allocation, siblings);
	return siblings;
}

/*
 * Creates the struct siblings of the session for an allocation of which the session has none. NULL: there is no memory.
 */
static struct siblings *siblings_new(struct session_mappings *mappings, struct allocation *allocation)
{
	struct siblings *siblings = calloc(1, sizeof *siblings);

	if (!siblings)
		return NULL;
	siblings->allocation = allocation;
	HASH_ADD_PTR(mappings->by_allocation, allocation, siblings);
	if (table_added(siblings))
		return siblings;
	free(siblings);
	return NULL;
}

/* Frees a struct siblings that has no mapping any more. */
static void siblings_put(struct session_mappings *mappings, struct siblings *siblings)
{
	if (siblings->count)
		return;
	HASH_DEL(mappings->by_allocation, siblings);
	free(siblings);
}

/*
 * Returns the mapping of the allocation on order->device that the session's acquires share. NULL: there is none, or
 * order->own is set.
 */
static struct mapping *mapping_shared(const struct siblings *siblings, const struct grant_order *order)
{
	struct mapping *mapping;

	if (siblings && !order->own)
		DL_FOREACH2(siblings->shared, mapping, shared_next)
			if (mapping->device == order->device)
				return mapping;
	return NULL;
}

static bool is_shared(const struct mapping *mapping)
{
	return mapping->shared && !mapping->orphaned;
}

/* Enters a mapping in the lists of its siblings and of its allocation, and counts it. Cannot fail. */
static void mapping_add(struct registry *registry, struct mapping *mapping, uint64_t bytes)
{
	struct siblings *siblings = mapping->siblings;

	siblings->count++;
	if (is_shared(mapping))
		DL_APPEND2(siblings->shared, mapping, shared_prev, shared_next);
	mapping->bytes = bytes;
	mapping->among->bytes += bytes;
	DL_APPEND(mapping->allocation->mappings, mapping);
	mapping->allocation->open++;
	registry->mapping_count++;
	tracked_begin(registry->tracking, &mapping->tracked, TRACKED_MAPPING);
}

/*
 * Creates a mapping. siblings: the session's mappings of the allocation; NULL: it has none yet, and the struct is
 * created.
 */
static int mapping_new(struct registry *registry, struct allocation *allocation, struct siblings *siblings,
		       const struct grant_order *order, struct mapping **result)
{
	struct mapping *mapping = calloc(1, sizeof *mapping);
	int64_t place;
	int error;

	if (!mapping)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&mapping->charge, registry->accounting, order->uid, RESOURCE_MAPPINGS, 1);
	if (error)
		goto free_mapping;
	place = places_take(&registry->handles);
	if (place < 0) {
		error = error_set(-ENOSPC,
				  "the broker has room for %u mappings, and has as many: close some (gpub_trim), or "
				  "start it with more ('mappings' of broker-run(1) or brokerd.conf(5))",
				  registry->handles.count);
		goto refund;
	}
	*mapping = (struct mapping){ .id = registry->next_mapping++,
				     .session = order->session,
				     .among = order->mappings,
				     .siblings = siblings ? siblings : siblings_new(order->mappings, allocation),
				     .uid = order->uid,
				     .allocation = allocation,
				     .device = order->device,
				     .place = (uint32_t)place,
				     .charge = mapping->charge,
				     .shared = !order->own };
	if (!mapping->siblings)
		goto give_place;
	HASH_ADD(hh, order->mappings->by_id, id, sizeof mapping->id, mapping);
	if (!table_added(mapping))
		goto put_siblings;
	mapping_add(registry, mapping, allocation->size);
	*result = mapping;
	return 0;
put_siblings:
	siblings_put(order->mappings, mapping->siblings);
give_place:
	error = error_set(-ENOMEM, "the broker is out of memory");
	places_give(&registry->handles, (uint32_t)place);
refund:
	charge_release(&mapping->charge, registry->accounting);
free_mapping:
	free(mapping);
	return error;
}

/* Gives the mapping's handle place back to the board, and ends the charge for it. */
static void mapping_give_place(struct registry *registry, struct mapping *mapping)
{
	places_give(&registry->handles, mapping->place);
	charge_release(&mapping->charge, registry->accounting);
	registry->mapping_count--;
}

/* Frees a mapping that is in no list and table any more. */
static void mapping_free(struct registry *registry, struct mapping *mapping)
{
	if (!mapping->orphaned)
		mapping_give_place(registry, mapping);
	free(mapping);
}

/*
 * Removes the mapping from all lists, tables and counts but registry->mapping_count. Frees its struct siblings if that
 * has no other mapping.
 */
static void mapping_remove(struct registry *registry, struct mapping *mapping)
{
	struct siblings *siblings = mapping->siblings;

	HASH_DEL(mapping->among->by_id, mapping);
	mapping->among->orphaned -= mapping->orphaned;
	mapping->among->bytes -= mapping->bytes;
	if (mapping->allocation->notices.mapping == mapping)
		mapping->allocation->notices.mapping = mapping->next;
	DL_DELETE(mapping->allocation->mappings, mapping);
	mapping->allocation->orphaned -= mapping->orphaned;
	mapping->allocation->open--;
	if (is_shared(mapping))
		DL_DELETE2(siblings->shared, mapping, shared_prev, shared_next);
	if (mapping->orphaned)
		siblings->orphaned = NULL;
	siblings->count--;
	siblings_put(mapping->among, siblings);
	tracked_end(registry->tracking, &mapping->tracked);
}

int grant_open(struct registry *registry, struct buffer *buffer, const struct grant_order *order, struct grant **result,
	       bool *fresh)
{
	struct siblings *siblings = siblings_find(order->mappings, buffer->allocation);
	struct mapping *mapping = mapping_shared(siblings, order);
	struct grant *grant = mapping ? mapping_find_grant(mapping, buffer->serial) : NULL;
	bool is_fresh = !mapping;
	int error;

	if (grant) {
		grant_add_rights(registry, grant, order->rights);
		goto done;
	}
	error = tracking_reserve(registry->tracking, 2);
	if (error)
		return error;
	grant = calloc(1, sizeof *grant);
	if (!grant)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_take(&grant->charge, registry->accounting, order->uid, RESOURCE_GRANTS, 1);
	if (error)
		goto free_grant;
	error = is_fresh ? mapping_new(registry, buffer->allocation, siblings, order, &mapping) : 0;
	if (error)
		goto refund;
	error = grant_enter(grant, mapping, buffer->serial);
	if (error)
		goto undo_mapping;
	grant->rights = order->rights;
	grant_add(registry, grant, mapping, buffer);
done:
	*result = grant;
	*fresh = is_fresh;
	return 0;
undo_mapping:
	if (is_fresh) {
		mapping_remove(registry, mapping);
		mapping_free(registry, mapping);
	}
refund:
	charge_release(&grant->charge, registry->accounting);
free_grant:
	free(grant);
	return error;
}

unsigned mapping_missing(const struct buffer *buffer, const struct grant_order *order)
{
	const struct allocation *allocation = buffer->allocation, *chunk;
	uint64_t bytes, offset = allocation->span;
	const struct mapping *mapping;
	unsigned missing;

	if (allocation->descriptor < 0)
		return 0;
	mapping = mapping_shared(siblings_find(order->mappings, allocation), order);
	bytes = mapping ? mapping->bytes : 0;
	missing = !bytes;
	DL_FOREACH2(allocation->chunks, chunk, chunk_next) {
		missing += offset >= bytes;
		offset += chunk->span;
	}
	return missing;
}

uint64_t mapping_update_size(struct registry *registry, struct mapping *mapping)
{
	uint64_t bytes = mapping->bytes;

	if (bytes == mapping->allocation->size)
		return bytes;
	mapping->bytes = mapping->allocation->size;
	mapping->among->bytes += mapping->bytes - bytes;
	tracked_changed(registry->tracking, &mapping->tracked);
	return bytes;
}

/* ---- who writes ---- */

/*
 * A loop over the session's grants of the buffer's present generation under shared mappings. There is at most one for
 * each device.
 */
#define EACH_SHARED_GRANT(mappings, buffer, grant)                                                                   \
	for (struct siblings *siblings_ = siblings_find(mappings, (buffer)->allocation); siblings_;                  \
	     siblings_ = NULL)                                                                                       \
		for (struct mapping *mapping_ = siblings_->shared; mapping_; mapping_ = mapping_->shared_next)       \
			for (struct grant *grant = mapping_find_grant(mapping_, (buffer)->serial); grant; grant = NULL)

bool grants_others_write(const struct session_mappings *mappings, const struct buffer *buffer)
{
	unsigned own = 0;

	EACH_SHARED_GRANT(mappings, buffer, grant)
		own += writes(grant);
	return buffer->writers > own;
}

#define SCANS 64 /* largest number of a buffer's grants that grants_find_writer() looks at (invariant 5) */

const struct grant *grants_find_writer(const struct session_mappings *mappings, const struct buffer *buffer)
{
	const struct grant *grant = buffer->grants, *own = NULL;

	for (int i = 0; grant && i < SCANS; i++, grant = grant->next) {
		if (!writes(grant))
			continue;
		if (grant->mapping->among != mappings)
			return grant;
		if (!is_shared(grant->mapping) || grant->key.serial != buffer->serial)
			own = grant;
	}
	return own;
}

void grants_stop_writing(struct registry *registry, struct session_mappings *mappings, struct buffer *buffer)
{
	EACH_SHARED_GRANT(mappings, buffer, grant)
		grant_set_rights(registry, grant, grant->rights & ~GPUB_WRITE);
}

struct mapping *mappings_find(const struct session_mappings *mappings, uint64_t id)
{
	struct mapping *mapping;

	HASH_FIND(hh, mappings->by_id, &id, sizeof id, mapping);
	return mapping && !mapping->orphaned ? mapping : NULL;
}

/*
 * Key of a grant under an orphaned mapping, in place of the serial: the index of the buffer's word in the board. So a
 * buffer has one such grant in a mapping, however often it is renamed, and renames do not accumulate grants. No message
 * names these grants.
 */
#define ORPHAN_KEY(buffer) (1ull << 63 | (buffer)->place)

/*
 * Moves the grants of `mapping` to `into`, an orphaned mapping of the same session and allocation. These grants stay
 * charged. If `into` has a grant of the buffer, only adds the rights to that one. A grant is moved once in its life, so
 * the message that opened it pays for the cost (invariant 5).
 */
static void mapping_merge(struct registry *registry, struct mapping *into, struct mapping *mapping)
{
	struct grant *grant, *next, *same;

	DL_FOREACH_SAFE2(mapping->grants, grant, next, mapping_next) {
		same = mapping_find_grant(into, ORPHAN_KEY(grant->buffer));
		if (same) {
			grant_add_rights(registry, same, grant->rights);
			continue;
		}
		grant_remove(registry, grant);
		/* if this fails (-ENOMEM), the grant is in no table */
		grant_enter(grant, into, ORPHAN_KEY(grant->buffer));
		grant_add(registry, grant, into, grant->buffer);
	}
}

/* Gives a grant of an orphaned mapping the key ORPHAN_KEY(), or merges it into the grant that already has that key. */
static void grant_orphan(struct registry *registry, struct grant *grant)
{
	struct grant *same = mapping_find_grant(grant->mapping, ORPHAN_KEY(grant->buffer));

	if (same) {
		grant_add_rights(registry, same, grant->rights);
		grant_end(registry, grant);
		return;
	}
	if (table_added(grant))
		HASH_DEL(grant->mapping->among->grants, grant);
	grant_enter(grant, grant->mapping, ORPHAN_KEY(grant->buffer));
	tracked_changed(registry->tracking, &grant->tracked);
}

/*
 * Orphans the mapping. Its grants stay charged to their user until the process is dead, because the quota of grants is
 * the only limit on how many a process can leave behind.
 */
static void mapping_hold(struct registry *registry, struct mapping *mapping)
{
	struct grant *grant, *next;

	mapping_give_place(registry, mapping);
	DL_FOREACH_SAFE2(mapping->grants, grant, next, mapping_next)
		grant_orphan(registry, grant);
	if (is_shared(mapping))
		DL_DELETE2(mapping->siblings->shared, mapping, shared_prev, shared_next);
	mapping->siblings->orphaned = mapping;
	mapping->orphaned = true;
	tracked_changed(registry->tracking, &mapping->tracked);
	mapping->among->orphaned++;
	mapping->allocation->orphaned++;
	DL_FOREACH2(mapping->grants, grant, mapping_next)
		grant->buffer->orphaned++;
}

bool mapping_closed(struct registry *registry, struct mapping *mapping)
{
	/* a session has one orphaned mapping of an allocation at most: the grants of later ones are moved to it */
	struct mapping *orphaned = is_trusted(registry, mapping) ? NULL : mapping->siblings->orphaned;

	if (!orphaned && !is_trusted(registry, mapping)) {
		mapping_hold(registry, mapping);
		return false;
	}
	if (orphaned)
		mapping_merge(registry, orphaned, mapping);
	mapping_end(registry, mapping);
	return true;
}

void mapping_end(struct registry *registry, struct mapping *mapping)
{
	struct allocation *allocation = mapping->allocation;
	struct buffer *buffer;

	mapping_remove(registry, mapping);
	if (!allocation->open && !allocation->named)
		/* memory_decide_free() below frees the whole allocation, with its buffers */
		mapping_forget_grants(registry, mapping);
	while (mapping->grants) {
		buffer = mapping->grants->buffer;
		grant_end(registry, mapping->grants);
		registry_end_buffer(registry, buffer);
	}
	mapping_free(registry, mapping);
	memory_decide_free(registry->memory, allocation);
}

void mappings_free(struct registry *registry, struct session_mappings *mappings)
{
	struct mapping *mapping, *next;

	HASH_ITER(hh, mappings->by_id, mapping, next) {
		mapping_remove(registry, mapping);
		mapping_forget_grants(registry, mapping);
		charge_release(&mapping->charge, registry->accounting);
		free(mapping);
	}
}

/* ---- what outlives a broker ---- */

void mapping_note(const struct mapping *mapping, struct mapping_record *record)
{
	*record = (struct mapping_record){ .id = mapping->id,
					   .session = mapping->among->session,
					   .allocation = mapping->allocation->serial,
					   .bytes = mapping->bytes,
					   .device = mapping->device,
					   .place = mapping->place,
					   .shared = mapping->shared,
					   .orphaned = mapping->orphaned };
}

void grant_note(const struct grant *grant, struct grant_record *record)
{
	*record = (struct grant_record){ .mapping = grant->mapping->id,
					 .buffer = grant->buffer->first,
					 .key = grant->key.serial,
					 .rights = grant->rights };
}

static int mapping_check(const struct registry *registry, const struct mapping_record *record,
			 const struct mapping_party *party, const struct allocation *allocation)
{
	const struct siblings *siblings = siblings_find(party->mappings, allocation);
	const struct mapping *same;

	HASH_FIND(hh, party->mappings->by_id, &record->id, sizeof record->id, same);
	if (record->id && !same && (record->orphaned || places_are_claimable(&registry->handles, record->place)) &&
	    record->bytes <= allocation->size &&
	    !(record->orphaned && siblings && siblings->orphaned))
		return 0;
	return error_set(-EBADMSG, "the ledger's record of mapping %llu is of none that can be",
			 (unsigned long long)record->id);
}

static void mapping_orphaned_before(struct registry *registry, struct mapping *mapping)
{
	registry->mapping_count--;
	mapping->siblings->orphaned = mapping;
	mapping->among->orphaned++;
	mapping->allocation->orphaned++;
}

static int mapping_enter_again(struct registry *registry, struct mapping *mapping)
{
	struct siblings *siblings = siblings_find(mapping->among, mapping->allocation);
	int error = mapping->orphaned ? 0 :
					charge_restore(&mapping->charge, registry->accounting, mapping->uid,
						       RESOURCE_MAPPINGS, 1);

	if (error)
		return error;
	mapping->siblings = siblings ? siblings : siblings_new(mapping->among, mapping->allocation);
	if (!mapping->siblings)
		goto refund;
	HASH_ADD(hh, mapping->among->by_id, id, sizeof mapping->id, mapping);
	if (table_added(mapping))
		return 0;
	siblings_put(mapping->among, mapping->siblings);
refund:
	charge_release(&mapping->charge, registry->accounting);
	return error_set(-ENOMEM, "the broker is out of memory");
}

int mapping_restore(struct registry *registry, const struct mapping_record *record, const struct mapping_party *party,
		    struct allocation *allocation, struct mapping **result)
{
	struct mapping *mapping;
	int error = mapping_check(registry, record, party, allocation);

	if (!error)
		error = tracking_reserve(registry->tracking, 1);
	if (error)
		return error;
	mapping = calloc(1, sizeof *mapping);
	if (!mapping)
		return error_set(-ENOMEM, "the broker is out of memory");
	*mapping = (struct mapping){ .id = record->id,
				     .session = party->session,
				     .among = party->mappings,
				     .uid = party->uid,
				     .allocation = allocation,
				     .device = record->device,
				     .place = record->place,
				     .shared = record->shared,
				     .orphaned = record->orphaned };
	error = mapping_enter_again(registry, mapping);
	if (error) {
		free(mapping);
		return error;
	}
	mapping_add(registry, mapping, record->bytes);
	if (mapping->orphaned)
		mapping_orphaned_before(registry, mapping);
	else
		places_claim(&registry->handles, mapping->place);
	*result = mapping;
	return 0;
}

int grant_restore(struct registry *registry, const struct grant_record *record, struct mapping *mapping,
		  struct buffer *buffer)
{
	struct grant *grant;
	int error;

	if (buffer->allocation != mapping->allocation || mapping_find_grant(mapping, record->key))
		return error_set(-EBADMSG, "the ledger has two grants of buffer %llu under mapping %llu, or it has no "
					   "memory there",
				 (unsigned long long)record->buffer, (unsigned long long)record->mapping);
	error = tracking_reserve(registry->tracking, 1);
	if (error)
		return error;
	grant = calloc(1, sizeof *grant);
	if (!grant)
		return error_set(-ENOMEM, "the broker is out of memory");
	error = charge_restore(&grant->charge, registry->accounting, mapping->uid, RESOURCE_GRANTS, 1);
	if (!error)
		error = grant_enter(grant, mapping, record->key);
	if (error) {
		charge_release(&grant->charge, registry->accounting);
		free(grant);
		return error;
	}
	grant->rights = record->rights;
	grant->told = mapping->orphaned;
	grant_add(registry, grant, mapping, buffer);
	return 0;
}
