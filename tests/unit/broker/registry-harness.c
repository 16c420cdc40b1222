/* SPDX-License-Identifier: Apache-2.0 */
/* registry-harness.c - see registry-harness.h */
#include "registry-harness.h"

#include <stdlib.h>
#include <string.h>

#include "broker/users/identity.h"

_Atomic uint64_t words[BUFFERS];
struct accounting accounting;
struct memory memory;
struct registry registry;
struct session_mappings mappings, other_mappings;
struct allocation *releasing[BUFFERS];
unsigned releases, notices;
uint64_t noticed[HANDLES];

static void on_notice(void *context, struct mapping *mapping, uint64_t serial)
{
	assert_ptr_equal(context, &registry);
	assert_true(notices < HANDLES);
	assert_non_null(mapping_find_grant(mapping, serial));
	noticed[notices++] = mapping->id;
}

/* No grant ends before its mapping, so the memory always goes with the last of them. */
static bool on_clean(void *context, struct allocation *allocation, uint32_t range, uint64_t serial)
{
	(void)context, (void)allocation, (void)range, (void)serial;
	fail();
	return false;
}

static void on_release(void *context, struct allocation *allocation)
{
	assert_ptr_equal(context, &memory);
	assert_int_equal(allocation->named, 0);
	assert_int_equal(allocation->open, 0);
	assert_int_equal(allocation->grant_count, 0);
	assert_null(allocation->mappings);
	for (unsigned i = 0; i < releases; i++)
		assert_ptr_not_equal(releasing[i], allocation);
	assert_true(releases < BUFFERS);
	releasing[releases++] = allocation;
}

int setup(void **state)
{
	static const struct registry_hooks hooks = { on_notice, NULL };
	static const struct memory_orders orders = { on_clean, on_release, &memory };

	(void)state;
	releases = notices = 0;
	mappings = other_mappings = (struct session_mappings){ 0 };
	memset((void *)words, 0, sizeof words);
	accounting_init(&accounting);
	memory_init(&memory, &accounting, &orders);
	return registry_init(&registry, &memory, words, BUFFERS, HANDLES, &hooks, &registry);
}

void released(struct allocation *allocation)
{
	struct buffer *buffers = registry_released(&registry, allocation);

	while (registry_forget(&registry, &buffers))
		;
	allocation_free(NULL, allocation);
}

/* The device thread has freed all that it was told to. */
void release_all(void)
{
	while (releases)
		released(releasing[--releases]);
}

/* Every test ends with an empty registry: nothing is charged, no place is taken, no word is live. */
int teardown(void **state)
{
	int wrong;

	(void)state;
	release_all();
	wrong = !registry_empty(&registry) || registry.buffer_count || registry.mapping_count || memory.bytes ||
		registry.names || registry.words.free != BUFFERS || registry.handles.free != HANDLES ||
		accounting.accounts;
	for (unsigned i = 0; i < BUFFERS; i++)
		wrong |= (words[i] & 3) != BOARD_FREE;
	mappings_free(&registry, &mappings);
	mappings_free(&registry, &other_mappings);
	registry_deinit(&registry);
	memory_deinit(&memory);
	accounting_deinit(&accounting);
	return wrong;
}

/* ---- shorthands ---- */

int reserve(const char *name, struct buffer **buffer)
{
	struct buffer_spec spec = { .name = name, .size = 100, .span = SPAN, .owner = OWNER, .mode = 0600 };

	return registry_reserve(&registry, &spec, buffer);
}

void ready(struct buffer *buffer)
{
	memset(&buffer->allocation->handle, 0x55, sizeof buffer->allocation->handle);
	registry_live(&registry, buffer);
}

struct buffer *live(const char *name)
{
	struct buffer *buffer = NULL;

	assert_int_equal(reserve(name, &buffer), 0);
	ready(buffer);
	return buffer;
}

int mapping_try(struct session *session, uid_t uid, struct session_mappings *table, struct buffer *buffer,
		struct mapping **mapping)
{
	struct grant_order order = {
		.session = session, .uid = uid, .mappings = table, .rights = GPUB_READ, .own = true
	};
	struct grant *grant;
	bool fresh;
	int error = grant_open(&registry, buffer, &order, &grant, &fresh);

	if (error)
		return error;
	assert_true(fresh);
	assert_ptr_equal(grant->buffer, buffer);
	*mapping = grant->mapping;
	return 0;
}

struct mapping *mapping_to(struct session_mappings *table, struct buffer *buffer)
{
	struct mapping *mapping = NULL;

	assert_int_equal(mapping_try(SESSION, OWNER, table, buffer, &mapping), 0);
	return mapping;
}

uint64_t used(enum resource resource)
{
	return accounting_used(&accounting, OWNER, resource);
}

void expect_word(const struct buffer *buffer, enum board_state state)
{
	assert_true(words[buffer->place] == BOARD_WORD(buffer->serial, state));
}

uint64_t used_by(uid_t uid, enum resource resource)
{
	return accounting_used(&accounting, uid, resource);
}

struct mapping *mapping_of_other(struct buffer *buffer)
{
	struct mapping *mapping = NULL;

	assert_int_equal(mapping_try(OTHER_SESSION, HEIR, &other_mappings, buffer, &mapping), 0);
	return mapping;
}
