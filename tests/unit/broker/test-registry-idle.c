/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry-idle.c - memory that is mapped and in which nothing is: it serves the next buffer of its kind, or is
 * evicted. mappings-harness.h is the world.
 */

#include "mappings-harness.h"

#include "broker/registry/notices.h"

/* ---- memory that is mapped and in which nothing is ---- */

static void test_idle_memory_serves_the_same_kind_again(void **state)
{
	struct allocation *allocation = idle_of(0, spec_of("a"));
	struct buffer_spec spec = spec_of("b");
	struct buffer *other, *again;

	(void)state;
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(device_memory.usages.bytes[0][SPARE_IDLE] == SPAN);
	assert_true(used(RESOURCE_BYTES) == SPAN); /* it is still its owner's */
	spec.mode = 0644;
	other = live_of(spec);
	assert_ptr_not_equal(other->allocation, allocation);
	again = live("c");
	assert_ptr_equal(again->allocation, allocation);
	assert_int_not_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(device_memory.usages.bytes[0][SPARE_IDLE] == 0);
	/* and a session that maps it need not open it again */
	grant_again(0, again);
	registry_unlink(&registry, other);
	registry_unlink(&registry, again);
	mapping_end(&registry, mapping_on(0, allocation));
}

static void invariant_2_idle_memory_is_freed_with_its_last_mapping(void **state)
{
	struct buffer *a = live("a");
	struct allocation *allocation = a->allocation;
	struct grant *mine = grant_first(0, a), *others = grant_first(1, a);

	(void)state;
	registry_unlink(&registry, a);
	grant_quiesced(&registry, mine);
	grant_quiesced(&registry, others);
	clean_one(0);
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(mapping_closed(&registry, mappings[0].by_id));
	assert_int_equal(release_count, 0);
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(mapping_closed(&registry, mappings[1].by_id));
	assert_int_equal(release_count, 1);
	assert_true(device_memory.usages.bytes[0][SPARE_IDLE] == 0);
	assert_null(device_memory.usages.keeping[0]);
	/* nobody takes it any more */
	a = live("b");
	assert_ptr_not_equal(a->allocation, allocation);
	registry_unlink(&registry, a);
}

static void test_the_oldest_idle_memory_is_evicted_beyond_the_limit(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	struct allocation *idle[3];

	(void)state;
	device_memory.usages.limit = 2 * SPAN;
	for (int i = 0; i < 3; i++) {
		struct buffer_spec spec = spec_of(names[i]);
		struct buffer *buffer;
		struct grant *grant;

		spec.mode = 0600 + (unsigned)i; /* or each would take the one before */
		buffer = live_of(spec);
		grant = grant_first(0, buffer);
		idle[i] = buffer->allocation;
		registry_unlink(&registry, buffer);
		notice_count = 0;
		assert_true(grant_quiesced(&registry, grant));
		clean_one(0);
	}
	assert_false(notices_more(&registry));
	assert_int_equal(notice_count, 1);
	expect_evicted(idle[0], mapping_on(0, idle[0]));
	assert_true(idle[1]->state == ALLOCATION_IDLE && idle[2]->state == ALLOCATION_IDLE);
	assert_true(device_memory.usages.bytes[0][SPARE_IDLE] == 2 * SPAN);
	for (int i = 0; i < 3; i++)
		mapping_end(&registry, mapping_on(0, idle[i]));
}

/* As with a limit of 0. */
static void test_memory_larger_than_the_limit_is_evicted_at_once(void **state)
{
	struct buffer *a;
	struct grant *grant;

	(void)state;
	device_memory.usages.limit = SPAN - 1;
	a = live("a");
	grant = grant_first(0, a);
	registry_unlink(&registry, a);
	expect_kept_until_closed(a, grant);
}

static void test_private_memory_is_evicted_at_once(void **state)
{
	struct buffer_spec spec = spec_of("a");
	struct buffer *a;
	struct grant *grant;

	(void)state;
	spec.flags = GPUB_DEDICATED;
	a = live_of(spec);
	grant = grant_first(0, a);
	registry_unlink(&registry, a);
	expect_kept_until_closed(a, grant);
}

/* Its grants ended while it had its name; sessions that still map it are asked by the unlink. */
static void test_an_unlink_evicts_memory_that_nobody_uses(void **state)
{
	struct buffer *a;
	struct allocation *allocation;

	(void)state;
	device_memory.usages.limit = 0;
	a = live("a");
	allocation = a->allocation;
	assert_true(grant_quiesced(&registry, grant_first(0, a)));
	assert_int_equal(notice_count, 0);
	registry_unlink(&registry, a);
	assert_int_equal(ended_count + clean_count, 0);
	expect_evicted(allocation, mappings[0].by_id);
	mapping_end(&registry, mappings[0].by_id);
}

/* Other buffers are in it, so its range is reused, whatever the limit is. */
static void test_beside_others_a_range_serves_again_without_a_limit_for_idle_memory(void **state)
{
	struct buffer *a, *b;
	struct grant *grant;

	(void)state;
	device_memory.usages.limit = 0;
	a = live("a");
	b = live("b");
	grant = grant_first(0, a);
	registry_unlink(&registry, a);
	assert_true(grant_quiesced(&registry, grant));
	assert_int_equal(ended_count, 1);
	assert_int_equal(clean_count, 1);
	assert_int_equal(notice_count, 1); /* that of the unlink */
	clean_one(0);
	registry_unlink(&registry, b);
	assert_int_equal(ended_count, 1);
	assert_false(notices_more(&registry));
	expect_notice(1, mappings[0].by_id, 0);
	mapping_end(&registry, mappings[0].by_id);
	assert_int_equal(release_count, 1);
}

/* The device finishes a range of it when the memory is no longer to be reused. */
static void test_a_range_of_evicted_memory_is_not_reused(void **state)
{
	struct allocation *allocation;
	struct buffer *a, *b;
	struct grant *grant;

	(void)state;
	device_memory.usages.limit = 0;
	a = live("a");
	b = live("b");
	allocation = a->allocation;
	grant = grant_first(0, b);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_true(grant_quiesced(&registry, grant));
	assert_int_equal(clean_count, 1);
	clean_one(0);
	expect_evicted(allocation, mappings[0].by_id);
	mapping_end(&registry, mappings[0].by_id);
	assert_int_equal(release_count, 2); /* the one that was next, and this */
}

/* Memory of which no range could be cleaned cannot be reused. */
static void test_memory_without_a_clean_range_is_evicted(void **state)
{
	struct buffer *buffers[RANGES];
	struct allocation *allocation;

	(void)state;
	fill(buffers);
	allocation = buffers[0]->allocation;
	can_clean = false;
	grant_first(0, buffers[0]);
	registry_unlink(&registry, buffers[0]);
	assert_true(grant_quiesced(&registry, mappings[0].by_id->grants));
	unlink_all(buffers + 1, RANGES - 1);
	can_clean = true;
	expect_evicted(allocation, mappings[0].by_id);
	mapping_end(&registry, mappings[0].by_id);
}

static void test_idle_memory_is_evicted_when_it_is_reclaimed(void **state)
{
	struct buffer_spec strangers = spec_of("b"), there = spec_of("c");
	struct allocation *idle[3];

	(void)state;
	strangers.owner = STRANGER;
	there.device = 1;
	idle[0] = idle_of(0, spec_of("a"));
	idle[1] = idle_of(THEIRS, strangers);
	idle[2] = idle_of(0, there);
	usages_reclaim(&device_memory.usages, 0, OWNER, SPARE_IDLE, 1);
	/* they may be many: sessions that map them are asked in later passes */
	assert_int_equal(notice_count, 0);
	assert_false(notices_more(&registry));
	assert_int_equal(notice_count, 1);
	expect_evicted(idle[0], mapping_on(0, idle[0]));
	assert_true(idle[1]->state == ALLOCATION_IDLE && idle[2]->state == ALLOCATION_IDLE);
	usages_reclaim(&device_memory.usages, 0, OWNER, SPARE_IDLE, SPAN);
	assert_false(notices_more(&registry));
	assert_int_equal(notice_count, 2);
	expect_notice(1, mappings[THEIRS].by_id, 0);
	assert_true(idle[1]->state == ALLOCATION_EVICTED && idle[2]->state == ALLOCATION_IDLE);
	/* not twice */
	usages_reclaim(&device_memory.usages, 0, OWNER, SPARE_IDLE, SPAN);
	assert_false(notices_more(&registry));
	assert_int_equal(notice_count, 2);
	usages_reclaim(&device_memory.usages, 1, OWNER, SPARE_IDLE, SPAN);
	mapping_end(&registry, mapping_on(0, idle[0]));
	mapping_end(&registry, mapping_on(0, idle[2]));
	mapping_end(&registry, mappings[THEIRS].by_id);
}

/* Other users may keep it mapped for ever. */
static void invariant_6_what_others_mapped_serves_nobody_else(void **state)
{
	struct buffer *a = live("a");
	struct grant *grant = grant_first(0, a);

	(void)state;
	assert_int_equal(part(a), 0);
	registry_unlink(&registry, a);
	expect_kept_until_closed(a, grant);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_idle_memory_serves_the_same_kind_again),
		ON(invariant_2_idle_memory_is_freed_with_its_last_mapping),
		ON(test_the_oldest_idle_memory_is_evicted_beyond_the_limit),
		ON(test_memory_larger_than_the_limit_is_evicted_at_once),
		ON(test_private_memory_is_evicted_at_once),
		ON(test_an_unlink_evicts_memory_that_nobody_uses),
		ON(test_beside_others_a_range_serves_again_without_a_limit_for_idle_memory),
		ON(test_a_range_of_evicted_memory_is_not_reused),
		ON(test_memory_without_a_clean_range_is_evicted),
		ON(test_idle_memory_is_evicted_when_it_is_reclaimed),
		ON(invariant_6_what_others_mapped_serves_nobody_else),
	};

	return cmocka_run_group_tests_name("idle memory", tests, NULL, NULL);
}
