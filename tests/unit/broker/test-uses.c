/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-uses.c - the books of memory that several buffers share: who may share, who uses what under which grant, and that
 * a range serves the next buffer after it was cleaned and never before.
 *
 * As in test-registry.c the hooks are the world, and note what they are told; the device that cleans and frees is the
 * test. An allocation has four ranges here. The last test runs 100,000 random operations against an oracle that keeps a
 * table of all memory and what was ever written to it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/registry/grants.h"
#include "broker/users/identity.h"
#include "broker/registry/registry.h"
#include "common/board.h"
#include "common/error.h"

#define BUFFERS  16u
#define TICKETS  16u
#define RANGES   4u
#define RANGE    256u
#define SPAN     (RANGES * RANGE)
#define OWNER    1000
#define STRANGER 1001
#define SESSIONS 3u /* two of the owner's, one of a stranger's */
#define THEIRS   2u

#define MANY 64u

struct notice {
	uint64_t grant, serial;
};

struct cleaning {
	struct allocation *allocation;
	uint32_t           range;
};

static _Atomic uint64_t words[BUFFERS];
static struct accounting accounting;
static struct registry registry;
static struct grants grants[SESSIONS];
static struct notice notices[MANY];
static struct cleaning cleanings[MANY];       /* told to the hook, not yet done */
static struct allocation *releasing[BUFFERS]; /* the same */
static uint64_t overs[MANY];                  /* serials */
static unsigned notice_count, clean_count, release_count, over_count;
static bool can_clean;
static void (*and_over)(const struct buffer *buffer); /* the oracle's */

/* ---- the hooks ---- */

static void on_notice(void *context, struct grant *grant, uint64_t serial)
{
	assert_ptr_equal(context, &registry);
	assert_false(grant->held);
	assert_true(notice_count < MANY);
	notices[notice_count++] = (struct notice){ grant->id, serial };
}

static void expect_over(const struct buffer *buffer)
{
	assert_int_equal(buffer->state, BUFFER_DRAINING);
	assert_int_equal(buffer->used, 0);
	assert_null(buffer->uses);
	if (and_over)
		and_over(buffer);
	else
		overs[over_count++ % MANY] = buffer->serial;
}

static bool on_clean(void *context, struct buffer *buffer, uint32_t range)
{
	struct allocation *allocation = buffer->allocation;

	assert_ptr_equal(context, &registry);
	expect_over(buffer);
	assert_true(range < RANGES && clean_count < MANY);
	for (unsigned i = 0; i < clean_count; i++)
		assert_false(cleanings[i].allocation == allocation && cleanings[i].range == range);
	if (can_clean)
		cleanings[clean_count++] = (struct cleaning){ allocation, range };
	return can_clean;
}

static void on_release(void *context, struct allocation *allocation)
{
	assert_ptr_equal(context, &registry);
	assert_true(!allocation->named && !allocation->open && !allocation->used && !allocation->grants);
	for (unsigned i = 0; i < clean_count; i++)
		assert_ptr_not_equal(cleanings[i].allocation, allocation);
	for (unsigned i = 0; i < release_count; i++)
		assert_ptr_not_equal(releasing[i], allocation);
	assert_true(release_count < BUFFERS);
	releasing[release_count++] = allocation;
}

static int setup(void **state)
{
	static const struct registry_hooks hooks = { on_notice, on_clean, on_release, NULL };
	int error;

	(void)state;
	notice_count = clean_count = release_count = over_count = 0;
	can_clean = true;
	and_over = NULL;
	memset(grants, 0, sizeof grants);
	memset((void *)words, 0, sizeof words);
	accounting_init(&accounting);
	error = registry_init(&registry, words, BUFFERS, TICKETS, &accounting, &hooks, &registry);
	registry.usages.limit = 4 * SPAN;
	return error;
}

/* The device has done the oldest that it was told to clean. */
static void clean_one(int error)
{
	struct cleaning first = cleanings[0];

	assert_true(clean_count > 0);
	memmove(cleanings, cleanings + 1, --clean_count * sizeof *cleanings);
	registry_cleaned(&registry, first.allocation, first.range, error);
}

static void released(struct allocation *allocation)
{
	registry_released(&registry, allocation);
	allocation_free(allocation);
}

static void device_works(void)
{
	while (clean_count)
		clean_one(0);
	while (release_count)
		released(releasing[--release_count]);
}

/* Every test ends with empty books. */
static int teardown(void **state)
{
	int wrong;

	(void)state;
	device_works();
	wrong = !registry_empty(&registry) || registry.buffer_count || registry.grant_count || registry.bytes ||
		registry.names || registry.serials || registry.usages.by_key || registry.usages.bytes[0][SPARE_IDLE] || registry.slabs.shelves ||
		registry.words.free != BUFFERS || registry.tickets.free != TICKETS || accounting.accounts;
	for (unsigned i = 0; i < BUFFERS; i++)
		wrong |= (words[i] & 3) != BOARD_FREE;
	for (unsigned i = 0; i < SESSIONS; i++)
		grants_forget(&registry, &grants[i]);
	registry_deinit(&registry);
	accounting_deinit(&accounting);
	return wrong;
}

/* ---- short words ---- */

static struct buffer_spec spec_of(const char *name)
{
	return (struct buffer_spec){ .name = name,
				     .size = 100,
				     .span = SPAN,
				     .range = RANGE,
				     .owner = OWNER,
				     .group = 7,
				     .mode = 0600 };
}

static void ready(struct buffer *buffer)
{
	if (allocation_is_made(buffer->allocation))
		registry_live(&registry, buffer);
	else
		registry_ready(&registry, buffer);
}

static struct buffer *live_of(struct buffer_spec spec)
{
	struct buffer *buffer = NULL;

	assert_int_equal(registry_reserve(&registry, &spec, &buffer), 0);
	ready(buffer);
	return buffer;
}

static struct buffer *live(const char *name)
{
	return live_of(spec_of(name));
}

static uid_t uid_of(unsigned session)
{
	return session == THEIRS ? STRANGER : OWNER;
}

static struct grant_order order_of(unsigned session)
{
	return (struct grant_order){ .session = (struct session *)(uintptr_t)(0x1000 + session),
				     .uid = uid_of(session),
				     .grants = &grants[session],
				     .rights = GPUB_READ };
}

static struct use *use_by(const struct grant_order *order, struct buffer *buffer, bool fresh_expected)
{
	struct use *use = NULL;
	bool fresh = !fresh_expected;

	assert_int_equal(grant_open(&registry, buffer, order, &use, &fresh), 0);
	assert_int_equal(fresh, fresh_expected);
	assert_ptr_equal(use->buffer, buffer);
	return use;
}

/* A use with the first grant of that session on the allocation; and with the one that it has. */
static struct use *use_first(unsigned session, struct buffer *buffer)
{
	struct grant_order order = order_of(session);

	return use_by(&order, buffer, true);
}

static struct use *use_again(unsigned session, struct buffer *buffer)
{
	struct grant_order order = order_of(session);

	return use_by(&order, buffer, false);
}

static void unlink_all(struct buffer **buffers, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		registry_unlink(&registry, buffers[i]);
}

static int part(struct buffer *buffer)
{
	int error = registry_may_part(buffer);

	if (!error)
		registry_part(&registry, buffer);
	return error;
}

static uint64_t used(enum resource resource)
{
	return accounting_used(&accounting, OWNER, resource);
}

static void expect_notice(unsigned i, const struct grant *grant, uint64_t serial)
{
	assert_true(i < notice_count);
	assert_true(notices[i].grant == grant->id && notices[i].serial == serial);
}

static uint32_t range_of(const struct buffer *buffer)
{
	return (uint32_t)(buffer->offset / RANGE);
}

/* Four buffers that fill one allocation. */
static void fill(struct buffer *buffers[RANGES])
{
	static const char *const names[RANGES] = { "a", "b", "c", "d" };

	for (unsigned i = 0; i < RANGES; i++)
		buffers[i] = live(names[i]);
}

/* ---- who shares ---- */

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
	specs[5].flags = GPUB_ALONE;
	for (int i = 0; i < 6; i++) {
		other[i] = live_of(specs[i]);
		assert_ptr_not_equal(other[i]->allocation, first->allocation);
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(other[i]->allocation, other[j]->allocation);
	}
	unlink_all(other, 6);
	registry_unlink(&registry, first);
}

/* Neither does it join, nor does anybody join it. */
static void invariant_6_who_is_alone_stays_alone(void **state)
{
	struct buffer_spec spec = spec_of("alone");
	struct buffer *buffers[4];

	(void)state;
	buffers[0] = live("a");
	spec.flags = GPUB_ALONE;
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

/* What is not made yet, may never be. */
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
	/* a buffer that is over costs nothing, and its place in the memory that is paid for is free */
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

/* ---- one grant a session and allocation ---- */

static void test_a_second_acquire_gets_the_same_grant(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *first = use_first(0, a), *same = use_again(0, a), *second = use_again(0, b);
	struct grant *grant = first->grant;

	(void)state;
	assert_ptr_equal(same, first);
	assert_ptr_not_equal(second, first);
	assert_ptr_equal(second->grant, grant);
	assert_int_equal(registry.grant_count, 1);
	assert_int_equal(registry.tickets.free, TICKETS - 1);
	assert_int_equal(a->allocation->open, 1);
	assert_int_equal(a->allocation->used, 2);
	assert_int_equal(a->used, 1);
	grant_over(&registry, grant);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
}

static void test_each_session_and_each_device_has_its_own_grant(void **state)
{
	struct buffer *a = live("a");
	struct grant_order there = order_of(0);
	struct grant *grant[3];

	(void)state;
	there.device = 1;
	grant[0] = use_first(0, a)->grant;
	grant[1] = use_first(1, a)->grant;
	grant[2] = use_by(&there, a, true)->grant;
	assert_int_equal(grant[2]->device, 1);
	assert_ptr_equal(use_by(&there, a, false)->grant, grant[2]);
	assert_ptr_equal(use_again(0, a)->grant, grant[0]);
	assert_int_equal(a->used, 3);
	registry_unlink(&registry, a);
	grant_over(&registry, grant[2]);
	grant_over(&registry, grant[1]);
	grant_over(&registry, grant[0]);
}

/* What a redeemed ticket bought ends with nothing else, and nothing else comes to it. */
static void test_a_grant_of_its_own_is_shared_with_none(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant_order own = order_of(0);
	struct grant *grant[3];

	(void)state;
	own.own = true;
	grant[0] = use_by(&own, a, true)->grant;
	grant[1] = use_first(0, a)->grant;
	grant[2] = use_by(&own, a, true)->grant;
	assert_ptr_equal(use_again(0, b)->grant, grant[1]);
	assert_int_equal(a->used, 3);
	assert_true(used(RESOURCE_GRANTS) == 4);
	grant_over(&registry, grant[1]);
	assert_int_equal(a->used, 2);
	assert_int_equal(b->used, 0);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	clean_one(0);
	assert_int_equal(release_count, 0);
	grant_over(&registry, grant[0]);
	assert_int_equal(release_count, 0);
	grant_over(&registry, grant[2]);
	assert_int_equal(release_count, 1);
}

/* The mode may have changed since. */
static void test_an_acquire_has_the_rights_of_now(void **state)
{
	struct buffer *a = live("a");
	struct grant_order order = order_of(0);
	struct use *use = use_first(0, a);

	(void)state;
	assert_int_equal(use->rights, GPUB_READ);
	order.rights = GPUB_READ | GPUB_WRITE;
	use_by(&order, a, false);
	assert_int_equal(use->rights, GPUB_READ | GPUB_WRITE);
	registry_unlink(&registry, a);
	grant_over(&registry, use->grant);
}

static void test_grants_are_charged_for_each_use(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant_order order = order_of(0);
	struct use *first, *second, *use = NULL;
	bool fresh;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 2;
	first = use_first(0, a);
	use_again(0, a);
	second = use_again(0, b);
	assert_true(used(RESOURCE_GRANTS) == 2);
	assert_int_equal(grant_open(&registry, c, &order, &use, &fresh), -EDQUOT);
	assert_null(use);
	assert_int_equal(c->used, 0);
	/* also for the first of an allocation, which then has no grant of it */
	order.device = 1;
	assert_int_equal(grant_open(&registry, c, &order, &use, &fresh), -EDQUOT);
	assert_int_equal(registry.grant_count, 1);
	assert_true(grant_idle(&registry, second));
	assert_true(used(RESOURCE_GRANTS) == 1);
	use_again(0, c);
	grant_over(&registry, first->grant);
	assert_true(used(RESOURCE_GRANTS) == 0);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	registry_unlink(&registry, c);
}

/* ---- notices ---- */

static void test_a_notice_goes_to_uses_of_that_buffer_only(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant *mine = use_first(0, a)->grant, *others = use_first(1, b)->grant, *held = use_first(THEIRS, a)->grant;

	(void)state;
	assert_false(grant_closed(&registry, held));
	registry_unlink(&registry, a);
	assert_int_equal(notice_count, 1);
	expect_notice(0, mine, a->serial);
	registry_unlink(&registry, b);
	assert_int_equal(notice_count, 2);
	expect_notice(1, others, b->serial);
	grant_over(&registry, mine);
	grant_over(&registry, others);
	grant_over(&registry, held);
}

/* ---- IDLE ---- */

static void test_an_idle_ends_one_use_and_not_the_grant(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *of_a = use_first(0, a), *of_b = use_again(0, b);
	struct grant *grant = of_a->grant;
	uint64_t serial = a->serial;

	(void)state;
	assert_true(grant_idle(&registry, of_a));
	assert_null(grant_find_use(grant, serial)); /* so it cannot be said twice */
	assert_ptr_equal(grant_find_use(grant, b->serial), of_b);
	assert_int_equal(a->used, 0);
	assert_int_equal(b->used, 1);
	assert_ptr_equal(grant_find(&grants[0], grant->id), grant);
	/* it has its name: nothing is over, and it may be used again */
	assert_int_equal(over_count, 0);
	use_again(0, a);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_true(grant_idle(&registry, of_b));
	assert_int_equal(over_count, 1);
	grant_over(&registry, grant);
}

/* What a ticket bought is open until its CLOSED, with its place in the board: so long it is paid for. */
static void test_an_idle_of_a_grant_of_its_own_does_not_refund_it(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct grant_order own = order_of(0);
	struct use *use, *more = NULL;
	struct grant *grant;
	bool fresh;

	(void)state;
	accounting.quotas.fallback.limit[RESOURCE_GRANTS] = 1;
	own.own = true;
	use = use_by(&own, a, true);
	grant = use->grant;
	assert_true(grant_idle(&registry, use));
	assert_int_equal(notice_count, 1);
	expect_notice(0, grant, 0);
	assert_true(used(RESOURCE_GRANTS) == 1);
	assert_ptr_equal(grant_find_use(grant, a->serial), use);
	assert_int_equal(grant_open(&registry, b, &own, &more, &fresh), -EDQUOT);
	/* nor is its range another's before */
	registry_unlink(&registry, a);
	assert_true(grant_idle(&registry, use));
	assert_int_equal(over_count, 0);
	assert_true(used(RESOURCE_GRANTS) == 1);
	grant_over(&registry, grant);
	assert_int_equal(over_count, 1);
	assert_true(used(RESOURCE_GRANTS) == 0);
	registry_unlink(&registry, b);
}

static void invariant_3_another_sessions_use_is_not_found(void **state)
{
	struct buffer *a = live("a");
	struct grant *mine = use_first(0, a)->grant, *others = use_first(1, a)->grant;

	(void)state;
	assert_null(grant_find(&grants[1], mine->id));
	assert_ptr_equal(grant_find_use(mine, a->serial)->grant, mine);
	assert_ptr_equal(grant_find_use(others, a->serial)->grant, others);
	grant_over(&registry, mine);
	assert_int_equal(a->used, 1);
	grant_over(&registry, others);
	registry_unlink(&registry, a);
}

static void expect_not_believed(struct use *use)
{
	struct buffer *buffer = use->buffer;
	unsigned count = buffer->used;

	assert_false(grant_idle(&registry, use));
	assert_int_equal(buffer->used, count);
	assert_int_equal(over_count, 0);
	assert_int_equal(clean_count, 0);
}

static void invariant_6_a_strangers_idle_is_not_believed(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *theirs = use_first(THEIRS, a);

	(void)state;
	expect_not_believed(theirs);
	registry_unlink(&registry, a);
	expect_not_believed(theirs);
	grant_over(&registry, theirs->grant);
	assert_int_equal(over_count, 1);
	registry_unlink(&registry, b);
}

static void invariant_6_where_nobody_is_believed_no_idle_is(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *use = use_first(0, a);

	(void)state;
	registry.believe = BELIEVE_NOBODY;
	registry_unlink(&registry, a);
	expect_not_believed(use);
	grant_over(&registry, use->grant);
	assert_int_equal(over_count, 1);
	registry_unlink(&registry, b);
}

/* ---- a range's next buffer ---- */

static void invariant_6_a_range_is_cleaned_before_it_serves_again(void **state)
{
	struct buffer *buffers[RANGES], *before, *after;
	struct allocation *allocation;
	struct use *use;
	uint64_t serial, offset;
	uint32_t place;

	(void)state;
	fill(buffers);
	allocation = buffers[2]->allocation;
	serial = buffers[2]->serial;
	offset = buffers[2]->offset;
	place = buffers[2]->place;
	use = use_first(0, buffers[2]);
	registry_unlink(&registry, buffers[2]);
	assert_int_equal(over_count, 0);
	assert_true(words[place] == BOARD_WORD(serial, BOARD_DRAINING));
	assert_true(grant_idle(&registry, use));
	assert_int_equal(over_count, 1);
	assert_true(overs[0] == serial);
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
	/* the one who used the old has nothing of the new */
	assert_null(grant_find_use(grants[0].by_id, after->serial));
	registry_unlink(&registry, buffers[0]);
	registry_unlink(&registry, buffers[1]);
	registry_unlink(&registry, buffers[3]);
	registry_unlink(&registry, after);
	grant_over(&registry, grants[0].by_id);
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
	assert_int_equal(over_count, 1);
	expect_never_reused(buffers, allocation);
}

static void invariant_6_another_sessions_use_keeps_the_range(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *mine = use_first(0, a), *others = use_first(1, a);

	(void)state;
	registry_unlink(&registry, a);
	assert_true(grant_idle(&registry, mine));
	assert_int_equal(over_count + clean_count, 0);
	assert_true(grant_idle(&registry, others));
	assert_int_equal(over_count, 1);
	assert_int_equal(clean_count, 1);
	registry_unlink(&registry, b);
	grant_over(&registry, grants[0].by_id);
	grant_over(&registry, grants[1].by_id);
}

static void test_a_closed_ends_all_uses_of_its_grant(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant *grant = use_first(0, a)->grant, *others = use_first(1, c)->grant;

	(void)state;
	use_again(0, b);
	use_again(0, c);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(over_count, 0);
	assert_true(grant_closed(&registry, grant));
	assert_int_equal(over_count, 2);
	assert_int_equal(clean_count, 2);
	assert_int_equal(c->used, 1);
	assert_int_equal(c->allocation->used, 1);
	assert_true(used(RESOURCE_GRANTS) == 1);
	registry_unlink(&registry, c);
	grant_over(&registry, others);
}

/* Also a stranger's, whose word nobody takes. */
static void invariant_9_a_death_ends_all_uses_of_its_grants(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant *grant = use_first(THEIRS, a)->grant;

	(void)state;
	use_again(THEIRS, b);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_false(grant_closed(&registry, grant));
	assert_int_equal(over_count, 0);
	grant_over(&registry, grant);
	assert_int_equal(over_count, 2);
	registry_unlink(&registry, c);
	assert_int_equal(release_count, 0);
	device_works();
}

/* ---- held ---- */

static void invariant_2_a_held_grant_keeps_its_uses(void **state)
{
	struct buffer *a = live("a"), *b = live("b");
	struct use *use = use_first(THEIRS, a);
	struct grant *held = use->grant;

	(void)state;
	assert_false(grant_closed(&registry, held));
	assert_int_equal(a->used, 1);
	assert_int_equal(a->held, 1);
	/* which cost nothing any more, and cannot be found */
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_GRANTS));
	assert_null(grant_find(&grants[THEIRS], held->id));
	registry_unlink(&registry, a);
	assert_int_equal(over_count, 0);
	grant_over(&registry, held);
	assert_int_equal(over_count, 1);
	registry_unlink(&registry, b);
}

/* The session opens anew, other buffers too, and closes again: one hold has all uses. */
static void invariant_2_merged_holds_keep_all_uses(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");
	struct grant *held = use_first(THEIRS, a)->grant, *second;

	(void)state;
	assert_false(grant_closed(&registry, held));
	second = use_first(THEIRS, a)->grant;
	assert_ptr_not_equal(second, held);
	use_again(THEIRS, b);
	assert_int_equal(a->used, 2);
	assert_int_equal(a->held, 1);
	assert_true(grant_closed(&registry, second));
	assert_int_equal(a->used, 1);
	assert_int_equal(a->held, 1);
	assert_int_equal(b->used, 1);
	assert_int_equal(b->held, 1);
	assert_int_equal(a->allocation->held, 1);
	assert_int_equal(a->allocation->open, 1);
	assert_true(!accounting_used(&accounting, STRANGER, RESOURCE_GRANTS));
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_int_equal(over_count + notice_count, 0);
	grant_over(&registry, held);
	assert_int_equal(over_count, 2);
	registry_unlink(&registry, c);
}

/* ---- memory that is mapped and in which nothing is ---- */

/* A buffer came and went in memory that the session still maps. */
static struct allocation *idle_of(unsigned session, struct buffer_spec spec)
{
	struct buffer *buffer = live_of(spec);
	struct allocation *allocation = buffer->allocation;
	struct use *use = use_first(session, buffer);

	registry_unlink(&registry, buffer);
	assert_true(grant_idle(&registry, use));
	while (clean_count)
		clean_one(0);
	notice_count = over_count = 0;
	return allocation;
}

static struct grant *grant_on(unsigned session, const struct allocation *allocation)
{
	struct grant *grant, *next;

	HASH_ITER(hh, grants[session].by_id, grant, next)
		if (grant->allocation == allocation)
			return grant;
	fail();
	return NULL;
}

static void test_idle_memory_serves_the_same_kind_again(void **state)
{
	struct allocation *allocation = idle_of(0, spec_of("a"));
	struct buffer_spec spec = spec_of("b");
	struct buffer *other, *again;

	(void)state;
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(registry.usages.bytes[0][SPARE_IDLE] == SPAN);
	assert_true(used(RESOURCE_BYTES) == SPAN); /* it is still its owner's */
	spec.mode = 0644;
	other = live_of(spec);
	assert_ptr_not_equal(other->allocation, allocation);
	again = live("c");
	assert_ptr_equal(again->allocation, allocation);
	assert_int_not_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(registry.usages.bytes[0][SPARE_IDLE] == 0);
	/* and whoever maps it need not open it again */
	use_again(0, again);
	registry_unlink(&registry, other);
	registry_unlink(&registry, again);
	grant_over(&registry, grant_on(0, allocation));
}

static void invariant_2_idle_memory_is_freed_with_its_last_grant(void **state)
{
	struct buffer *a = live("a");
	struct allocation *allocation = a->allocation;
	struct use *mine = use_first(0, a), *others = use_first(1, a);

	(void)state;
	registry_unlink(&registry, a);
	grant_idle(&registry, mine);
	grant_idle(&registry, others);
	clean_one(0);
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(grant_closed(&registry, grants[0].by_id));
	assert_int_equal(release_count, 0);
	assert_int_equal(allocation->state, ALLOCATION_IDLE);
	assert_true(grant_closed(&registry, grants[1].by_id));
	assert_int_equal(release_count, 1);
	assert_true(registry.usages.bytes[0][SPARE_IDLE] == 0);
	assert_null(registry.usages.keeping[0]);
	/* nobody takes it any more */
	a = live("b");
	assert_ptr_not_equal(a->allocation, allocation);
	registry_unlink(&registry, a);
}

/* Whoever maps it is asked to close it, but for one who did already; it serves nobody any more. */
static void expect_given_up(struct allocation *allocation, struct grant *grant)
{
	struct buffer *next;

	assert_true(allocation->given_up);
	assert_int_not_equal(allocation->state, ALLOCATION_IDLE);
	expect_notice(notice_count - 1, grant, 0);
	next = live("next");
	assert_ptr_not_equal(next->allocation, allocation);
	registry_unlink(&registry, next);
}

static void test_the_oldest_idle_memory_is_given_up_beyond_the_limit(void **state)
{
	static const char *const names[] = { "a", "b", "c" };
	struct allocation *idle[3];

	(void)state;
	registry.usages.limit = 2 * SPAN;
	for (int i = 0; i < 3; i++) {
		struct buffer_spec spec = spec_of(names[i]);
		struct buffer *buffer;
		struct use *use;

		spec.mode = 0600 + (unsigned)i; /* or each would take the one before */
		buffer = live_of(spec);
		use = use_first(0, buffer);
		idle[i] = buffer->allocation;
		registry_unlink(&registry, buffer);
		notice_count = 0;
		assert_true(grant_idle(&registry, use));
		clean_one(0);
	}
	assert_false(registry_notify(&registry));
	assert_int_equal(notice_count, 1);
	expect_given_up(idle[0], grant_on(0, idle[0]));
	assert_true(idle[1]->state == ALLOCATION_IDLE && idle[2]->state == ALLOCATION_IDLE);
	assert_true(registry.usages.bytes[0][SPARE_IDLE] == 2 * SPAN);
	for (int i = 0; i < 3; i++)
		grant_over(&registry, grant_on(0, idle[i]));
}

/* What is to be freed stays in the books until it is closed: its owner sees whom it waits for. */
static void expect_kept_until_closed(struct buffer *buffer, struct use *use)
{
	struct allocation *allocation = buffer->allocation;
	uint32_t place = buffer->place;
	uint64_t serial = buffer->serial;

	for (unsigned i = 0; i < 2; i++) {
		notice_count = 0;
		assert_true(grant_idle(&registry, use));
		assert_int_equal(over_count + clean_count, 0);
		assert_int_equal(buffer->used, 1);
		assert_true(words[place] == BOARD_WORD(serial, BOARD_DRAINING));
		expect_given_up(allocation, grants[0].by_id);
	}
	assert_true(grant_closed(&registry, grants[0].by_id));
	assert_ptr_equal(releasing[release_count - 1], allocation);
}

/* As with a limit of 0. */
static void test_memory_larger_than_the_limit_is_given_up_at_once(void **state)
{
	struct buffer *a;
	struct use *use;

	(void)state;
	registry.usages.limit = SPAN - 1;
	a = live("a");
	use = use_first(0, a);
	registry_unlink(&registry, a);
	expect_kept_until_closed(a, use);
}

static void test_memory_of_one_alone_is_given_up_at_once(void **state)
{
	struct buffer_spec spec = spec_of("a");
	struct buffer *a;
	struct use *use;

	(void)state;
	spec.flags = GPUB_ALONE;
	a = live_of(spec);
	use = use_first(0, a);
	registry_unlink(&registry, a);
	expect_kept_until_closed(a, use);
}

/* Its uses ended while it had its name; who maps it yet is asked by the unlink. */
static void test_what_nobody_uses_is_given_up_by_its_unlink(void **state)
{
	struct buffer *a;
	struct allocation *allocation;

	(void)state;
	registry.usages.limit = 0;
	a = live("a");
	allocation = a->allocation;
	assert_true(grant_idle(&registry, use_first(0, a)));
	assert_int_equal(notice_count, 0);
	registry_unlink(&registry, a);
	assert_int_equal(over_count + clean_count, 0);
	expect_given_up(allocation, grants[0].by_id);
	grant_over(&registry, grants[0].by_id);
}

/* Others are in it, so that its range may serve again, whatever the limit is. */
static void test_beside_others_a_range_serves_again_without_a_limit_for_idle_memory(void **state)
{
	struct buffer *a, *b;
	struct use *use;

	(void)state;
	registry.usages.limit = 0;
	a = live("a");
	b = live("b");
	use = use_first(0, a);
	registry_unlink(&registry, a);
	assert_true(grant_idle(&registry, use));
	assert_int_equal(over_count, 1);
	assert_int_equal(clean_count, 1);
	assert_int_equal(notice_count, 1); /* that of the unlink */
	clean_one(0);
	registry_unlink(&registry, b);
	assert_int_equal(over_count, 1);
	expect_notice(1, grants[0].by_id, 0);
	grant_over(&registry, grants[0].by_id);
	assert_int_equal(release_count, 1);
}

/* The device finishes a range of it when nobody is to have that any more. */
static void test_a_range_of_given_up_memory_serves_nobody(void **state)
{
	struct allocation *allocation;
	struct buffer *a, *b;
	struct use *use;

	(void)state;
	registry.usages.limit = 0;
	a = live("a");
	b = live("b");
	allocation = a->allocation;
	use = use_first(0, b);
	registry_unlink(&registry, a);
	registry_unlink(&registry, b);
	assert_true(grant_idle(&registry, use));
	assert_int_equal(clean_count, 1);
	clean_one(0);
	expect_given_up(allocation, grants[0].by_id);
	grant_over(&registry, grants[0].by_id);
	assert_int_equal(release_count, 2); /* the one that was next, and this */
}

/* Memory of which no range could be cleaned is good for nobody. */
static void test_memory_without_a_clean_range_is_given_up(void **state)
{
	struct buffer *buffers[RANGES];
	struct allocation *allocation;

	(void)state;
	fill(buffers);
	allocation = buffers[0]->allocation;
	can_clean = false;
	use_first(0, buffers[0]);
	registry_unlink(&registry, buffers[0]);
	assert_true(grant_idle(&registry, grants[0].by_id->uses));
	unlink_all(buffers + 1, RANGES - 1);
	can_clean = true;
	expect_given_up(allocation, grants[0].by_id);
	grant_over(&registry, grants[0].by_id);
}

static void test_idle_memory_is_given_up_when_it_is_wanted_back(void **state)
{
	struct buffer_spec strangers = spec_of("b"), there = spec_of("c");
	struct allocation *idle[3];

	(void)state;
	strangers.owner = STRANGER;
	there.device = 1;
	idle[0] = idle_of(0, spec_of("a"));
	idle[1] = idle_of(THEIRS, strangers);
	idle[2] = idle_of(0, there);
	usages_reclaim(&registry.usages, 0, OWNER, SPARE_IDLE, 1);
	/* they may be many: who maps them is asked in the passes behind this */
	assert_int_equal(notice_count, 0);
	assert_false(registry_notify(&registry));
	assert_int_equal(notice_count, 1);
	expect_given_up(idle[0], grant_on(0, idle[0]));
	assert_true(idle[1]->state == ALLOCATION_IDLE && idle[2]->state == ALLOCATION_IDLE);
	usages_reclaim(&registry.usages, 0, OWNER, SPARE_IDLE, SPAN);
	assert_false(registry_notify(&registry));
	assert_int_equal(notice_count, 2);
	expect_notice(1, grants[THEIRS].by_id, 0);
	assert_true(idle[1]->given_up && idle[2]->state == ALLOCATION_IDLE);
	/* not twice */
	usages_reclaim(&registry.usages, 0, OWNER, SPARE_IDLE, SPAN);
	assert_false(registry_notify(&registry));
	assert_int_equal(notice_count, 2);
	usages_reclaim(&registry.usages, 1, OWNER, SPARE_IDLE, SPAN);
	grant_over(&registry, grant_on(0, idle[0]));
	grant_over(&registry, grant_on(0, idle[2]));
	grant_over(&registry, grants[THEIRS].by_id);
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

/* It waits for the device alone to be freed; were a newcomer let in, the last buffer's end would wait for that. */
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

/* A broker that goes while grants are open forgets them, and tells nobody to free. */
static void test_deinit_forgets_uses_of_all_states(void **state)
{
	struct buffer *a = live("a"), *b = live("b"), *c = live("c");

	(void)state;
	use_first(0, a);
	use_again(0, b);
	use_first(THEIRS, b);
	assert_false(grant_closed(&registry, grants[THEIRS].by_id));
	registry_unlink(&registry, b);
	registry_unlink(&registry, c);
	idle_of(1, (struct buffer_spec){ .name = "d", .size = 1, .span = SPAN, .range = RANGE, .owner = OWNER });
	for (unsigned i = 0; i < SESSIONS; i++)
		grants_forget(&registry, &grants[i]);
	registry_deinit(&registry);
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

/* Its strangers may have it mapped for ever. */
static void invariant_6_what_others_mapped_serves_nobody_else(void **state)
{
	struct buffer *a = live("a");
	struct use *use = use_first(0, a);

	(void)state;
	assert_int_equal(part(a), 0);
	registry_unlink(&registry, a);
	expect_kept_until_closed(a, use);
}

/* ---- against an oracle ---- */

#define MEMORIES 64u
#define RIGHTS   64u
#define ALL      UINT32_MAX

/* What the oracle knows of an allocation. A range is dirty from when a buffer in it is LIVE until the device cleaned it. */
struct memory {
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
	struct memory *memory;
	uint32_t       range;
};

/* Of a grant: the places of the buffers that it uses are bits. */
struct right {
	struct grant  *grant; /* NULL: none */
	uint64_t       id;
	unsigned       session;
	struct memory *memory;
	bool           is_own, is_held;
	bool           is_asked; /* to close */
	uint32_t       uses;
};

static struct memory memories[MEMORIES];
static struct fact facts[BUFFERS];
static struct right rights[RIGHTS];
static unsigned seed;

static const struct {
	uid_t    owner;
	unsigned mode, flags;
} kinds[] = { { OWNER, 0600, 0 }, { OWNER, 0600, 0 }, { OWNER, 0640, 0 }, { STRANGER, 0600, 0 }, { OWNER, 0600, GPUB_ALONE } };

static unsigned pick(unsigned count)
{
	return (unsigned)rand_r(&seed) % count;
}

static uint32_t bit_of(const struct fact *fact)
{
	return 1u << (fact - facts);
}

static struct memory *memory_of(const struct allocation *allocation)
{
	for (unsigned i = 0; i < MEMORIES; i++)
		if (memories[i].allocation == allocation)
			return &memories[i];
	return NULL;
}

static struct fact *fact_in(const struct memory *memory, uint32_t range)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (facts[i].buffer && facts[i].memory == memory && (range == ALL || facts[i].range == range))
			return &facts[i];
	return NULL;
}

/* Who uses one of these buffers, held or not. */
static struct right *right_to(uint32_t bits)
{
	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].grant && rights[i].uses & bits)
			return &rights[i];
	return NULL;
}

static struct right *right_of(unsigned session, const struct memory *memory, bool is_held)
{
	for (unsigned i = 0; i < RIGHTS; i++) {
		struct right *right = &rights[i];

		if (right->grant && right->session == session && right->memory == memory && right->is_held == is_held &&
		    (is_held || !right->is_own))
			return right;
	}
	return NULL;
}

static void fact_over(const struct buffer *buffer)
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
	struct memory *memory = memory_of(buffer->allocation);
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
		*memory = (struct memory){ .allocation = buffer->allocation,
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
	struct memory *memory = fact->memory;
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

/* One notice for each use that is not held, and besides them only such as give memory up. */
static void do_unlink(struct fact *fact)
{
	uint64_t serial = fact->serial;
	unsigned expected = 0, told = 0;

	if (!fact->buffer || !fact->is_ready || fact->is_unlinked)
		return;
	fact->is_unlinked = true;
	for (unsigned i = 0; i < RIGHTS; i++)
		expected += rights[i].grant && !rights[i].is_held && rights[i].uses & bit_of(fact);
	registry_unlink(&registry, fact->buffer);
	for (unsigned i = 0; i < notice_count; i++)
		told += notices[i].serial == serial;
	assert_int_equal(told, expected);
}

static void do_use(struct fact *fact)
{
	unsigned session = pick(SESSIONS);
	struct grant_order order = order_of(session);
	struct right *right, *room = rights;
	struct use *use;
	bool fresh;
	int error;

	order.own = !pick(4);
	while (room < rights + RIGHTS && room->grant)
		room++;
	if (!fact->buffer || !fact->is_ready || fact->is_unlinked || room == rights + RIGHTS)
		return;
	right = order.own ? NULL : right_of(session, fact->memory, false);
	error = registry.tickets.free || right ? 0 : -ENOSPC;
	assert_int_equal(grant_open(&registry, fact->buffer, &order, &use, &fresh), error);
	if (error)
		return;
	assert_int_equal(fresh, !right);
	if (!right)
		*(right = room) = (struct right){ .grant = use->grant,
						  .id = use->grant->id,
						  .session = session,
						  .memory = fact->memory,
						  .is_own = order.own };
	assert_ptr_equal(use->grant, right->grant);
	right->uses |= bit_of(fact);
}

static bool is_believed(const struct right *right)
{
	return uid_of(right->session) == kinds[right->memory->kind].owner;
}

/* Whether its range may serve again: else the use stays until the CLOSED. */
static bool is_kept(const struct fact *fact)
{
	return !fact->memory->is_closed && !fact->memory->allocation->given_up;
}

static void do_idle(struct right *right, struct fact *fact)
{
	struct use *use;

	if (!right->grant || right->is_held || !fact->buffer)
		return;
	assert_ptr_equal(grant_find(&grants[right->session], right->id), right->grant);
	use = grant_find_use(right->grant, fact->serial);
	assert_int_equal(use != NULL, (right->uses & bit_of(fact)) != 0);
	if (!use)
		return;
	if (is_believed(right) && !right->is_own && (!fact->is_unlinked || is_kept(fact)))
		right->uses &= ~bit_of(fact);
	assert_int_equal(grant_idle(&registry, use), is_believed(right));
}

static void do_close(struct right *right)
{
	struct grant *grant = right->grant;
	unsigned session = right->session;
	struct right *held;
	bool is_over;

	if (!grant || right->is_held)
		return;
	held = is_believed(right) ? NULL : right_of(session, right->memory, true);
	is_over = held || is_believed(right);
	if (held)
		held->uses |= right->uses;
	if (is_over)
		*right = (struct right){ 0 };
	else
		right->is_held = true;
	assert_int_equal(grant_closed(&registry, grant), is_over);
}

static void do_die(unsigned session)
{
	for (unsigned i = 0; i < RIGHTS; i++) {
		struct grant *grant = rights[i].grant;

		if (!grant || rights[i].session != session)
			continue;
		rights[i] = (struct right){ 0 };
		grant_over(&registry, grant);
	}
	assert_null(grants[session].by_id);
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
	struct memory *memory;

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

/* Who is asked to close something has it. */
static void take_notices(void)
{
	for (unsigned i = 0; i < notice_count; i++)
		for (unsigned j = 0; !notices[i].serial && j < RIGHTS; j++)
			rights[j].is_asked |= rights[j].grant && rights[j].id == notices[i].grant;
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
	unsigned used = 0, held = 0;

	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].grant && rights[i].uses & bit_of(fact)) {
			used++;
			held += rights[i].is_held;
		}
	assert_true(fact->buffer->serial == fact->serial && fact->buffer->allocation == allocation);
	assert_int_equal(fact->buffer->used, used);
	assert_int_equal(fact->buffer->held, held);
	assert_int_equal(words[fact->buffer->place] & 3, state);
	/* over as soon as nobody uses it; but what goes with all its memory goes then */
	if (fact->is_unlinked && !used)
		assert_true(!allocation->named && (!allocation->open || allocation->given_up));
}

static void expect_rights(const struct memory *memory, const struct allocation *allocation)
{
	unsigned open = 0, held = 0, uses = 0;

	for (unsigned i = 0; i < RIGHTS; i++) {
		const struct right *right = &rights[i];

		if (!right->grant || right->memory != memory)
			continue;
		open++;
		held += right->is_held;
		uses += (unsigned)__builtin_popcount(right->uses);
		assert_true(right->is_held || right->is_asked || !allocation->given_up || allocation->noticing);
	}
	assert_int_equal(allocation->open, open);
	assert_int_equal(allocation->held, held);
	assert_int_equal(allocation->used, uses);
}

static void expect_allocation(const struct memory *memory)
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
	assert_int_equal(allocation->cleaning, cleaning);
	/* invariant 2, both ways: freed as soon as it may be, and never before */
	assert_int_equal(is_releasing(allocation), !named && !allocation->open && !cleaning);
	/* mapped and empty it is kept for the next of its kind, or given up; and that is for good */
	assert_true(!is_empty || !allocation->open || allocation->state == ALLOCATION_IDLE || allocation->given_up);
	assert_true(allocation->state != ALLOCATION_IDLE || (is_empty && allocation->open && !allocation->given_up && !memory->is_closed));
	assert_true(!allocation->given_up || !named);
}

static void expect_sums(void)
{
	uint64_t bytes[2] = { 0 }, buffers[2] = { 0 }, uses[2] = { 0 }, idle = 0;
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
		if (rights[i].grant && !rights[i].is_held) {
			open++;
			uses[rights[i].session == THEIRS] += (unsigned)__builtin_popcount(rights[i].uses);
		}
	for (int i = 0; i < 2; i++) {
		assert_true(accounting_used(&accounting, OWNER + i, RESOURCE_BYTES) == bytes[i]);
		assert_true(accounting_used(&accounting, OWNER + i, RESOURCE_BUFFERS) == buffers[i]);
		assert_true(accounting_used(&accounting, OWNER + i, RESOURCE_GRANTS) == uses[i]);
	}
	assert_true(registry.bytes == bytes[0] + bytes[1]);
	assert_true(registry.buffer_count == buffers[0] + buffers[1]);
	assert_int_equal(registry.words.free, BUFFERS - registry.buffer_count);
	assert_int_equal(registry.grant_count, open);
	assert_int_equal(registry.tickets.free, TICKETS - open);
	assert_true(registry.usages.bytes[0][SPARE_IDLE] == idle && idle <= registry.usages.limit);
}

static void expect_grants(unsigned session)
{
	unsigned count = 0, held = 0, used = 0;

	for (unsigned i = 0; i < RIGHTS; i++)
		if (rights[i].grant && rights[i].session == session) {
			count++;
			held += rights[i].is_held;
			used += (unsigned)__builtin_popcount(rights[i].uses);
		}
	assert_int_equal(HASH_COUNT(grants[session].by_id), count);
	assert_int_equal(grants[session].held, held);
	assert_int_equal(grants[session].used, used);
	assert_true(grants[session].bytes == (uint64_t)count * SPAN);
}

static void expect_books(void)
{
	take_notices();
	for (unsigned i = 0; i < MEMORIES; i++)
		if (memories[i].allocation)
			expect_allocation(&memories[i]);
	for (unsigned session = 0; session < SESSIONS; session++)
		expect_grants(session);
	expect_sums();
}

static void do_something(void)
{
	can_clean = pick(16);
	if (!pick(3))
		registry_notify(&registry);
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
		do_use(&facts[pick(BUFFERS)]);
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
			usages_reclaim(&registry.usages, 0, pick(2) ? OWNER : STRANGER, SPARE_IDLE, pick(3) * SPAN);
	}
}

static void invariant_2_and_6_random_operations_match_an_oracle(void **state)
{
	(void)state;
	seed = 20261121;
	and_over = fact_over;
	registry.usages.limit = 3 * SPAN;
	memset(memories, 0, sizeof memories);
	memset(facts, 0, sizeof facts);
	memset(rights, 0, sizeof rights);
	for (int i = 0; i < 100000; i++) {
		do_something();
		expect_books();
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
	expect_books();
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_buffers_of_one_kind_share_an_allocation),
		ON(invariant_6_others_never_share),
		ON(invariant_6_who_is_alone_stays_alone),
		ON(test_nobody_joins_what_is_not_made),
		ON(test_an_abandoned_buffers_range_is_vacant_again),
		ON(test_bytes_are_charged_once_an_allocation),
		ON(test_a_second_acquire_gets_the_same_grant),
		ON(test_each_session_and_each_device_has_its_own_grant),
		ON(test_a_grant_of_its_own_is_shared_with_none),
		ON(test_an_acquire_has_the_rights_of_now),
		ON(test_grants_are_charged_for_each_use),
		ON(test_a_notice_goes_to_uses_of_that_buffer_only),
		ON(test_an_idle_ends_one_use_and_not_the_grant),
		ON(test_an_idle_of_a_grant_of_its_own_does_not_refund_it),
		ON(invariant_3_another_sessions_use_is_not_found),
		ON(invariant_6_a_strangers_idle_is_not_believed),
		ON(invariant_6_where_nobody_is_believed_no_idle_is),
		ON(invariant_6_a_range_is_cleaned_before_it_serves_again),
		ON(invariant_6_what_could_not_be_cleaned_is_never_reused),
		ON(invariant_6_what_nobody_could_be_asked_to_clean_is_never_reused),
		ON(invariant_6_another_sessions_use_keeps_the_range),
		ON(test_a_closed_ends_all_uses_of_its_grant),
		ON(invariant_9_a_death_ends_all_uses_of_its_grants),
		ON(invariant_2_a_held_grant_keeps_its_uses),
		ON(invariant_2_merged_holds_keep_all_uses),
		ON(test_idle_memory_serves_the_same_kind_again),
		ON(invariant_2_idle_memory_is_freed_with_its_last_grant),
		ON(test_the_oldest_idle_memory_is_given_up_beyond_the_limit),
		ON(test_memory_larger_than_the_limit_is_given_up_at_once),
		ON(test_memory_of_one_alone_is_given_up_at_once),
		ON(test_what_nobody_uses_is_given_up_by_its_unlink),
		ON(test_beside_others_a_range_serves_again_without_a_limit_for_idle_memory),
		ON(test_a_range_of_given_up_memory_serves_nobody),
		ON(test_memory_without_a_clean_range_is_given_up),
		ON(test_idle_memory_is_given_up_when_it_is_wanted_back),
		ON(invariant_2_shared_memory_is_freed_once_with_the_last_name),
		ON(invariant_2_memory_is_not_freed_while_the_device_cleans_it),
		ON(test_nobody_joins_memory_that_is_about_to_be_freed),
		ON(test_deinit_forgets_uses_of_all_states),
		ON(invariant_6_what_is_shared_is_not_for_others),
		ON(invariant_6_what_could_not_be_cleaned_is_not_for_others),
		ON(invariant_6_nobody_joins_what_others_may_map),
		ON(invariant_6_what_others_mapped_serves_nobody_else),
		ON(invariant_2_and_6_random_operations_match_an_oracle),
	};

	return cmocka_run_group_tests_name("uses", tests, NULL, NULL);
}
