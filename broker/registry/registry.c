/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - see registry.h */
#include "registry.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "broker/memory/memory.h"
#include "broker/memory/restore.h"
#include "broker/users/accounting.h"
#include "broker/users/identity.h"
#include "common/board.h"
#include "common/error.h"
#include "common/layout.h"
#include "marks.h"
#include "notices.h"
#include "places.h"
#include "timeline.h"

/* Stores a word with release semantics: a client that reads it also sees what the broker stored in the board before. */
static void word_publish(struct registry *registry, uint32_t place)
{
	struct next_word *next = &registry->next_words[place];

	next->changed = false;
	atomic_store_explicit(&registry->board_words[place], next->word, memory_order_release);
}

void registry_store_words(struct registry *registry)
{
	while (registry->changed != PLACE_NONE) {
		uint32_t place = registry->changed;

		registry->changed = registry->next_words[place].next;
		word_publish(registry, place);
	}
}

static void word_set(struct registry *registry, uint32_t place, uint64_t word)
{
	struct next_word *next = &registry->next_words[place];

	next->word = word;
	if (!registry->defers) {
		word_publish(registry, place);
	} else if (!next->changed) {
		next->changed = true;
		next->next = registry->changed;
		registry->changed = place;
	}
}

/* Says what the buffer's word is to be. */
static void word_store(struct registry *registry, const struct buffer *buffer, enum board_state state)
{
	word_set(registry, buffer->place, BOARD_WORD(buffer->serial, state));
}

int registry_init(struct registry *registry, struct memory *memory, _Atomic uint64_t *words, uint32_t buffers,
		  uint32_t handles, const struct registry_hooks *hooks, void *context)
{
	*registry = (struct registry){ .memory = memory,
				       .board_words = words,
				       .accounting = memory->accounting,
				       .hooks = *hooks,
				       .context = context,
				       .changed = PLACE_NONE,
				       .next_serial = 1,
				       .next_mapping = 1 };
	if (places_init(&registry->words, buffers))
		goto no_memory;
	if (places_init(&registry->handles, handles))
		goto no_handles;
	registry->by_place = calloc(buffers, sizeof *registry->by_place);
	registry->next_words = calloc(buffers, sizeof *registry->next_words);
	if (registry->by_place && registry->next_words)
		return 0;
	free(registry->by_place);
	free(registry->next_words);
	places_deinit(&registry->handles);
no_handles:
	places_deinit(&registry->words);
no_memory:
	return error_set(-ENOMEM, "no memory for the tables of %u buffers: configure fewer", buffers);
}

bool registry_empty(const struct registry *registry)
{
	return !registry->memory->allocations;
}

static void buffer_destroy(struct registry *registry, struct buffer *buffer);

/* ---- reserving ---- */

static struct slab_kind kind_of(const struct buffer_spec *spec)
{
	return (struct slab_kind){ .range = spec->range ? spec->range : spec->span,
				   .device = spec->device,
				   .mode = (uint16_t)spec->mode,
				   .exported = (uint16_t)spec->exported,
				   .owner = spec->owner,
				   .group = spec->group };
}

static void buffer_fill(struct registry *registry, struct buffer *buffer, const struct buffer_spec *spec)
{
	strcpy(buffer->name, spec->name);
	buffer->serial = buffer->first = registry->next_serial++;
	buffer->creator = spec->creator;
	buffer->size = spec->size;
	buffer->reserve = spec->reserve;
	buffer->owner = spec->owner;
	buffer->group = spec->group;
	buffer->mode = spec->mode;
	buffer->flags = spec->flags | (spec->reserve ? GPUB_GROWABLE : 0);
	buffer->created = time(NULL);
	buffer->ephemerals = spec->flags & GPUB_EPHEMERAL ? spec->ephemerals : NULL;
}

static int buffer_keep_layout(struct buffer *buffer, const gpub_layout *layout)
{
	if (layout_is_none(layout))
		return 0;
	buffer->layout = malloc(sizeof *layout);
	if (!buffer->layout)
		return error_set(-ENOMEM, "the broker is out of memory");
	*buffer->layout = *layout;
	return 0;
}

gpub_layout buffer_layout(const struct buffer *buffer)
{
	return buffer->layout ? *buffer->layout : (gpub_layout){ 0 };
}

/* Enters the buffer in the tables by name and by serial. After -ENOMEM the buffer is in neither table. */
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

/* Puts the buffer into a range of the allocation, and into its creator's list of ephemeral buffers. Cannot fail. */
static void buffer_join(struct registry *registry, struct buffer *buffer, struct allocation *allocation, uint32_t range)
{
	buffer->allocation = allocation;
	buffer->offset = range * allocation->slab.kind.range;
	DL_APPEND(allocation->buffers, buffer);
	if (buffer->ephemerals)
		DL_APPEND2(*buffer->ephemerals, buffer, ephemeral_prev, ephemeral_next);
	allocation->named++;
	tracked_begin(registry->tracking, &buffer->tracked, TRACKED_BUFFER);
}

/* Creates a buffer with its charge, its word in the board and its name, but without memory. */
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
		error = error_set(-EDQUOT, "the broker has room for %u buffers, and has as many: unlink some, or start "
					   "it with more ('buffers' of broker-run(1) or brokerd.conf(5))",
				  registry->words.count);
		goto refund;
	}
	buffer->place = (uint32_t)place;
	buffer_fill(registry, buffer, spec);
	error = buffer_keep_layout(buffer, &spec->layout);
	if (!error)
		error = buffer_enter(registry, buffer);
	if (error)
		goto give_place;
	registry->by_place[place] = buffer;
	registry->buffer_count++;
	*result = buffer;
	return 0;
give_place:
	free(buffer->layout);
	places_give(&registry->words, buffer->place);
refund:
	charge_release(&buffer->charge, registry->accounting);
free_buffer:
	free(buffer);
	return error;
}

/*
 * Returns -EEXIST, and sets the error message: the name is taken by the buffer `other`. may_unlink: the session that
 * asks may unlink `other`.
 */
static int name_taken(const struct buffer *other, bool may_unlink)
{
	if (may_unlink)
		return error_set(-EEXIST, "the name '%s' is taken: unlink it first, or choose another", other->name);
	return error_set(-EEXIST, "the name '%s' is taken by a buffer of another user: choose another", other->name);
}

int registry_reserve(struct registry *registry, const struct buffer_spec *spec, struct buffer **result)
{
	struct slab_kind kind = kind_of(spec);
	const struct buffer *other = registry_find(registry, spec->name);
	struct allocation *allocation;
	struct buffer *buffer = NULL;
	uint32_t range;
	int error;

	if (other)
		return name_taken(other, !spec->owner || spec->owner == other->owner);
	/* slots of the buffer, its timeline and its allocation */
	error = tracking_reserve(registry->tracking, 3);
	if (!error)
		error = buffer_new(registry, spec, &buffer);
	if (error)
		return error;
	error = memory_take(registry->memory, &kind, spec->span,
			    spec->reserve || spec->flags & (GPUB_DEDICATED | GPUB_SAME_ADDRESS), &allocation, &range);
	if (!error && spec->reserve)
		memory_reserve(registry->memory, allocation, spec->reserve);
	if (!error && spec->flags & GPUB_SAME_ADDRESS)
		memory_make_private(registry->memory, allocation);
	if (error) {
		HASH_DEL(registry->names, buffer);
		buffer_destroy(registry, buffer);
		return error;
	}
	buffer_join(registry, buffer, allocation, range);
	*result = buffer;
	return 0;
}

int registry_live(struct registry *registry, struct buffer *buffer)
{
	int error = 0;

	if (!allocation_is_made(buffer->allocation))
		memory_ready(registry->memory, buffer->allocation);
	if (buffer->flags & GPUB_SAME_ADDRESS)
		error = memory_place(registry->memory, buffer->allocation);
	if (error)
		return error;
	buffer->state = BUFFER_LIVE;
	tracked_changed(registry->tracking, &buffer->tracked);
	word_store(registry, buffer, BOARD_LIVE);
	return 0;
}

/* ---- the end ---- */

static uint32_t range_of(const struct buffer *buffer)
{
	return (uint32_t)(buffer->offset / buffer->allocation->slab.kind.range);
}

static void buffer_destroy(struct registry *registry, struct buffer *buffer)
{
	notices_cancel(registry, &buffer->notices);
	word_store(registry, buffer, BOARD_FREE);
	HASH_DELETE(by_serial, registry->serials, buffer);
	registry->by_place[buffer->place] = NULL;
	places_give(&registry->words, buffer->place);
	charge_release(&buffer->charge, registry->accounting);
	marks_remove(buffer->timeline);
	if (buffer->timeline)
		tracked_end(registry->tracking, &buffer->timeline->shown.tracked);
	timeline_destroy(buffer->timeline);
	charge_release(&buffer->descriptors, registry->accounting);
	if (registry->hooks.forget)
		registry->hooks.forget(registry->context, buffer);
	registry->buffer_count--;
	tracked_end(registry->tracking, &buffer->tracked);
	free(buffer->layout);
	free(buffer);
}

/* ---- the end of memory ---- */

void registry_freeing(struct registry *registry, const struct allocation *allocation)
{
	struct buffer *buffer;

	tracked_changed(registry->tracking, &allocation->tracked);
	DL_FOREACH(allocation->buffers, buffer)
		tracked_changed(registry->tracking, &buffer->tracked);
}

struct buffer *registry_released(struct registry *registry, struct allocation *allocation)
{
	struct buffer *buffer;

	notices_cancel(registry, &allocation->notices);
	DL_FOREACH(allocation->buffers, buffer) {
		tracked_end(registry->tracking, &buffer->tracked);
		buffer->allocation = NULL;
	}
	return memory_released(registry->memory, allocation);
}

uint64_t registry_forget(struct registry *registry, struct buffer **buffers)
{
	struct buffer *buffer = *buffers;
	uint64_t serial = buffer ? buffer->serial : 0;

	if (!buffer)
		return 0;
	DL_DELETE(*buffers, buffer);
	buffer_destroy(registry, buffer);
	return serial;
}

bool registry_keeps(const struct registry *registry, const struct buffer *buffer)
{
	const struct allocation *allocation = buffer->allocation;
	bool alone = allocation->buffers == buffer && !buffer->next;

	return alone ? memory_keeps(registry->memory, allocation) : !allocation->slab.closed;
}

/*
 * Frees the buffer but not its allocation, which other buffers or mappings keep. The buffer's range is zeroed for the
 * next buffer.
 */
static void buffer_leave(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;

	DL_DELETE(allocation->buffers, buffer);
	memory_clean(registry->memory, allocation, range_of(buffer), buffer->serial);
	buffer_destroy(registry, buffer);
}

void registry_end_buffer(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;

	if (buffer->state != BUFFER_DRAINING || buffer->grant_count || registry->memory->doubted)
		return;
	if (!allocation->named && !allocation->open)
		memory_decide_free(registry->memory, allocation); /* frees the allocation with all buffers in it */
	else if (registry_keeps(registry, buffer))
		buffer_leave(registry, buffer);
	else if (allocation->state != ALLOCATION_EVICTED)
		memory_evict(registry->memory, allocation); /* the buffer is freed with the allocation */
}

void registry_disown(struct buffer *buffer)
{
	if (!buffer->ephemerals)
		return;
	DL_DELETE2(*buffer->ephemerals, buffer, ephemeral_prev, ephemeral_next);
	buffer->ephemerals = NULL;
}

void registry_persist(struct registry *registry, struct buffer *buffer)
{
	registry_disown(buffer);
	buffer->flags &= ~GPUB_EPHEMERAL;
	tracked_changed(registry->tracking, &buffer->tracked);
}

static void name_remove(struct registry *registry, struct buffer *buffer)
{
	HASH_DEL(registry->names, buffer);
	registry_disown(buffer);
	buffer->allocation->named--;
}

void registry_deinit(struct registry *registry)
{
	struct buffer *buffer, *next;

	HASH_ITER(by_serial, registry->serials, buffer, next) {
		if (buffer->state != BUFFER_DRAINING)
			name_remove(registry, buffer);
		DL_DELETE(buffer->allocation->buffers, buffer);
		buffer_destroy(registry, buffer);
	}
	free(registry->by_place);
	free(registry->next_words);
	places_deinit(&registry->handles);
	places_deinit(&registry->words);
}

void registry_abandon(struct registry *registry, struct buffer *buffer)
{
	struct allocation *allocation = buffer->allocation;
	uint32_t range = range_of(buffer);

	assert(buffer->state == BUFFER_CREATING);
	name_remove(registry, buffer);
	DL_DELETE(allocation->buffers, buffer);
	buffer_destroy(registry, buffer);
	memory_untake(registry->memory, allocation, range);
}

struct buffer *registry_find(const struct registry *registry, const char *name)
{
	struct buffer *buffer;

	HASH_FIND_STR(registry->names, name, buffer);
	return buffer;
}

int registry_find_live(const struct registry *registry, const char *name, struct buffer **result)
{
	int error = name_check(name);
	struct buffer *buffer = error ? NULL : registry_find(registry, name);

	if (error)
		return error;
	if (!buffer || buffer->state != BUFFER_LIVE)
		return error_set(-ENOENT, "there is no buffer '%s': broker-status lists the names there are", name);
	*result = buffer;
	return 0;
}

struct buffer *registry_find_any(const struct registry *registry, uint64_t serial)
{
	struct buffer *buffer;

	HASH_FIND(by_serial, registry->serials, &serial, sizeof serial, buffer);
	return buffer;
}

struct buffer *registry_find_serial(const struct registry *registry, uint64_t serial)
{
	struct buffer *buffer = registry_find_any(registry, serial);

	return buffer && buffer->state == BUFFER_LIVE ? buffer : NULL;
}

int registry_may_part(const struct buffer *buffer)
{
	const struct slab *slab = &buffer->allocation->slab;

	if (slab->vacant == slab->ranges - 1)
		return 0;
	return error_set(-EBUSY,
			 "'%s' shares its memory with other small buffers of its owner, mode and group: create it with "
			 "memory of its own (GPUB_DEDICATED, broker-ctl create --dedicated) where others shall get it",
			 buffer->name);
}

void registry_part(struct registry *registry, struct buffer *buffer)
{
	memory_make_private(registry->memory, buffer->allocation);
}

int registry_change_owner(struct registry *registry, struct buffer *buffer, uid_t owner)
{
	struct charge *const charges[] = { &buffer->charge, &buffer->descriptors };
	int error = registry_may_part(buffer);

	if (!error && buffer->allocation->busy)
		error = error_set(-EBUSY, "'%s' is being resized: try again when that is done", buffer->name);
	if (!error)
		error = memory_change_owner(registry->memory, buffer->allocation, owner, charges);
	if (error)
		return error;
	buffer->owner = owner;
	buffer->owner_changes++;
	tracked_changed(registry->tracking, &buffer->tracked);
	return 0;
}

void registry_end_unwritable(struct registry *registry, struct buffer *buffer)
{
	bool fixed = buffer->state == BUFFER_DRAINING || buffer->flags & GPUB_SEALED;

	if (fixed && buffer->timeline && !buffer->timeline->writer && !buffer->writers)
		marks_end_timeline(registry->marks, buffer->timeline, true);
}

void registry_unlink(struct registry *registry, struct buffer *buffer)
{
	assert(buffer->state == BUFFER_LIVE);
	name_remove(registry, buffer);
	buffer->state = BUFFER_DRAINING;
	tracked_changed(registry->tracking, &buffer->tracked);
	word_store(registry, buffer, BOARD_DRAINING);
	registry_end_unwritable(registry, buffer);
	buffer->notices.grant = buffer->grants;
	notices_send(registry, &buffer->notices);
	registry_end_buffer(registry, buffer);
}

/*
 * Gives the buffer a new serial, and sends notices to its grants. Stores the word in the board last, so that a client
 * that reads the new serial finds all other changes in the board.
 */
static void generation_begin(struct registry *registry, struct buffer *buffer)
{
	struct buffer anchor = { 0 };

	TABLE_REKEY(by_serial, registry->serials, serial, sizeof buffer->serial, buffer, &anchor,
		    buffer->serial = registry->next_serial++);
	if (buffer->timeline) {
		timeline_renew(buffer->timeline, buffer->serial);
		if (buffer->timeline->mark)
			marks_publish_later(registry->marks, buffer->timeline);
		tracked_changed(registry->tracking, &buffer->timeline->shown.tracked);
	}
	tracked_changed(registry->tracking, &buffer->tracked);
	word_store(registry, buffer, BOARD_LIVE);
	/*
	 * a round of notices that is under way ends before a new one, or repeated renames would starve its last grants
	 */
	buffer->notices.again = buffer->notices.grant != NULL;
	if (buffer->notices.again)
		return;
	notices_cancel(registry, &buffer->notices);
	buffer->notices.grant = buffer->grants;
	notices_send_later(registry, &buffer->notices);
}

void registry_rename(struct registry *registry, struct buffer *buffer, const char *to)
{
	struct buffer anchor = { 0 };

	assert(buffer->state == BUFFER_LIVE);
	TABLE_REKEY(hh, registry->names, name, strlen(to), buffer, &anchor, strcpy(buffer->name, to));
	generation_begin(registry, buffer);
}

void registry_resize(struct registry *registry, struct buffer *buffer, uint64_t size)
{
	assert(buffer->state == BUFFER_LIVE && size <= buffer->allocation->size);
	buffer->size = size;
	if (buffer->layout)
		layout_resize(buffer->layout, size);
	generation_begin(registry, buffer);
}

/* ---- what outlives a broker ---- */

void buffer_note(const struct buffer *buffer, struct buffer_record *record)
{
	*record = (struct buffer_record){ .first = buffer->first,
					  .serial = buffer->serial,
					  .allocation = buffer->allocation->serial,
					  .size = buffer->size,
					  .offset = buffer->offset,
					  .reserve = buffer->reserve,
					  .creator = buffer->creator,
					  .created = (uint64_t)buffer->created,
					  .place = buffer->place,
					  .state = buffer->state,
					  .owner = buffer->owner,
					  .owner_changes = buffer->owner_changes,
					  .group = buffer->group,
					  .mode = buffer->mode,
					  .flags = buffer->flags,
					  .ephemeral = buffer->ephemerals != NULL,
					  .layout = buffer_layout(buffer) };
	memcpy(record->name, buffer->name, sizeof record->name);
}

/* The chunks of an allocation are freed before it, while its buffer keeps its size. */
static bool is_within(const struct buffer_record *record, const struct allocation *allocation)
{
	uint64_t range = allocation->slab.kind.range, size = record->reserve ? allocation->size : range;

	return record->size && (record->size <= size || allocation->state == ALLOCATION_FREEING) &&
	       record->offset % range == 0 && record->offset / range < allocation->slab.ranges;
}

static int buffer_check(const struct registry *registry, const struct buffer_record *record,
			const struct allocation *allocation)
{
	if (record->state != BUFFER_LIVE && record->state != BUFFER_DRAINING)
		return error_set(-EBADMSG, "the ledger's record of buffer %llu has an unknown state",
				 (unsigned long long)record->first);
	if (!memchr(record->name, 0, sizeof record->name) || name_check(record->name))
		return error_set(-EBADMSG, "the ledger's record of buffer %llu has no name",
				 (unsigned long long)record->first);
	if (record->state == BUFFER_LIVE && registry_find(registry, record->name))
		return error_set(-EBADMSG, "the ledger has two buffers '%s'", record->name);
	if (!record->serial || registry_find_any(registry, record->serial))
		return error_set(-EBADMSG, "the ledger has two buffers of generation %llu",
				 (unsigned long long)record->serial);
	if (!places_are_claimable(&registry->words, record->place))
		return error_set(-EBADMSG, "the ledger has two buffers in place %u, or there is no such place",
				 record->place);
	if (layout_check(&record->layout) || layout_bytes(&record->layout) > record->size)
		return error_set(-EBADMSG, "the ledger's record of buffer %llu has an impossible layout",
				 (unsigned long long)record->first);
	if (!is_within(record, allocation))
		return error_set(-EBADMSG, "the ledger's record of buffer %llu is not within its allocation",
				 (unsigned long long)record->first);
	return 0;
}

static void buffer_copy(struct buffer *buffer, const struct buffer_record *record)
{
	memcpy(buffer->name, record->name, sizeof buffer->name);
	buffer->first = record->first;
	buffer->serial = record->serial;
	buffer->place = record->place;
	buffer->state = (enum buffer_state)record->state;
	buffer->size = record->size;
	buffer->offset = record->offset;
	buffer->reserve = record->reserve;
	buffer->owner = record->owner;
	buffer->owner_changes = record->owner_changes;
	buffer->group = record->group;
	buffer->mode = record->mode;
	buffer->flags = record->flags;
	buffer->creator = record->creator;
	buffer->created = (time_t)record->created;
}

/* Charges the owner and enters the buffer in the tables; of a DRAINING one, in the table by serial alone. */
static int buffer_enter_again(struct registry *registry, struct buffer *buffer)
{
	int error = charge_restore(&buffer->charge, registry->accounting, buffer->owner, RESOURCE_BUFFERS, 1);

	if (error)
		return error;
	error = buffer_enter(registry, buffer);
	if (error)
		charge_release(&buffer->charge, registry->accounting);
	else if (buffer->state == BUFFER_DRAINING)
		HASH_DEL(registry->names, buffer);
	return error;
}

static void buffer_join_again(struct registry *registry, struct buffer *buffer, struct allocation *allocation,
			      struct buffer **ephemerals)
{
	buffer->allocation = allocation;
	DL_APPEND(allocation->buffers, buffer);
	allocation->named += buffer->state == BUFFER_LIVE;
	buffer->ephemerals = ephemerals;
	if (ephemerals)
		DL_APPEND2(*ephemerals, buffer, ephemeral_prev, ephemeral_next);
	places_claim(&registry->words, buffer->place);
	registry->by_place[buffer->place] = buffer;
	registry->buffer_count++;
	tracked_begin(registry->tracking, &buffer->tracked, TRACKED_BUFFER);
}

int registry_restore_buffer(struct registry *registry, const struct buffer_record *record,
			    struct allocation *allocation, struct buffer **ephemerals, struct buffer **result)
{
	struct buffer *buffer;
	int error = buffer_check(registry, record, allocation);

	if (!error)
		error = tracking_reserve(registry->tracking, 2);
	if (error)
		return error;
	buffer = calloc(1, sizeof *buffer);
	if (!buffer)
		return error_set(-ENOMEM, "the broker is out of memory");
	buffer_copy(buffer, record);
	error = buffer_keep_layout(buffer, &record->layout);
	if (!error)
		error = memory_restore_range(allocation, (uint32_t)(record->offset / allocation->slab.kind.range));
	if (!error)
		error = buffer_enter_again(registry, buffer);
	if (error) {
		free(buffer->layout);
		free(buffer);
		return error;
	}
	buffer_join_again(registry, buffer, allocation, record->ephemeral ? ephemerals : NULL);
	*result = buffer;
	return 0;
}

/* Frees the allocations that nothing keeps. */
static void free_unused(struct registry *registry)
{
	struct allocation *allocation, *next;

	DL_FOREACH_SAFE(registry->memory->allocations, allocation, next)
		if (!allocation->parent && allocation_is_made(allocation))
			memory_decide_free(registry->memory, allocation);
}

void registry_restored(struct registry *registry)
{
	struct buffer *buffer, *next;

	for (uint32_t place = 0; place < registry->words.count; place++)
		if (!registry->by_place[place])
			word_set(registry, place, BOARD_WORD(0, BOARD_FREE));
	places_claimed(&registry->words);
	places_claimed(&registry->handles);
	HASH_ITER(by_serial, registry->serials, buffer, next) {
		word_store(registry, buffer, buffer->state == BUFFER_LIVE ? BOARD_LIVE : BOARD_DRAINING);
		buffer->notices.grant = buffer->grants;
		notices_send_later(registry, &buffer->notices);
		registry_end_buffer(registry, buffer);
	}
	free_unused(registry);
}

void registry_trust(struct registry *registry)
{
	struct buffer *buffer, *next;
	struct allocation *allocation;

	registry->memory->doubted = false;
	DL_FOREACH(registry->memory->allocations, allocation)
		memory_restored(registry->memory, allocation);
	HASH_ITER(by_serial, registry->serials, buffer, next)
		registry_end_buffer(registry, buffer);
	free_unused(registry);
}

unsigned buffer_rights(const struct buffer *buffer, const struct identity *identity)
{
	unsigned bits, all = GPUB_READ | (buffer->flags & GPUB_SEALED ? 0 : GPUB_WRITE);

	if (!identity->uid)
		return all;
	bits = identity->uid == buffer->owner ? buffer->mode >> 6 :
	       identity_in_group(identity, buffer->group) ? buffer->mode >> 3 : buffer->mode;
	return ((bits & 4 ? GPUB_READ : 0) | (bits & 2 ? GPUB_WRITE : 0)) & all;
}
