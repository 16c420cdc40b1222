/* SPDX-License-Identifier: Apache-2.0 */
/* mappings-harness.c - see mappings-harness.h */
#include "mappings-harness.h"

#include <stdlib.h>
#include <string.h>

#include "broker/registry/notices.h"
#include "broker/users/identity.h"

_Atomic uint64_t words[BUFFERS];
struct accounting accounting;
struct memory device_memory;
struct registry registry;
struct session_mappings mappings[SESSIONS];
struct notice notices[MANY];
struct cleaning cleanings[MANY];
struct allocation *releasing[BUFFERS];
uint64_t ended_serials[MANY];
unsigned notice_count, clean_count, release_count, ended_count;
bool can_clean;
void (*and_ended)(const struct buffer *buffer);
void (*note_end)(uint64_t serial);

/* ---- the hooks ---- */

static void on_notice(void *context, struct mapping *mapping, uint64_t serial)
{
	assert_ptr_equal(context, &registry);
	assert_false(mapping->orphaned);
	assert_true(notice_count < MANY);
	notices[notice_count++] = (struct notice){ mapping->id, serial };
}

static void expect_ended(const struct buffer *buffer)
{
	assert_int_equal(buffer->state, BUFFER_DRAINING);
	assert_int_equal(buffer->grant_count, 0);
	assert_null(buffer->grants);
	if (and_ended)
		and_ended(buffer);
	else
		ended_serials[ended_count++ % MANY] = buffer->serial;
}

static void tell_of_end(uint64_t serial)
{
	if (note_end)
		note_end(serial);
}

static bool on_clean(void *context, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	struct buffer *buffer;

	assert_ptr_equal(context, &device_memory);
	HASH_FIND(by_serial, registry.serials, &serial, sizeof serial, buffer);
	assert_ptr_equal(buffer->allocation, allocation);
	expect_ended(buffer);
	assert_true(range < RANGES && clean_count < MANY);
	for (unsigned i = 0; i < clean_count; i++)
		assert_false(cleanings[i].allocation == allocation && cleanings[i].range == range);
	if (can_clean)
		cleanings[clean_count++] = (struct cleaning){ allocation, range, serial };
	else
		tell_of_end(serial);
	return can_clean;
}

static void on_release(void *context, struct allocation *allocation)
{
	assert_ptr_equal(context, &device_memory);
	assert_true(!allocation->named && !allocation->open && !allocation->grant_count && !allocation->mappings);
	for (unsigned i = 0; i < clean_count; i++)
		assert_ptr_not_equal(cleanings[i].allocation, allocation);
	for (unsigned i = 0; i < release_count; i++)
		assert_ptr_not_equal(releasing[i], allocation);
	assert_true(release_count < BUFFERS);
	releasing[release_count++] = allocation;
}

int setup(void **state)
{
	static const struct registry_hooks hooks = { on_notice, NULL };
	static const struct memory_orders orders = { on_clean, on_release, &device_memory };
	int error;

	(void)state;
	notice_count = clean_count = release_count = ended_count = 0;
	can_clean = true;
	and_ended = NULL;
	note_end = NULL;
	memset(mappings, 0, sizeof mappings);
	memset((void *)words, 0, sizeof words);
	accounting_init(&accounting);
	memory_init(&device_memory, &accounting, &orders);
	error = registry_init(&registry, &device_memory, words, BUFFERS, HANDLES, &hooks, &registry);
	device_memory.usages.limit = 4 * SPAN;
	return error;
}

/* The device has done the oldest that it was told to clean. */
void clean_one(int error)
{
	struct cleaning first = cleanings[0];

	assert_true(clean_count > 0);
	memmove(cleanings, cleanings + 1, --clean_count * sizeof *cleanings);
	memory_cleaned(&device_memory, first.allocation, first.range, error);
	tell_of_end(first.serial);
}

void released(struct allocation *allocation)
{
	struct buffer *buffers = registry_released(&registry, allocation);
	uint64_t serial;

	while ((serial = registry_forget(&registry, &buffers)))
		tell_of_end(serial);
	allocation_free(NULL, allocation);
}

void device_works(void)
{
	while (clean_count)
		clean_one(0);
	while (release_count)
		released(releasing[--release_count]);
}

/* Every test ends with an empty registry. */
int teardown(void **state)
{
	int wrong;

	(void)state;
	device_works();
	wrong = !registry_empty(&registry) || registry.buffer_count || registry.mapping_count || device_memory.bytes ||
		registry.names || registry.serials || device_memory.usages.by_key ||
		device_memory.usages.bytes[0][SPARE_IDLE] || device_memory.slabs.shelves ||
		registry.words.free != BUFFERS || registry.handles.free != HANDLES || accounting.accounts;
	for (unsigned i = 0; i < BUFFERS; i++)
		wrong |= (words[i] & 3) != BOARD_FREE;
	for (unsigned i = 0; i < SESSIONS; i++)
		mappings_free(&registry, &mappings[i]);
	registry_deinit(&registry);
	memory_deinit(&device_memory);
	accounting_deinit(&accounting);
	return wrong;
}

/* ---- shorthands ---- */

struct buffer_spec spec_of(const char *name)
{
	return (struct buffer_spec){ .name = name,
				     .size = 100,
				     .span = SPAN,
				     .range = RANGE,
				     .owner = OWNER,
				     .group = 7,
				     .mode = 0600 };
}

void ready(struct buffer *buffer)
{
	registry_live(&registry, buffer);
}

struct buffer *live_of(struct buffer_spec spec)
{
	struct buffer *buffer = NULL;

	assert_int_equal(registry_reserve(&registry, &spec, &buffer), 0);
	ready(buffer);
	return buffer;
}

struct buffer *live(const char *name)
{
	return live_of(spec_of(name));
}

uid_t uid_of(unsigned session)
{
	return session == THEIRS ? STRANGER : OWNER;
}

struct grant_order order_of(unsigned session)
{
	return (struct grant_order){ .session = (struct session *)(uintptr_t)(0x1000 + session),
				     .uid = uid_of(session),
				     .mappings = &mappings[session],
				     .rights = GPUB_READ };
}

struct grant *grant_by(const struct grant_order *order, struct buffer *buffer, bool fresh_expected)
{
	struct grant *grant = NULL;
	bool fresh = !fresh_expected;

	assert_int_equal(grant_open(&registry, buffer, order, &grant, &fresh), 0);
	assert_int_equal(fresh, fresh_expected);
	assert_ptr_equal(grant->buffer, buffer);
	return grant;
}

/* A grant with the first mapping of that session on the allocation; and with the one that it has. */
struct grant *grant_first(unsigned session, struct buffer *buffer)
{
	struct grant_order order = order_of(session);

	return grant_by(&order, buffer, true);
}

struct grant *grant_again(unsigned session, struct buffer *buffer)
{
	struct grant_order order = order_of(session);

	return grant_by(&order, buffer, false);
}

void unlink_all(struct buffer **buffers, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		registry_unlink(&registry, buffers[i]);
}

int part(struct buffer *buffer)
{
	int error = registry_may_part(buffer);

	if (!error)
		registry_part(&registry, buffer);
	return error;
}

uint64_t used(enum resource resource)
{
	return accounting_used(&accounting, OWNER, resource);
}

void expect_notice(unsigned i, const struct mapping *mapping, uint64_t serial)
{
	assert_true(i < notice_count);
	assert_true(notices[i].mapping == mapping->id && notices[i].serial == serial);
}

uint32_t range_of(const struct buffer *buffer)
{
	return (uint32_t)(buffer->offset / RANGE);
}

/* Four buffers that fill one allocation. */
void fill(struct buffer *buffers[RANGES])
{
	static const char *const names[RANGES] = { "a", "b", "c", "d" };

	for (unsigned i = 0; i < RANGES; i++)
		buffers[i] = live(names[i]);
}

/* A buffer came and went in memory that the session still maps. */
struct allocation *idle_of(unsigned session, struct buffer_spec spec)
{
	struct buffer *buffer = live_of(spec);
	struct allocation *allocation = buffer->allocation;
	struct grant *grant = grant_first(session, buffer);

	registry_unlink(&registry, buffer);
	assert_true(grant_quiesced(&registry, grant));
	while (clean_count)
		clean_one(0);
	notice_count = ended_count = 0;
	return allocation;
}

struct mapping *mapping_on(unsigned session, const struct allocation *allocation)
{
	struct mapping *mapping, *next;

	HASH_ITER(hh, mappings[session].by_id, mapping, next)
		if (mapping->allocation == allocation)
			return mapping;
	fail();
	return NULL;
}

/* Each session that maps it is asked to close it, except one that has done so; it is not reused. */
void expect_evicted(struct allocation *allocation, struct mapping *mapping)
{
	struct buffer *next;

	assert_true((allocation->state == ALLOCATION_EVICTED));
	assert_int_not_equal(allocation->state, ALLOCATION_IDLE);
	notices_more(&registry);
	expect_notice(notice_count - 1, mapping, 0);
	next = live("next");
	assert_ptr_not_equal(next->allocation, allocation);
	registry_unlink(&registry, next);
}

/* Memory that is to be freed stays in the registry until it is closed: its owner sees which sessions it waits for. */
void expect_kept_until_closed(struct buffer *buffer, struct grant *grant)
{
	struct allocation *allocation = buffer->allocation;
	uint32_t place = buffer->place;
	uint64_t serial = buffer->serial;

	for (unsigned i = 0; i < 2; i++) {
		notice_count = 0;
		assert_true(grant_quiesced(&registry, grant));
		assert_int_equal(ended_count + clean_count, 0);
		assert_int_equal(buffer->grant_count, 1);
		assert_true(words[place] == BOARD_WORD(serial, BOARD_DRAINING));
		expect_evicted(allocation, mappings[0].by_id);
	}
	assert_true(mapping_closed(&registry, mappings[0].by_id));
	assert_ptr_equal(releasing[release_count - 1], allocation);
}
