/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-registry-random.c - 100,000 random operations against an oracle that is too simple to be wrong: each buffer has
 * an allocation of its own. registry-harness.h is the world; test-registry-shared-random.c is about memory that buffers
 * share.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "registry-harness.h"

/* What the oracle knows of a buffer, by name b0 .. b7 in up to 8 places. */
struct fact {
	struct buffer *buffer;
	uint64_t       serial;
	bool           is_ready, unlinked;
	unsigned       open;
	struct mapping *orphaned; /* the other session's, which closed it and is not trusted */
};

struct orphaned {
	struct mapping *mapping;
	struct fact    *fact;
	uint64_t        id;
	bool            is_others;
};

static struct fact facts[BUFFERS];
static struct orphaned orphans[HANDLES];
static unsigned seed;

static unsigned pick(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static struct fact *fact_named(const char *name)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].buffer && !facts[i].unlinked && !strcmp(facts[i].buffer->name, name))
			return &facts[i];
	return NULL;
}

static struct fact *fact_unused(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (!facts[i].buffer)
			return &facts[i];
	return NULL;
}

static void do_reserve(void)
{
	struct fact *fact = fact_unused();
	struct buffer *buffer = NULL;
	char name[] = { 'b', (char)('0' + pick(BUFFERS)), 0 };
	int error = reserve(name, &buffer);

	assert_int_equal(error, fact_named(name) ? -EEXIST : fact ? 0 : -EDQUOT);
	if (!error)
		*fact = (struct fact){ .buffer = buffer, .serial = buffer->serial };
}

static void do_ready_or_abandon(struct fact *fact)
{
	if (!fact->buffer || fact->is_ready)
		return;
	if (pick(4)) {
		ready(fact->buffer);
		fact->is_ready = true;
	} else {
		registry_abandon(&registry, fact->buffer);
		fact->buffer = NULL;
	}
}

static void do_unlink(struct fact *fact)
{
	if (!fact->buffer || !fact->is_ready || fact->unlinked)
		return;
	notices = 0;
	fact->unlinked = true;
	registry_unlink(&registry, fact->buffer);
	assert_int_equal(notices, fact->open); /* one each, and none for orphaned mappings */
}

static void do_mapping(struct fact *fact)
{
	struct mapping *mapping = NULL;
	bool is_others = pick(2);
	unsigned at = 0;
	int error;

	if (!fact->buffer || !fact->is_ready || fact->unlinked)
		return;
	while (at < HANDLES && orphans[at].mapping)
		at++;
	error = is_others ? mapping_try(OTHER_SESSION, HEIR, &other_mappings, fact->buffer, &mapping) :
			    mapping_try(SESSION, OWNER, &mappings, fact->buffer, &mapping);
	assert_int_equal(error, at < HANDLES ? 0 : -ENOSPC);
	if (error)
		return;
	orphans[at] = (struct orphaned){ mapping, fact, mapping->id, is_others };
	fact->open++;
}

static void do_close(struct orphaned *orphaned)
{
	struct session_mappings *table = orphaned->is_others ? &other_mappings : &mappings;
	bool is_over;

	if (!orphaned->mapping)
		return;
	is_over = !orphaned->is_others || orphaned->fact->orphaned;
	assert_ptr_equal(mappings_find(table, orphaned->id), orphaned->mapping);
	orphaned->fact->open--;
	if (!is_over)
		orphaned->fact->orphaned = orphaned->mapping;
	assert_int_equal(mapping_closed(&registry, orphaned->mapping), is_over);
	orphaned->mapping = NULL;
	assert_null(mappings_find(table, orphaned->id));
}

/* The other session's process: all its mappings, open or orphaned, end. */
static void do_die(void)
{
	for (unsigned i = 0; i < HANDLES; i++) {
		if (!orphans[i].mapping || !orphans[i].is_others)
			continue;
		orphans[i].fact->open--;
		mapping_end(&registry, orphans[i].mapping);
		orphans[i].mapping = NULL;
	}
	for (unsigned i = 0; i < BUFFERS; i++) {
		struct mapping *orphaned = facts[i].orphaned;

		facts[i].orphaned = NULL;
		if (orphaned)
			mapping_end(&registry, orphaned);
	}
	assert_null(other_mappings.by_id);
}

static void do_released(void)
{
	struct allocation *allocation;

	if (!releases)
		return;
	allocation = releasing[--releases];
	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].buffer == allocation->buffers)
			facts[i].buffer = NULL;
	released(allocation);
}

static bool is_releasing(const struct allocation *allocation)
{
	for (unsigned i = 0; i < releases; i++)
		if (releasing[i] == allocation)
			return true;
	return false;
}

static void expect_fact(const struct fact *fact)
{
	enum board_state state = !fact->is_ready ? BOARD_FREE : fact->unlinked ? BOARD_DRAINING : BOARD_LIVE;

	assert_true(fact->buffer->serial == fact->serial);
	assert_int_equal(fact->buffer->allocation->open, fact->open + (fact->orphaned != NULL));
	assert_int_equal(fact->buffer->allocation->orphaned, fact->orphaned != NULL);
	assert_int_equal(words[fact->buffer->place] & 3, state);
	if (fact->is_ready)
		expect_word(fact->buffer, state);
	/* invariant 2, both ways: freed as soon as it may be, and never before */
	assert_int_equal(is_releasing(fact->buffer->allocation), fact->unlinked && !fact->open && !fact->orphaned);
}

static void expect_registry(void)
{
	unsigned buffers = 0, open = 0, orphaned = 0;

	for (unsigned i = 0; i < BUFFERS; i++) {
		if (!facts[i].buffer)
			continue;
		expect_fact(&facts[i]);
		buffers++;
		open += facts[i].open;
		orphaned += facts[i].orphaned != NULL;
	}
	assert_int_equal(registry.buffer_count, buffers);
	assert_int_equal(registry.mapping_count, open);
	assert_true(memory.bytes == buffers * (uint64_t)SPAN);
	assert_true(used(RESOURCE_BYTES) == memory.bytes);
	assert_true(used(RESOURCE_BUFFERS) == buffers);
	assert_true(used(RESOURCE_GRANTS) + used_by(HEIR, RESOURCE_GRANTS) == open + orphaned);
	assert_int_equal(registry.handles.free, HANDLES - open);
	assert_int_equal(registry.words.free, BUFFERS - buffers);
}

static void do_something(void)
{
	switch (pick(50) ? pick(7) : 7) {
	case 0:
		do_reserve();
		break;
	case 1:
		do_ready_or_abandon(&facts[pick(BUFFERS)]);
		break;
	case 2:
		do_unlink(&facts[pick(BUFFERS)]);
		break;
	case 3:
	case 4:
		do_mapping(&facts[pick(BUFFERS)]);
		break;
	case 5:
		do_close(&orphans[pick(HANDLES)]);
		break;
	case 7:
		do_die();
		break;
	default:
		do_released();
	}
}

static void invariant_2_random_operations_match_an_oracle(void **state)
{
	(void)state;
	seed = 20240501;
	memset(facts, 0, sizeof facts);
	memset(orphans, 0, sizeof orphans);
	for (int i = 0; i < 100000; i++) {
		do_something();
		expect_registry();
	}
	for (unsigned i = 0; i < BUFFERS; i++) {
		do_ready_or_abandon(&facts[i]);
		do_unlink(&facts[i]);
	}
	for (unsigned i = 0; i < HANDLES; i++)
		do_close(&orphans[i]);
	do_die();
	while (releases)
		do_released();
	expect_registry();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_2_random_operations_match_an_oracle),
	};

	return cmocka_run_group_tests_name("random operations", tests, NULL, NULL);
}
