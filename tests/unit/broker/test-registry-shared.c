/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry-shared.c - the registry of memory that several buffers share: who may share, and that a range serves
 * the next buffer after it was cleaned and never before. mappings-harness.h is the world.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "mappings-harness.h"

#include "broker/registry/notices.h"

/* ---- which buffers share an allocation ---- */

static void test_buffers_of_one_kind_share_an_allocation(void **state)
{
	struct buffer *buffers[RANGES + 1];
	bool taken[RANGES] = { false };

	(void)state;
	fill(buffers);
	for (unsigned i = 0; i < RANGES; i++) {
		assert_ptr_equal(buffers[i]->allocation, buffers[0]->allocation);
		assert_true(buffers[i]->offset % RANGE == 0 && buffers[i]->offset < SPAN);
		assert_false(taken[range_of(buffers[i])]);
		taken[range_of(buffers[i])] = true;
	}
	/* it is full */
	buffers[RANGES] = live("e");
	assert_ptr_not_equal(buffers[RANGES]->allocation, buffers[0]->allocation);
	unlink_all(buffers, RANGES + 1);
}

static void invariant_6_others_never_share(void **state)
{
	struct buffer_spec specs[6];
	struct buffer *first = live("a"), *other[6];

	(void)state;
	for (int i = 0; i < 6; i++)
		specs[i] = spec_of((const char *const[]){ "owner", "group", "mode", "device", "class", "alone" }[i]);
	specs[0].owner = STRANGER;
	specs[1].group++;
	specs[2].mode = 0640;
	specs[3].device = 1;
	specs[4].range = 2 * RANGE;
	specs[5].flags = GPUB_DEDICATED;
	for (int i = 0; i < 6; i++) {
		other[i] = live_of(specs[i]);
		assert_ptr_not_equal(other[i]->allocation, first->allocation);
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(other[i]->allocation, other[j]->allocation);
	}
	unlink_all(other, 6);
	registry_unlink(&registry, first);
}

/* It joins no allocation, and no buffer joins its own. */
static void invariant_6_private_memory_stays_private(void **state)
{
	struct buffer_spec spec = spec_of("alone");
	struct buffer *buffers[4];

	(void)state;
	buffers[0] = live("a");
	spec.flags = GPUB_DEDICATED;
	buffers[1] = live_of(spec);
	spec.name = "alone too";
	buffers[2] = live_of(spec);
	registry_unlink(&registry, buffers[0]);
	device_works();
	buffers[0] = live("b");
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(buffers[i]->allocation, buffers[j]->allocation);
	unlink_all(buffers, 3);
}

/* Memory that is being made may fail to be made. */
static void test_nobody_joins_what_is_not_made(void **state)
{
	struct buffer_spec spec = spec_of("a");
	struct buffer *first, *second;

	(void)state;
	assert_int_equal(registry_reserve(&registry, &spec, &first), 0);
	second = live("b");
	assert_ptr_not_equal(first->allocation, second->allocation);
	registry_abandon(&registry, first);
	registry_unlink(&registry, second);
}

static void test_an_abandoned_buffers_range_is_vacant_again(void **state)
{
	struct buffer *buffers[RANGES], *abandoned;
	struct buffer_spec spec = spec_of("e");
	struct allocation *allocation;

	(void)state;
	fill(buffers);
	allocation = buffers[0]->allocation;
	registry_unlink(&registry, buffers[3]);
	clean_one(0);
	assert_int_equal(registry_reserve(&registry, &spec, &abandoned), 0);
	assert_ptr_equal(abandoned->allocation, allocation);
	registry_abandon(&registry, abandoned);
	assert_int_equal(clean_count, 0); /* nobody ever saw it */
	buffers[3] = live("f");
	assert_ptr_equal(buffers[3]->allocation, allocation);
	unlink_all(buffers, RANGES);
}

static void test_bytes_are_charged_once_an_allocation(void **state)
{
	struct buffer *buffers[RANGES], *more = NULL;
	struct buffer_spec spec = spec_of("more");

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_BYTES] = SPAN;
	fill(buffers);
	assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == RANGES);
	assert_int_equal(registry_reserve(&registry, &spec, &more), -EDQUOT);
	assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == RANGES);
	/* a buffer that ended costs nothing, and its range in the charged allocation is free */
	registry_unlink(&registry, buffers[0]);
	assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == RANGES - 1);
	assert_int_equal(registry_reserve(&registry, &spec, &more), -EDQUOT);
	clean_one(0);
	buffers[0] = live("more");
	accounting.quotas.fallback.limit[RESOURCE_BUFFERS] = RANGES - 1;
	registry_unlink(&registry, buffers[1]);
	clean_one(0);
	spec.name = "one more";
	assert_int_equal(registry_reserve(&registry, &spec, &more), -EDQUOT);
	registry_unlink(&registry, buffers[0]);
	unlink_all(buffers + 2, 2);
	device_works();
	assert_true(!used(RESOURCE_BYTES) && !used(RESOURCE_BUFFERS));
}

/* ---- a range's next buffer ---- */

static void invariant_6_a_range_is_cleaned_before_it_serves_again(void **state)
{
	struct buffer *buffers[RANGES], *before, *after;
	struct allocation *allocation;
	struct grant *grant;
	uint64_t serial, offset;
	uint32_t place;

	(void)state;
	fill(buffers);
	allocation = buffers[2]->allocation;
	serial = buffers[2]->serial;
	offset = buffers[2]->offset;
	place = buffers[2]->place;
	grant = grant_first(0, buffers[2]);
	registry_unlink(&registry, buffers[2]);
	assert_int_equal(ended_count, 0);
	assert_true(words[place] == BOARD_WORD(serial, BOARD_DRAINING));
	assert_true(grant_quiesced(&registry, grant));
	assert_int_equal(ended_count, 1);
	assert_true(ended_serials[0] == serial);
	assert_true(words[place] == BOARD_WORD(serial, BOARD_FREE));
	assert_int_equal(registry.buffer_count, 3);
	assert_int_equal(clean_count, 1);
	assert_ptr_equal(cleanings[0].allocation, allocation);
	assert_true(cleanings[0].range * RANGE == offset);
	before = live("before");
	assert_ptr_not_equal(before->allocation, allocation);
	registry_unlink(&registry, before);
	assert_int_equal(release_count, 1);
	clean_one(0);
	after = live("after");
	assert_ptr_equal(after->allocation, allocation);
	assert_true(after->offset == offset);
	assert_true(after->serial > serial);
	/* the session that used the old buffer has no grant of the new one */
	assert_null(mapping_find_grant(mappings[0].by_id, after->serial));
	registry_unlink(&registry, buffers[0]);
	registry_unlink(&registry, buffers[1]);
	registry_unlink(&registry, buffers[3]);
	registry_unlink(&registry, after);
	mapping_end(&registry, mappings[0].by_id);
}

static void expect_never_reused(struct buffer **buffers, const struct allocation *allocation)
{
	buffers[3] = live("next");
	assert_ptr_not_equal(buffers[3]->allocation, allocation);
	can_clean = true;
	unlink_all(buffers, RANGES);
}

static void invariant_6_what_could_not_be_cleaned_is_never_reused(void **state)
{
	struct buffer *buffers[RANGES];
	struct allocation *allocation;

	(void)state;
	fill(buffers);
	allocation = buffers[3]->allocation;
	registry_unlink(&registry, buffers[3]);
	clean_one(-EIO);
	expect_never_reused(buffers, allocation);
}

static void invariant_6_what_nobody_could_be_asked_to_clean_is_never_reused(void **state)
{
	struct buffer *buffers[RANGES];
	struct allocation *allocation;

	(void)state;
	fill(buffers);
	allocation = buffers[3]->allocation;
	can_clean = false;
	registry_unlink(&registry, buffers[3]);
	assert_int_equal(ended_count, 1);
	expect_never_reused(buffers, allocation);
}

static void invariant_6_another_sessions_grant_keeps_the_range(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *mine = grant_first(0, a), *others = grant_first(1, a);

	(void)state;
	registry_unlink(&registry, a);
	assert_true(grant_quiesced(&registry, mine));
	assert_int_equal(ended_count + clean_count, 0);
	assert_true(grant_quiesced(&registry, others));
	assert_int_equal(ended_count, 1);
	assert_int_equal(clean_count, 1);
	registry_unlink(&registry, b);
	mapping_end(&registry, mappings[0].by_id);
	mapping_end(&registry, mappings[1].by_id);
}

/* ---- the end of shared memory ---- */

static void invariant_2_shared_memory_is_freed_once_with_the_last_name(void **state)
{
	struct buffer *buffers[RANGES];

	(void)state;
	fill(buffers);
	for (unsigned i = 0; i < RANGES; i++) {
		assert_int_equal(release_count, 0);
		registry_unlink(&registry, buffers[i]);
		device_works();
	}
	assert_true(registry_empty(&registry));
}

static void invariant_2_memory_is_not_freed_while_the_device_cleans_it(void **state)
{
	struct buffer *a = live("a"), *b = live("b");

	(void)state;
	registry_unlink(&registry, a);
	assert_int_equal(clean_count, 1);
	registry_unlink(&registry, b);
	assert_int_equal(release_count, 0);
	clean_one(0);
	assert_int_equal(release_count, 1);
}

/*
 * It waits only for the device before it is freed. If a new buffer joined it, the end of the last one would wait for
 * that buffer.
 */
static void test_nobody_joins_memory_that_is_about_to_be_freed(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c;
	struct allocation *allocation = a->allocation;

	(void)state;
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(clean_count, 1);
	c = live("c");
	assert_ptr_not_equal(c->allocation, allocation);
	device_works();
	assert_int_equal(registry.buffer_count, 1);
	registry_unlink(&registry, c);
}

/* A broker that goes while mappings are open forgets them, and tells nobody to free. */
static void test_deinit_forgets_grants_of_all_states(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");

	(void)state;
	grant_first(0, a);
	grant_again(0, b);
	grant_first(THEIRS, b);
	assert_false(mapping_closed(&registry, mappings[THEIRS].by_id));
	registry_unlink(&registry, b);
	registry_unlink(&registry, c);
	idle_of(1, (struct buffer_spec){ .name = "d", .size = 1, .span = SPAN, .range = RANGE, .owner = OWNER });
	for (unsigned i = 0; i < SESSIONS; i++)
		mappings_free(&registry, &mappings[i]);
	registry_deinit(&registry);
	memory_deinit(&device_memory);
	assert_int_equal(release_count, 0);
	assert_null(accounting.accounts);
	assert_int_equal(setup(NULL), 0);
}

/* ---- others than of the kind ---- */

static void invariant_6_what_is_shared_is_not_for_others(void **state)
{
	struct buffer *a = live("a"), *b = live("b");

	(void)state;
	assert_int_equal(part(a), -EBUSY);
	assert_non_null(strstr(error_text(), "'a'"));
	assert_int_equal(registry_change_owner(&registry, a, STRANGER), -EBUSY);
	assert_int_equal(a->owner, OWNER);
	assert_true(used(RESOURCE_BYTES) == SPAN && used(RESOURCE_BUFFERS) == 2);
	/* nor while what was beside it is in memory yet */
	registry_unlink(&registry, b);
	assert_int_equal(part(a), -EBUSY);
	clean_one(0);
	assert_int_equal(part(a), 0);
	registry_unlink(&registry, a);
}

static void invariant_6_what_could_not_be_cleaned_is_not_for_others(void **state)
{
	struct buffer *a = live("a"), *b = live("b");

	(void)state;
	registry_unlink(&registry, b);
	clean_one(-EIO);
	assert_int_equal(part(a), -EBUSY);
	registry_unlink(&registry, a);
}

static void invariant_6_nobody_joins_what_others_may_map(void **state)
{
	struct buffer *buffers[3];

	(void)state;
	buffers[0] = live("a");
	assert_int_equal(part(buffers[0]), 0);
	buffers[1] = live("b");
	assert_ptr_not_equal(buffers[1]->allocation, buffers[0]->allocation);
	/* of either owner */
	assert_int_equal(registry_change_owner(&registry, buffers[0], STRANGER), 0);
	assert_true(accounting_used(&accounting, STRANGER, RESOURCE_BYTES) == SPAN);
	buffers[2] = live_of((struct buffer_spec){
		.name = "c", .size = 1, .span = SPAN, .range = RANGE, .owner = STRANGER, .group = 7, .mode = 0600 });
	assert_ptr_not_equal(buffers[2]->allocation, buffers[0]->allocation);
	unlink_all(buffers, 3);
}

/* ---- who is told of another generation ---- */

/* Sixteen in a pass, of whatever buffers. The loop is told that there are more: it does not sleep then. */
static void invariant_5_sixteen_are_told_in_a_pass(void **state)
{
	static const char *const names[2 * RANGES] = { "a", "b", "c", "d", "e", "f", "g", "h" };
	static const char *const to[2 * RANGES] = { "A", "B", "C", "D", "E", "F", "G", "H" };
	struct buffer *buffers[2 * RANGES];

	(void)state;
	for (unsigned i = 0; i < 2 * RANGES; i++) {
		buffers[i] = live(names[i]);
		for (unsigned session = 0; session < SESSIONS; session++) {
			struct grant_order order = order_of(session);

			grant_by(&order, buffers[i], i % RANGES == 0);
		}
	}
	for (unsigned i = 0; i < 2 * RANGES; i++)
		registry_rename(&registry, buffers[i], to[i]);
	assert_int_equal(notice_count, 0);
	assert_true(notices_more(&registry));
	assert_int_equal(notice_count, 16);
	assert_false(notices_more(&registry));
	assert_int_equal(notice_count, 2 * RANGES * SESSIONS);
	unlink_all(buffers, 2 * RANGES);
	for (unsigned session = 0; session < SESSIONS; session++)
		while (mappings[session].by_id)
			mapping_end(&registry, mappings[session].by_id);
}

/* ---- who waits for a buffer's end ---- */

static uint64_t ended_now[RANGES];
static unsigned ended_now_count;

static void note_ended(uint64_t serial)
{
	assert_null(registry_find_serial(&registry, serial));
	assert_in_range(ended_now_count, 0, RANGES - 1);
	ended_now[ended_now_count++] = serial;
}

static void expect_ends(void)
{
	note_end = note_ended;
	ended_now_count = 0;
}

/* Those that are freed with their allocation end with it, each by its own serial. None of them has memory by then. */
static void test_buffers_end_with_the_memory_that_they_were_in(void **state)
{
	struct buffer *buffers[RANGES], *left;
	struct allocation *allocation;
	uint64_t serials[RANGES];

	(void)state;
	expect_ends();
	fill(buffers);
	allocation = buffers[0]->allocation;
	for (unsigned i = 0; i < RANGES; i++)
		serials[i] = buffers[i]->serial;
	unlink_all(buffers, RANGES - 1);
	while (clean_count)
		clean_one(0);
	assert_int_equal(ended_now_count, RANGES - 1);
	for (unsigned i = 0; i < RANGES - 1; i++)
		assert_int_equal(ended_now[i], serials[i]);
	registry_unlink(&registry, buffers[RANGES - 1]);
	assert_true(release_count == 1 && releasing[0] == allocation);
	left = registry_released(&registry, allocation);
	assert_true(left == buffers[RANGES - 1] && !left->allocation && ended_now_count == RANGES - 1);
	assert_int_equal(registry_forget(&registry, &left), serials[RANGES - 1]);
	note_ended(serials[RANGES - 1]);
	assert_int_equal(registry_forget(&registry, &left), 0);
	allocation_free(NULL, allocation);
	release_count = 0;
	assert_int_equal(ended_now_count, RANGES);
	assert_int_equal(ended_now[RANGES - 1], serials[RANGES - 1]);
}

/* Nobody waits for ever for a range that the device cannot be asked to clean: it is never used again. */
static void test_a_buffer_ends_without_a_cleaning(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	uint64_t serial = b->serial;

	(void)state;
	expect_ends();
	can_clean = false;
	registry_unlink(&registry, b);
	assert_true(ended_now_count == 1 && ended_now[0] == serial);
	can_clean = true;
	registry_unlink(&registry, a);
	device_works();
	assert_int_equal(ended_now_count, 2);
}

/* A device that is short of memory asks how much each user's would give back. */
static void test_made_memory_is_counted_for_its_user(void **state)
{
	struct buffer_spec spec = spec_of("alone");
	struct buffer *first = live("a"), *alone;
	const struct usage *usage = first->allocation->usage;

	(void)state;
	assert_int_equal(usage->made, SPAN);
	spec.flags = GPUB_DEDICATED;
	assert_int_equal(registry_reserve(&registry, &spec, &alone), 0);
	assert_int_equal(usage->made, SPAN); /* the device has not made it yet */
	ready(alone);
	assert_int_equal(usage->made, 2 * SPAN);
	registry_unlink(&registry, alone);
	assert_int_equal(usage->made, SPAN); /* it counts as memory on its way to the device */
	device_works();
	assert_int_equal(usage->made, SPAN);
	registry_unlink(&registry, first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_buffers_of_one_kind_share_an_allocation),
		ON(invariant_6_others_never_share),
		ON(invariant_6_private_memory_stays_private),
		ON(test_nobody_joins_what_is_not_made),
		ON(test_an_abandoned_buffers_range_is_vacant_again),
		ON(test_bytes_are_charged_once_an_allocation),
		ON(invariant_6_a_range_is_cleaned_before_it_serves_again),
		ON(invariant_6_what_could_not_be_cleaned_is_never_reused),
		ON(invariant_6_what_nobody_could_be_asked_to_clean_is_never_reused),
		ON(invariant_6_another_sessions_grant_keeps_the_range),
		ON(invariant_2_shared_memory_is_freed_once_with_the_last_name),
		ON(invariant_2_memory_is_not_freed_while_the_device_cleans_it),
		ON(test_nobody_joins_memory_that_is_about_to_be_freed),
		ON(test_deinit_forgets_grants_of_all_states),
		ON(invariant_6_what_is_shared_is_not_for_others),
		ON(invariant_6_what_could_not_be_cleaned_is_not_for_others),
		ON(invariant_6_nobody_joins_what_others_may_map),
		ON(invariant_5_sixteen_are_told_in_a_pass),
		ON(test_buffers_end_with_the_memory_that_they_were_in),
		ON(test_a_buffer_ends_without_a_cleaning),
		ON(test_made_memory_is_counted_for_its_user),
	};

	return cmocka_run_group_tests_name("shared memory", tests, NULL, NULL);
}
