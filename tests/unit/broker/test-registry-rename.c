/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry-rename.c - a buffer under another name: who finds it, who is told, and when its memory is free; and who
 * may write a buffer.
 */
#include "registry-harness.h"

#include "broker/registry/notices.h"
#include "broker/users/identity.h"

static struct grant *grant_of(const struct grant_order *order, struct buffer *buffer)
{
	struct grant *grant = NULL;
	bool fresh;

	assert_int_equal(grant_open(&registry, buffer, order, &grant, &fresh), 0);
	return grant;
}

static struct grant *shared_grant(struct session *session, struct session_mappings *table, struct buffer *buffer,
				  unsigned rights)
{
	const struct grant_order order = { .session = session, .uid = OWNER, .mappings = table, .rights = rights };

	return grant_of(&order, buffer);
}

/* Also where it is the only entry of its tables, which would go with it. */
static void rename_among(unsigned others)
{
	static const char *const names[] = { "x", "y", "z" };
	struct buffer *buffer = live("a"), *other[3];
	uint64_t serial = buffer->serial;

	for (unsigned i = 0; i < others; i++)
		other[i] = live(names[i]);
	registry_rename(&registry, buffer, "b");
	assert_null(registry_find(&registry, "a"));
	assert_ptr_equal(registry_find(&registry, "b"), buffer);
	assert_null(registry_find_any(&registry, serial));
	assert_true(buffer->serial > serial);
	assert_ptr_equal(registry_find_serial(&registry, buffer->serial), buffer);
	expect_word(buffer, BOARD_LIVE);
	for (unsigned i = 0; i < others; i++) {
		assert_ptr_equal(registry_find(&registry, names[i]), other[i]);
		assert_ptr_equal(registry_find_serial(&registry, other[i]->serial), other[i]);
		registry_unlink(&registry, other[i]);
	}
	live("a");
	registry_unlink(&registry, buffer);
	registry_unlink(&registry, registry_find(&registry, "a"));
	release_all();
	assert_true(registry_empty(&registry));
}

static void invariant_8_a_renamed_buffer_is_found_by_its_new_name_and_serial(void **state)
{
	(void)state;
	for (unsigned others = 0; others <= 3; others++)
		rename_among(others);
}

/* What is told in a pass is bounded by how many are told, not by how many buffers they are told of. */
static void test_a_pass_tells_of_several_buffers(void **state)
{
	static const char *const names[] = { "a", "b", "c" }, *const to[] = { "x", "y", "z" };
	struct buffer *buffers[3];
	struct grant *grants[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		buffers[i] = live(names[i]);
		grants[i] = shared_grant(SESSION, &mappings, buffers[i], GPUB_READ);
	}
	for (unsigned i = 0; i < 3; i++)
		registry_rename(&registry, buffers[i], to[i]);
	assert_int_equal(notices, 0);
	assert_false(notices_more(&registry));
	assert_int_equal(notices, 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(noticed[i], grants[i]->mapping->id);
		registry_unlink(&registry, buffers[i]);
		mapping_end(&registry, grants[i]->mapping);
	}
}

static void invariant_5_a_grant_is_told_of_a_rename_once(void **state)
{
	struct buffer *buffer = live("a");
	struct grant *before = shared_grant(SESSION, &mappings, buffer, GPUB_READ), *after;

	(void)state;
	registry_rename(&registry, buffer, "b");
	assert_false(notices_more(&registry));
	assert_int_equal(notices, 1);
	assert_int_equal(noticed[0], before->mapping->id);
	after = shared_grant(OTHER_SESSION, &other_mappings, buffer, GPUB_READ);
	assert_int_equal(after->key.serial, buffer->serial);
	registry_rename(&registry, buffer, "c");
	assert_false(notices_more(&registry));
	assert_int_equal(notices, 2);
	assert_int_equal(noticed[1], after->mapping->id);
	registry_unlink(&registry, buffer);
	assert_int_equal(notices, 2);
	mapping_end(&registry, before->mapping);
	assert_int_equal(releases, 0);
	mapping_end(&registry, after->mapping);
	assert_int_equal(releases, 1);
}

/* One session, one mapping, two grants: each ends by the serial that it began with. */
static void invariant_2_memory_waits_for_the_grants_of_both_serials(void **state)
{
	struct buffer *buffer = live("a");
	struct grant *before = shared_grant(SESSION, &mappings, buffer, GPUB_READ), *after;
	struct mapping *mapping = before->mapping;
	uint64_t serial = buffer->serial;

	(void)state;
	registry_rename(&registry, buffer, "b");
	after = shared_grant(SESSION, &mappings, buffer, GPUB_READ);
	assert_ptr_not_equal(before, after);
	assert_ptr_equal(after->mapping, mapping);
	assert_int_equal(buffer->grant_count, 2);
	assert_ptr_equal(mapping_find_grant(mapping, serial), before);
	assert_ptr_equal(mapping_find_grant(mapping, buffer->serial), after);
	assert_true(grant_quiesced(&registry, before));
	assert_null(mapping_find_grant(mapping, serial));
	assert_ptr_equal(mapping_find_grant(mapping, buffer->serial), after);
	registry_unlink(&registry, buffer);
	assert_int_equal(releases, 0);
	mapping_end(&registry, mapping);
	assert_int_equal(releases, 1);
}

/* ---- who writes ---- */

static void test_a_session_writes_what_it_asked_to_write(void **state)
{
	struct buffer *buffer = live("a");
	struct grant *own = shared_grant(SESSION, &mappings, buffer, GPUB_READ | GPUB_WRITE);
	struct grant *other = shared_grant(OTHER_SESSION, &other_mappings, buffer, GPUB_READ);

	(void)state;
	assert_int_equal(buffer->writers, 1);
	assert_false(grants_others_write(&mappings, buffer));
	assert_true(grants_others_write(&other_mappings, buffer));
	assert_ptr_equal(grants_find_writer(&other_mappings, buffer), own);
	grant_add_rights(&registry, other, GPUB_WRITE);
	assert_true(grants_others_write(&mappings, buffer));
	assert_ptr_equal(grants_find_writer(&mappings, buffer), other);
	mapping_end(&registry, other->mapping);
	assert_false(grants_others_write(&mappings, buffer));
	assert_ptr_equal(grants_find_writer(&mappings, buffer), NULL);
	grants_stop_writing(&registry, &mappings, buffer);
	assert_int_equal(buffer->writers, 0);
	assert_int_equal(own->rights, GPUB_READ);
	mapping_end(&registry, own->mapping);
	registry_unlink(&registry, buffer);
}

/* What a session has by a ticket, or from before a rename, does not end with what it has by the name. */
static void test_a_session_may_write_beside_the_name(void **state)
{
	const struct grant_order redeemed = {
		.session = SESSION, .uid = OWNER, .mappings = &mappings, .rights = GPUB_WRITE, .own = true
	};
	struct buffer *buffer = live("a");
	struct grant *named = shared_grant(SESSION, &mappings, buffer, GPUB_WRITE),
		     *ticket = grant_of(&redeemed, buffer);

	(void)state;
	assert_true(grants_others_write(&mappings, buffer));
	assert_ptr_equal(grants_find_writer(&mappings, buffer), ticket);
	mapping_end(&registry, ticket->mapping);
	assert_false(grants_others_write(&mappings, buffer));
	registry_rename(&registry, buffer, "b");
	assert_true(grants_others_write(&mappings, buffer));
	assert_ptr_equal(grants_find_writer(&mappings, buffer), named);
	mapping_end(&registry, named->mapping);
	registry_unlink(&registry, buffer);
}

static void test_an_orphaned_mapping_may_still_write(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *mapping = mapping_of_other(buffer);

	(void)state;
	grant_add_rights(&registry, mapping->grants, GPUB_WRITE);
	assert_false(mapping_closed(&registry, mapping));
	assert_true(grants_others_write(&mappings, buffer));
	mapping_end(&registry, mapping);
	assert_false(grants_others_write(&mappings, buffer));
	registry_unlink(&registry, buffer);
}

/* One grant of a buffer, however many mappings of before and after a rename are merged into the orphaned one. */
static void invariant_5_orphaned_grants_do_not_accumulate_with_renames(void **state)
{
	struct buffer *buffer = live("a");
	struct mapping *before[] = { mapping_of_other(buffer), mapping_of_other(buffer) }, *after;

	(void)state;
	registry_rename(&registry, buffer, "b");
	after = mapping_of_other(buffer);
	assert_false(mapping_closed(&registry, after));
	assert_int_equal(buffer->grant_count, 3);
	assert_true(mapping_closed(&registry, before[0]));
	assert_int_equal(buffer->grant_count, 2);
	assert_true(mapping_closed(&registry, before[1]));
	assert_int_equal(buffer->grant_count, 1);
	mapping_end(&registry, after);
	assert_int_equal(buffer->grant_count, 0);
	registry_unlink(&registry, buffer);
}

static void invariant_5_an_orphaned_mapping_keeps_one_grant_of_a_buffer(void **state)
{
	const struct grant_order other = {
		.session = OTHER_SESSION, .uid = HEIR, .mappings = &other_mappings, .rights = GPUB_READ
	};
	struct buffer *buffer = live("a");
	struct mapping *mapping = grant_of(&other, buffer)->mapping;

	(void)state;
	registry_rename(&registry, buffer, "b");
	assert_ptr_equal(grant_of(&other, buffer)->mapping, mapping);
	assert_int_equal(buffer->grant_count, 2);
	assert_false(mapping_closed(&registry, mapping));
	assert_int_equal(buffer->grant_count, 1);
	assert_int_equal(buffer->orphaned, 1);
	registry_unlink(&registry, buffer);
	assert_int_equal(releases, 0);
	mapping_end(&registry, mapping);
	assert_int_equal(releases, 1);
}

static void test_nobody_may_write_a_sealed_buffer(void **state)
{
	struct identity root = { .uid = 0 }, owner = { .uid = OWNER };
	struct buffer *buffer = live("a");

	(void)state;
	buffer->mode = 0600;
	assert_int_equal(buffer_rights(buffer, &owner), GPUB_READ | GPUB_WRITE);
	buffer->flags |= GPUB_SEALED;
	assert_int_equal(buffer_rights(buffer, &owner), GPUB_READ);
	assert_int_equal(buffer_rights(buffer, &root), GPUB_READ);
	registry_unlink(&registry, buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_8_a_renamed_buffer_is_found_by_its_new_name_and_serial),
		ON(test_a_pass_tells_of_several_buffers),
		ON(invariant_5_a_grant_is_told_of_a_rename_once),
		ON(invariant_2_memory_waits_for_the_grants_of_both_serials),
		ON(test_a_session_writes_what_it_asked_to_write),
		ON(test_a_session_may_write_beside_the_name),
		ON(test_an_orphaned_mapping_may_still_write),
		ON(invariant_5_orphaned_grants_do_not_accumulate_with_renames),
		ON(invariant_5_an_orphaned_mapping_keeps_one_grant_of_a_buffer),
		ON(test_nobody_may_write_a_sealed_buffer),
	};

	return cmocka_run_group_tests_name("registry, renames", tests, NULL, NULL);
}
