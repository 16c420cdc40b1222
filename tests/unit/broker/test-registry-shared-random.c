/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry-shared-random.c - 100,000 random operations on memory that several buffers share, against an oracle
 * that keeps a table of all memory and what was ever written to it. mappings-harness.h is the world.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mappings-harness.h"

#include "broker/registry/notices.h"

#define MEMORIES 64u
#define RIGHTS   64u
#define ALL      UINT32_MAX

/*
 * What the oracle knows of an allocation. A range is dirty from when a buffer in it is LIVE until the device cleaned
 * it.
 */
struct piece {
	struct allocation *allocation;
	unsigned           kind;
	bool               is_made, is_closed, dirty[RANGES];
};

/* Of a buffer: one of as many places as the board has. */
struct fact {
	struct buffer *buffer; /* NULL: none */
	uint64_t       serial;
	char           name;
	bool           is_ready, is_unlinked;
	struct piece *memory;
	uint32_t       range;
};

/* Of a mapping: the places of the buffers that it uses are bits. */
struct right {
	struct mapping *mapping; /* NULL: none */
	uint64_t        id;
	unsigned        session;
	struct piece   *memory;
	bool            is_own, is_orphaned;
	bool            is_asked; /* to close */
	uint32_t        grants;
};

static struct piece memories[MEMORIES];
static struct fact facts[BUFFERS];
static struct right rights[RIGHTS];
static unsigned seed;

static const struct {
	uid_t    owner;
	unsigned mode, flags;
} kinds[] = { { OWNER, 0600, 0 },
	      { OWNER, 0600, 0 },
	      { OWNER, 0640, 0 },
	      { STRANGER, 0600, 0 },
	      { OWNER, 0600, GPUB_DEDICATED } };

static unsigned pick(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static uint32_t bit_of(const struct fact *fact)
{
	return 1u << (fact - facts);
}

static struct piece *memory_of(const struct allocation *allocation)
{
	for (unsigned i = 0; i < MEMORIES; i++)
		if (memories[i].allocation == allocation)
			return &memories[i];
	return NULL;
}

static struct fact *fact_in(const struct piece *memory, uint32_t range)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].buffer && facts[i].memory == memory && (range == ALL || facts[i].range == range))
			return &facts[i];
	return NULL;
}

/* The sessions that use one of these buffers, orphaned mappings included. */
static struct right *right_to(uint32_t bits)
{
	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].mapping && rights[i].grants & bits)
			return &rights[i];
	return NULL;
}

static struct right *right_of(unsigned session, const struct piece *memory, bool is_orphaned)
{
	for (unsigned i = 0; i < RIGHTS; i++) {
		struct right *right = &rights[i];

		if (right->mapping && right->session == session && right->memory == memory &&
		    right->is_orphaned == is_orphaned && (is_orphaned || !right->is_own))
			return right;
	}
	return NULL;
}

static void fact_ended(const struct buffer *buffer)
{
	struct fact *fact = facts;

	while (fact->buffer != buffer)
		fact++;
	assert_true(fact->is_unlinked && fact->serial == buffer->serial);
	assert_null(right_to(bit_of(fact)));
	fact->buffer = NULL;
}

/* ---- what may happen ---- */

static void note_reserved(struct fact *fact, struct buffer *buffer, unsigned kind)
{
	struct piece *memory = memory_of(buffer->allocation);
	uint32_t range = range_of(buffer);

	if (memory) {
		/* invariant 6: of the same kind, and clean, and nobody's */
		assert_true(memory->is_made && !memory->is_closed && kinds[memory->kind].owner == kinds[kind].owner &&
			    kinds[memory->kind].mode == kinds[kind].mode && !kinds[kind].flags);
		assert_false(memory->dirty[range]);
		assert_null(fact_in(memory, range));
	} else {
		memory = memory_of(NULL);
		assert_non_null(memory);
		*memory = (struct piece){ .allocation = buffer->allocation,
					   .kind = kind,
					   .is_closed = kinds[kind].flags != 0 };
	}
	*fact = (struct fact){ .buffer = buffer,
			       .serial = buffer->serial,
			       .name = buffer->name[1],
			       .memory = memory,
			       .range = range };
}

static void do_reserve(void)
{
	char name[] = { 'b', (char)('0' + pick(BUFFERS)), 0 };
	struct buffer_spec spec = spec_of(name);
	struct fact *room = NULL;
	struct buffer *buffer;
	bool is_taken = false;
	unsigned kind = pick(sizeof kinds / sizeof *kinds);
	int error;

	for (unsigned i = 0; i < BUFFERS; i++) {
		if (!facts[i].buffer)
			room = &facts[i];
		else
			is_taken |= facts[i].name == name[1] && !facts[i].is_unlinked;
	}
	spec.owner = kinds[kind].owner;
	spec.mode = kinds[kind].mode;
	spec.flags = kinds[kind].flags;
	error = registry_reserve(&registry, &spec, &buffer);
	assert_int_equal(error, is_taken ? -EEXIST : room ? 0 : -EDQUOT);
	if (!error)
		note_reserved(room, buffer, kind);
}

static void do_ready_or_abandon(struct fact *fact)
{
	struct piece *memory = fact->memory;
	struct buffer *buffer = fact->buffer;

	if (!buffer || fact->is_ready)
		return;
	if (pick(4)) {
		fact->is_ready = memory->is_made = memory->dirty[fact->range] = true;
		ready(buffer);
		return;
	}
	fact->buffer = NULL;
	if (!memory->is_made)
		memory->allocation = NULL;
	registry_abandon(&registry, buffer);
}

/* One notice for each grant of a mapping that is not orphaned; other notices only evict memory. */
static void do_unlink(struct fact *fact)
{
	uint64_t serial = fact->serial;
	unsigned expected = 0, told = 0;

	if (!fact->buffer || !fact->is_ready || fact->is_unlinked)
		return;
	fact->is_unlinked = true;
	for (unsigned i = 0; i < RIGHTS; i++)
		expected += rights[i].mapping && !rights[i].is_orphaned && rights[i].grants & bit_of(fact);
	registry_unlink(&registry, fact->buffer);
	for (unsigned i = 0; i < notice_count; i++)
		told += notices[i].serial == serial;
	assert_int_equal(told, expected);
}

static void do_grant(struct fact *fact)
{
	unsigned session = pick(SESSIONS);
	struct grant_order order = order_of(session);
	struct right *right, *room = rights;
	struct grant *grant;
	bool fresh;
	int error;

	order.own = !pick(4);
	while (room < rights + RIGHTS && room->mapping)
		room++;
	if (!fact->buffer || !fact->is_ready || fact->is_unlinked || room == rights + RIGHTS)
		return;
	right = order.own ? NULL : right_of(session, fact->memory, false);
	error = registry.handles.free || right ? 0 : -ENOSPC;
	assert_int_equal(grant_open(&registry, fact->buffer, &order, &grant, &fresh), error);
	if (error)
		return;
	assert_int_equal(fresh, !right);
	if (!right)
		*(right = room) = (struct right){ .mapping = grant->mapping,
						  .id = grant->mapping->id,
						  .session = session,
						  .memory = fact->memory,
						  .is_own = order.own };
	assert_ptr_equal(grant->mapping, right->mapping);
	right->grants |= bit_of(fact);
}

static bool is_trusted(const struct right *right)
{
	return uid_of(right->session) == kinds[right->memory->kind].owner;
}

/* Whether its range may serve again: else the grant stays until the CLOSED. */
static bool is_kept(const struct fact *fact)
{
	return !fact->memory->is_closed && fact->memory->allocation->state != ALLOCATION_EVICTED;
}

static void do_idle(struct right *right, struct fact *fact)
{
	struct grant *grant;

	if (!right->mapping || right->is_orphaned || !fact->buffer)
		return;
	assert_ptr_equal(mappings_find(&mappings[right->session], right->id), right->mapping);
	grant = mapping_find_grant(right->mapping, fact->serial);
	assert_int_equal(grant != NULL, (right->grants & bit_of(fact)) != 0);
	if (!grant)
		return;
	if (is_trusted(right) && !right->is_own && (!fact->is_unlinked || is_kept(fact)))
		right->grants &= ~bit_of(fact);
	assert_int_equal(grant_quiesced(&registry, grant), is_trusted(right));
}

static void do_close(struct right *right)
{
	struct mapping *mapping = right->mapping;
	unsigned session = right->session;
	struct right *orphaned;
	bool is_over;

	if (!mapping || right->is_orphaned)
		return;
	orphaned = is_trusted(right) ? NULL : right_of(session, right->memory, true);
	is_over = orphaned || is_trusted(right);
	if (orphaned)
		orphaned->grants |= right->grants;
	if (is_over)
		*right = (struct right){ 0 };
	else
		right->is_orphaned = true;
	assert_int_equal(mapping_closed(&registry, mapping), is_over);
}

static void do_die(unsigned session)
{
	for (unsigned i = 0; i < RIGHTS; i++) {
		struct mapping *mapping = rights[i].mapping;

		if (!mapping || rights[i].session != session)
			continue;
		rights[i] = (struct right){ 0 };
		mapping_end(&registry, mapping);
	}
	assert_null(mappings[session].by_id);
}

static void do_cleaned(void)
{
	int error = pick(8) ? 0 : -EIO;

	if (!clean_count)
		return;
	if (!error)
		memory_of(cleanings[0].allocation)->dirty[cleanings[0].range] = false;
	clean_one(error);
}

static void do_released(void)
{
	struct allocation *allocation;
	struct piece *memory;

	if (!release_count)
		return;
	allocation = releasing[--release_count];
	memory = memory_of(allocation);
	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].memory == memory)
			facts[i].buffer = NULL;
	memory->allocation = NULL;
	released(allocation);
}

static void do_part(struct fact *fact)
{
	bool is_shared = false;

	if (!fact->buffer || !fact->is_ready || fact->is_unlinked)
		return;
	for (uint32_t range = 0; range < RANGES; range++)
		if (range != fact->range)
			is_shared |= fact->memory->dirty[range] || fact_in(fact->memory, range);
	assert_int_equal(part(fact->buffer), is_shared ? -EBUSY : 0);
	fact->memory->is_closed |= !is_shared;
}

/* ---- what must hold ---- */

/* A session that is asked to close something has it open. */
static void take_notices(void)
{
	for (unsigned i = 0; i < notice_count; i++)
		for (unsigned j = 0; !notices[i].serial && j < RIGHTS; j++)
			rights[j].is_asked |= rights[j].mapping && rights[j].id == notices[i].mapping;
	notice_count = 0;
}

static unsigned cleanings_of(const struct allocation *allocation)
{
	unsigned count = 0;

	for (unsigned i = 0; i < clean_count; i++)
		count += cleanings[i].allocation == allocation;
	return count;
}

static bool is_releasing(const struct allocation *allocation)
{
	for (unsigned i = 0; i < release_count; i++)
		if (releasing[i] == allocation)
			return true;
	return false;
}

static void expect_fact(const struct fact *fact, const struct allocation *allocation)
{
	enum board_state state = !fact->is_ready ? BOARD_FREE : fact->is_unlinked ? BOARD_DRAINING : BOARD_LIVE;
	unsigned used = 0, orphaned = 0;

	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].mapping && rights[i].grants & bit_of(fact)) {
			used++;
			orphaned += rights[i].is_orphaned;
		}
	assert_true(fact->buffer->serial == fact->serial && fact->buffer->allocation == allocation);
	assert_int_equal(fact->buffer->grant_count, used);
	assert_int_equal(fact->buffer->orphaned, orphaned);
	assert_int_equal(words[fact->buffer->place] & 3, state);
	/* it ends as soon as nobody uses it; a buffer that ends with its whole allocation ends with that */
	if (fact->is_unlinked && !used)
		assert_true(!allocation->named && (!allocation->open || (allocation->state == ALLOCATION_EVICTED)));
}

static void expect_rights(const struct piece *memory, const struct allocation *allocation)
{
	unsigned open = 0, orphaned = 0, grants = 0;

	for (unsigned i = 0; i < RIGHTS; i++) {
		const struct right *right = &rights[i];

		if (!right->mapping || right->memory != memory)
			continue;
		open++;
		orphaned += right->is_orphaned;
		grants += (unsigned)__builtin_popcount(right->grants);
		assert_true(right->is_orphaned || right->is_asked || allocation->state != ALLOCATION_EVICTED ||
			    allocation->notices.queued || allocation->untold);
	}
	assert_int_equal(allocation->open, open);
	assert_int_equal(allocation->orphaned, orphaned);
	assert_int_equal(allocation->grant_count, grants);
}

static void expect_allocation(const struct piece *memory)
{
	const struct allocation *allocation = memory->allocation;
	unsigned named = 0, cleaning = cleanings_of(allocation);
	bool is_empty = !fact_in(memory, ALL) && !cleaning;

	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].buffer && facts[i].memory == memory) {
			named += !facts[i].is_unlinked;
			expect_fact(&facts[i], allocation);
		}
	expect_rights(memory, allocation);
	assert_int_equal(allocation->named, named);
	assert_int_equal(allocation->busy, cleaning);
	/* invariant 2, both ways: freed as soon as it may be, and never before */
	assert_int_equal(is_releasing(allocation), !named && !allocation->open && !cleaning);
	/* mapped and empty it is kept for the next buffer of its kind, or evicted; an eviction is final */
	assert_true(!is_empty || !allocation->open || allocation->state == ALLOCATION_IDLE ||
		    (allocation->state == ALLOCATION_EVICTED));
	assert_true(allocation->state != ALLOCATION_IDLE ||
		    (is_empty && allocation->open && allocation->state != ALLOCATION_EVICTED && !memory->is_closed));
	assert_true(allocation->state != ALLOCATION_EVICTED || !named);
}

static void expect_sums(void)
{
	uint64_t bytes[2] = { 0 }, buffers[2] = { 0 }, grants[2] = { 0 }, idle = 0;
	unsigned open = 0;

	for (unsigned i = 0; i < MEMORIES; i++)
		if (memories[i].allocation) {
			bytes[kinds[memories[i].kind].owner == STRANGER] += SPAN;
			idle += memories[i].allocation->state == ALLOCATION_IDLE ? SPAN : 0;
		}
	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].buffer)
			buffers[kinds[facts[i].memory->kind].owner == STRANGER]++;
	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].mapping) {
			open += !rights[i].is_orphaned;
			grants[rights[i].session == THEIRS] += (unsigned)__builtin_popcount(rights[i].grants);
		}
	for (int i = 0; i < 2; i++) {
		assert_true(accounting_used(&accounting, OWNER + i, RESOURCE_BYTES) == bytes[i]);
		assert_true(accounting_used(&accounting, OWNER + i, RESOURCE_BUFFERS) == buffers[i]);
		assert_true(accounting_used(&accounting, OWNER + i, RESOURCE_GRANTS) == grants[i]);
	}
	assert_true(device_memory.bytes == bytes[0] + bytes[1]);
	assert_true(registry.buffer_count == buffers[0] + buffers[1]);
	assert_int_equal(registry.words.free, BUFFERS - registry.buffer_count);
	assert_int_equal(registry.mapping_count, open);
	assert_int_equal(registry.handles.free, HANDLES - open);
	assert_true(device_memory.usages.bytes[0][SPARE_IDLE] == idle && idle <= device_memory.usages.limit);
}

static void expect_mappings(unsigned session)
{
	unsigned count = 0, orphaned = 0, used = 0;

	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].mapping && rights[i].session == session) {
			count++;
			orphaned += rights[i].is_orphaned;
			used += (unsigned)__builtin_popcount(rights[i].grants);
		}
	assert_int_equal(HASH_COUNT(mappings[session].by_id), count);
	assert_int_equal(mappings[session].orphaned, orphaned);
	assert_int_equal(mappings[session].grant_count, used);
	assert_true(mappings[session].bytes == (uint64_t)count * SPAN);
}

static void expect_registry(void)
{
	take_notices();
	for (unsigned i = 0; i < MEMORIES; i++)
		if (memories[i].allocation)
			expect_allocation(&memories[i]);
	for (unsigned session = 0; session < SESSIONS; session++)
		expect_mappings(session);
	expect_sums();
}

static void do_something(void)
{
	can_clean = pick(16);
	if (!pick(3))
		notices_more(&registry);
	switch (pick(60) ? pick(12) : 12 + pick(2)) {
	case 0:
	case 1:
		do_reserve();
		break;
	case 2:
		do_ready_or_abandon(&facts[pick(BUFFERS)]);
		break;
	case 3:
		do_unlink(&facts[pick(BUFFERS)]);
		break;
	case 4:
	case 5:
		do_grant(&facts[pick(BUFFERS)]);
		break;
	case 6:
	case 7:
		for (unsigned i = 0, right = pick(RIGHTS); i < BUFFERS; i++)
			do_idle(&rights[right], &facts[i]);
		break;
	case 8:
		do_close(&rights[pick(RIGHTS)]);
		break;
	case 9:
		do_released();
		break;
	case 10:
	case 11:
		do_cleaned();
		break;
	case 12:
		do_die(pick(SESSIONS));
		break;
	default:
		if (pick(2))
			do_part(&facts[pick(BUFFERS)]);
		else
			usages_reclaim(&device_memory.usages, 0, pick(2) ? OWNER : STRANGER, SPARE_IDLE,
				       pick(3) * SPAN);
	}
}

static void invariant_2_and_6_random_operations_match_an_oracle(void **state)
{
	(void)state;
	seed = 20261121;
	and_ended = fact_ended;
	device_memory.usages.limit = 3 * SPAN;
	memset(memories, 0, sizeof memories);
	memset(facts, 0, sizeof facts);
	memset(rights, 0, sizeof rights);
	for (int i = 0; i < 100000; i++) {
		do_something();
		expect_registry();
	}
	can_clean = true;
	for (unsigned i = 0; i < BUFFERS; i++) {
		do_ready_or_abandon(&facts[i]);
		do_unlink(&facts[i]);
	}
	for (unsigned i = 0; i < SESSIONS; i++)
		do_die(i);
	while (clean_count)
		do_cleaned();
	while (release_count)
		do_released();
	expect_registry();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_2_and_6_random_operations_match_an_oracle),
	};

	return cmocka_run_group_tests_name("random operations on shared memory", tests, NULL, NULL);
}
