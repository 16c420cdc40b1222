/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-owner.c - the owner of a device's memory carries out orders by the memory's number, and leaves nothing behind
 * of one that fails. The device is a list of what it was called for, and fails when it is told to.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "broker/owner/owner.h"
#include "common/tables.h"
#include "tests/unit/broker/failing.h"

#define DEVICE 3
#define SIZE   (UINT64_C(2) << 20)

static char story[256];      /* the device's calls */
static const char *failing;  /* name of the call that fails; "": none */
static int failure;
static uint64_t free_bytes;
static char memory[64];      /* address of the n-th memory: memory + 16 * n */
static unsigned made;

static int called(int ordinal, const char *name)
{
	assert_int_equal(ordinal, DEVICE);
	strcat(strcat(story, name), " ");
	return strcmp(name, failing) ? 0 : error_set(failure, "the device cannot %s", name);
}

static int fake_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr)
{
	assert_int_equal(size, SIZE);
	assert_int_equal(exported, 7);
	*ptr = memory + (size_t)16 * made++;
	return called(ordinal, "allocate");
}

static struct device_memory adopted;
static int adopted_by = -1; /* the descriptor that comes beside an order */

static int fake_adopt(int ordinal, const struct device_memory *what, void **ptr)
{
	adopted = *what;
	*ptr = memory + 16 * made++;
	return called(ordinal, "adopt");
}

static const char *zeroed; /* address of what was zeroed last */
static uint64_t zeroed_bytes;

static int fake_zero(int ordinal, void *ptr, uint64_t size)
{
	zeroed = ptr;
	zeroed_bytes = size;
	return called(ordinal, "zero");
}

static int fake_export(int ordinal, void *ptr, struct device_handle *handle, int *descriptor)
{
	memset(handle, (int)((char *)ptr - memory) + 1, sizeof *handle);
	*descriptor = 42;
	return called(ordinal, "export");
}

static const char *released;

static int fake_release(int ordinal, void *ptr)
{
	released = ptr;
	return called(ordinal, "release");
}

static int fake_room(int ordinal, uint64_t *bytes)
{
	*bytes = free_bytes;
	return called(ordinal, "room");
}

static int fake_gone(pid_t pid, bool mps)
{
	assert_int_equal(pid, 1234);
	return mps ? error_set(-EBUSY, "it is listed") : 0;
}

static const struct device fake = { .allocate = fake_allocate,
				    .adopt = fake_adopt,
				    .zero = fake_zero,
				    .export_handle = fake_export,
				    .release = fake_release,
				    .room = fake_room,
				    .gone = fake_gone };
static struct owner owner;
static struct outcome outcome;

static int setup(void **state)
{
	(void)state;
	owner = (struct owner){ .device = &fake };
	failing = "";
	failure = -EIO;
	*story = 0;
	free_bytes = 5;
	made = 0;
	zeroed = released = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	owner_deinit(&owner);
	return owner.memory ? -1 : 0;
}

static int ordered(struct order order)
{
	order.device = DEVICE;
	*story = 0;
	memset(&outcome, 0xee, sizeof outcome);
	owner_carry_out(&owner, &order, adopted_by, &outcome);
	assert_true(!outcome.error == !*outcome.text);
	return outcome.error;
}

static int make(uint64_t number)
{
	return ordered((struct order){ .kind = ORDER_ALLOCATE, .memory = number, .size = SIZE, .exported = 7 });
}

static int zero(uint64_t number, uint64_t offset, uint64_t size)
{
	return ordered((struct order){ .kind = ORDER_ZERO, .memory = number, .offset = offset, .size = size });
}

static int release(uint64_t number)
{
	return ordered((struct order){ .kind = ORDER_RELEASE, .memory = number });
}

/* Invariant 6: nothing is exported before it is zeroed. */
static void invariant_6_memory_is_zeroed_before_it_is_exported(void **state)
{
	(void)state;
	assert_int_equal(make(9), 0);
	assert_string_equal(story, "allocate zero export ");
	assert_ptr_equal(zeroed, memory);
	assert_int_equal(zeroed_bytes, SIZE);
	assert_int_equal(outcome.descriptor, 42);
	assert_int_equal(((const unsigned char *)&outcome.handle)[0], 1);
}

static void test_memory_is_known_by_its_number(void **state)
{
	(void)state;
	assert_int_equal(make(9), 0);
	assert_int_equal(make(UINT64_MAX), 0);
	assert_int_equal(zero(UINT64_MAX, 3, 5), 0);
	assert_ptr_equal(zeroed, memory + 16 + 3);
	assert_int_equal(zeroed_bytes, 5);
	assert_int_equal(release(9), 0);
	assert_ptr_equal(released, memory);
	assert_int_equal(zero(UINT64_MAX, 0, 1), 0);
	assert_ptr_equal(zeroed, memory + 16);
}

static int adopt(uint64_t number)
{
	int error;

	adopted_by = 17;
	error = ordered((struct order){ .kind = ORDER_ADOPT,
					.memory = number,
					.size = SIZE,
					.exported = EXPORT_VMM,
					.handle.bytes = { 3 } });
	adopted_by = -1;
	return error;
}

/* As if it had made it: it is not zeroed and not exported again. */
static void test_memory_of_an_owner_before_is_taken_over(void **state)
{
	(void)state;
	assert_int_equal(adopt(9), 0);
	assert_string_equal(story, "adopt ");
	assert_int_equal(adopted.descriptor, 17);
	assert_int_equal(adopted.size, SIZE);
	assert_int_equal(adopted.handle.bytes[0], 3);
	assert_ptr_equal(adopted.export, export_of(EXPORT_VMM));
	assert_int_equal(zero(9, 3, 5), 0);
	assert_ptr_equal(zeroed, memory + 3);
	assert_int_equal(release(9), 0);
	assert_ptr_equal(released, memory);
	failing = "adopt";
	assert_int_equal(adopt(10), -EIO);
	assert_null(owner.memory);
	fail_after(0);
	assert_int_equal(adopt(10), -ENOBUFS);
	assert_true(fail_ended());
}

static void test_an_unknown_number_does_not_reach_the_device(void **state)
{
	(void)state;
	assert_int_equal(zero(1, 0, 1), -ENOENT);
	assert_int_equal(release(1), -ENOENT);
	assert_int_equal(make(1), 0);
	assert_int_equal(release(1), 0);
	assert_int_equal(release(1), -ENOENT);
	assert_string_equal(story, "");
	assert_int_equal(outcome.descriptor, -1);
}

static void test_a_failed_release_forgets_the_memory(void **state)
{
	(void)state;
	assert_int_equal(make(1), 0);
	failing = "release";
	assert_int_equal(release(1), -EIO);
	assert_non_null(strstr(outcome.text, "cannot release"));
	failing = "";
	assert_int_equal(release(1), -ENOENT);
}

static void expect_nothing_made(const char *call, const char *calls)
{
	failing = call;
	assert_int_equal(make(1), -EIO);
	assert_string_equal(story, calls);
	assert_null(owner.memory);
}

static void test_what_fails_leaves_no_memory(void **state)
{
	(void)state;
	expect_nothing_made("allocate", "allocate ");
	expect_nothing_made("zero", "allocate zero release ");
	assert_ptr_equal(released, memory + 16);
	expect_nothing_made("export", "allocate zero export release ");
	failing = "";
	assert_int_equal(make(1), 0);
}

/* A device without memory says how much it has. */
static void test_a_refused_create_is_told_the_room(void **state)
{
	(void)state;
	failing = "allocate";
	failure = -ENOMEM;
	assert_int_equal(make(1), -ENOMEM);
	assert_string_equal(story, "allocate room ");
	assert_int_equal(outcome.room, 5);
	failure = -ENOTSUP;
	assert_int_equal(make(1), -ENOTSUP);
	assert_int_equal(outcome.room, 0);
}

/* Not -ENOMEM, which is the device's, and has the create wait for its memory. */
static void test_an_owner_without_memory_makes_nothing(void **state)
{
	(void)state;
	for (unsigned i = 0;; i++) {
		fail_after(i);
		make(1);
		if (!fail_ended())
			break;
		assert_int_equal(outcome.error, -ENOBUFS);
		assert_string_equal(story, "");
		assert_null(owner.memory);
	}
	assert_int_equal(outcome.error, 0);
}

static void test_questions(void **state)
{
	(void)state;
	assert_int_equal(ordered((struct order){ .kind = ORDER_ROOM }), 0);
	assert_int_equal(outcome.room, 5);
	assert_int_equal(ordered((struct order){ .kind = ORDER_GONE, .pid = 1234 }), 0);
	assert_int_equal(ordered((struct order){ .kind = ORDER_GONE, .pid = 1234, .mps = true }), -EBUSY);
}

/* ---- the list for the next broker ---- */

static struct listed listed[16];
static unsigned listings, most_listings;

static bool note_listed(void *context, struct listed *what)
{
	assert_ptr_equal(context, &owner);
	listed[listings++] = *what;
	return listings != most_listings;
}

/* Lists at most `most` entries. */
static unsigned lists(unsigned most)
{
	listings = 0;
	most_listings = most;
	owner_list(&owner, note_listed, &owner);
	return listings;
}

static void test_a_new_owner_lists_only_the_end(void **state)
{
	(void)state;
	assert_int_equal(lists(16), 1);
	assert_int_equal(listed[0].kind, LISTED_END);
}

static int number_order(struct order order, uint64_t number, uint64_t acknowledged)
{
	order.number = number;
	order.acknowledged = acknowledged;
	order.exported = 7;
	order.size = SIZE;
	return ordered(order);
}

/* Memory first, then outcomes in the order of the orders, also of those that failed; no answer to a question. */
static void test_memory_and_outcomes_are_listed(void **state)
{
	(void)state;
	assert_int_equal(number_order((struct order){ .kind = ORDER_ALLOCATE, .memory = 1 }, 1, 0), 0);
	assert_int_equal(number_order((struct order){ .kind = ORDER_ALLOCATE, .memory = 2 }, 2, 1), 0);
	assert_int_equal(outcome.number, 2);
	assert_int_equal(number_order((struct order){ .kind = ORDER_ROOM }, 3, 1), 0);
	failing = "zero";
	assert_int_equal(number_order((struct order){ .kind = ORDER_ZERO, .memory = 1 }, 4, 1), -EIO);
	failure = -ENOMEM;
	failing = "allocate";
	assert_int_equal(number_order((struct order){ .kind = ORDER_ALLOCATE, .memory = 5 }, 5, 1), -ENOMEM);
	assert_int_equal(lists(16), 6);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(listed[i].kind, LISTED_MEMORY);
		assert_int_equal(listed[i].memory, i + 1);
		assert_int_equal(listed[i].size, SIZE);
		assert_int_equal(listed[i].exported, 7);
		assert_int_equal(listed[i].outcome.descriptor, -1);
	}
	assert_int_equal(listed[2].outcome.number, 2);
	assert_int_equal(listed[2].exported, 7);
	assert_int_equal(listed[2].outcome.descriptor, 42);
	assert_int_equal(listed[2].outcome.handle.bytes[0], 17);
	assert_int_equal(listed[3].order, ORDER_ZERO);
	assert_int_equal(listed[3].memory, 1);
	assert_int_equal(listed[3].outcome.error, -EIO);
	assert_non_null(strstr(listed[3].outcome.text, "cannot zero"));
	assert_int_equal(listed[4].outcome.error, -ENOMEM);
	assert_int_equal(listed[4].outcome.room, 5);
	assert_int_equal(listed[4].outcome.descriptor, -1);
	assert_int_equal(listed[5].kind, LISTED_END);
}

/* Nothing is left that opens the memory. */
static void test_released_memory_is_not_listed(void **state)
{
	static const struct device_handle none;

	(void)state;
	assert_int_equal(number_order((struct order){ .kind = ORDER_ALLOCATE, .memory = 1 }, 1, 0), 0);
	assert_int_equal(number_order((struct order){ .kind = ORDER_RELEASE, .memory = 1 }, 2, 0), 0);
	assert_int_equal(lists(16), 3);
	assert_int_equal(listed[0].outcome.number, 1);
	assert_int_equal(listed[0].outcome.descriptor, -1);
	assert_memory_equal(&listed[0].outcome.handle, &none, sizeof none);
	assert_int_equal(listed[1].order, ORDER_RELEASE);
}

/* The broker that is told has died. */
static void test_a_list_ends_when_nobody_reads_it(void **state)
{
	(void)state;
	assert_int_equal(number_order((struct order){ .kind = ORDER_ALLOCATE, .memory = 1 }, 1, 0), 0);
	assert_int_equal(number_order((struct order){ .kind = ORDER_ALLOCATE, .memory = 2 }, 2, 0), 0);
	for (unsigned most = 1; most <= 5; most++)
		assert_int_equal(lists(most), most);
	assert_int_equal(lists(6), 5); /* with the end */
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_6_memory_is_zeroed_before_it_is_exported),
		ON(test_memory_is_known_by_its_number),
		ON(test_memory_of_an_owner_before_is_taken_over),
		ON(test_an_unknown_number_does_not_reach_the_device),
		ON(test_a_failed_release_forgets_the_memory),
		ON(test_what_fails_leaves_no_memory),
		ON(test_a_refused_create_is_told_the_room),
		ON(test_an_owner_without_memory_makes_nothing),
		ON(test_questions),
		ON(test_a_new_owner_lists_only_the_end),
		ON(test_memory_and_outcomes_are_listed),
		ON(test_released_memory_is_not_listed),
		ON(test_a_list_ends_when_nobody_reads_it),
	};

	tables_init();
	return cmocka_run_group_tests_name("the owner of the memory", tests, NULL, NULL);
}
