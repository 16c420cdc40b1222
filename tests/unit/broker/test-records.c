/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-records.c - records that name each other, joined: what is counted and listed of many, what names nothing, and
 * records that all name the same, which must take no longer than others. How a file is read is test-status-read's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "broker/show/records.h"

#define MOST 40000

static union status_record records[MOST];
static size_t count;
static json_t *object;

static int setup(void **state)
{
	(void)state;
	count = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	json_decref(object);
	object = NULL;
	return 0;
}

static void session(uint64_t id)
{
	records[count] = (union status_record){ .session = { .id = id, .pid = 1000 + id, .command = "x" } };
	records[count++].type = TRACKED_SESSION;
}

static void buffer(uint64_t generation, uint64_t allocation, uint32_t state)
{
	records[count] = (union status_record){ .buffer = { .state = state,
							    .generation = generation,
							    .allocation = allocation,
							    .allocated = 10,
							    .device = generation % 2 } };
	snprintf(records[count].buffer.name, NAME_SIZE, "b%llu", (unsigned long long)generation);
	records[count++].type = TRACKED_BUFFER;
}

static void mapping(uint64_t id, uint64_t of, uint64_t allocation, bool orphaned)
{
	records[count] = (union status_record){ .mapping = { .orphaned = orphaned,
							     .id = id,
							     .session = of,
							     .allocation = allocation,
							     .bytes = 100,
							     .device = id % 3 } };
	records[count++].type = TRACKED_MAPPING;
}

static void grant(uint64_t of, uint64_t generation)
{
	records[count] = (union status_record){ .grant = { .mapping = of, .generation = generation } };
	records[count++].type = TRACKED_GRANT;
}

static void join(void)
{
	static const struct status_header header = { .pid = 1 };

	json_decref(object);
	object = records_json(&header, records, count);
	assert_non_null(object);
}

static const json_t *row(const char *table, size_t i)
{
	return json_array_get(json_object_get(object, table), i);
}

static void assert_number(const char *table, size_t i, const char *key, json_int_t wanted)
{
	assert_int_equal(json_integer_value(json_object_get(row(table, i), key)), wanted);
}

static void assert_list(const char *table, size_t i, const char *key, const char *wanted)
{
	char *text = json_dumps(json_object_get(row(table, i), key), JSON_COMPACT);

	assert_string_equal(text, wanted);
	free(text);
}

/* ---- counts and lists ---- */

static void test_what_a_session_holds(void **state)
{
	(void)state;
	session(1);
	session(2);
	buffer(1, 1, STATUS_LIVE);
	buffer(2, 1, STATUS_LIVE);
	mapping(4, 1, 1, false);
	mapping(5, 1, 2, true);
	mapping(6, 2, 1, false);
	grant(4, 2);
	grant(4, 1);
	grant(6, 1);
	join();
	assert_number("sessions", 0, "mappings", 1);
	assert_number("sessions", 0, "held", 1);
	assert_number("sessions", 0, "bytes", 200);
	assert_number("sessions", 0, "grants", 2);
	assert_list("sessions", 0, "holds", "[\"b1\",\"b2\"]");
	assert_list("sessions", 0, "devices", "[1,2]");
	assert_number("sessions", 1, "grants", 1);
	assert_list("sessions", 1, "holds", "[\"b1\"]");
	assert_number("buffers", 0, "grants", 2);
	assert_number("buffers", 1, "grants", 1);
}

static void test_what_names_nothing(void **state)
{
	(void)state;
	session(1);
	buffer(1, 1, STATUS_LIVE);
	mapping(4, 1, 1, false);
	mapping(5, 77, 1, false);
	for (int i = 0; i < 100; i++)
		grant(77, 1);
	grant(5, 1);
	grant(4, 1);
	grant(4, 77);
	join();
	assert_number("buffers", 0, "grants", 1);
	assert_number("sessions", 0, "mappings", 1);
	assert_number("sessions", 0, "grants", 2);
	assert_list("sessions", 0, "holds", "[\"b1\"]");
}

/* All are counted, and up to 1,024 are listed. */
static void test_many_holders(void **state)
{
	(void)state;
	buffer(1, 1, STATUS_LIVE);
	for (uint64_t i = 1; i <= 1100; i++) {
		session(i);
		mapping(i, i, 1, i % 2);
		grant(i, 1);
	}
	join();
	assert_number("buffers", 0, "grants", 550);
	assert_number("buffers", 0, "held", 550);
	assert_int_equal(json_array_size(json_object_get(row("buffers", 0), "holders")), 1024);
}

/* What nobody uses lists fewer: many such buffers wait for the same ones, whose figures are right all the same. */
static void test_many_who_are_waited_for(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 300; i++) {
		buffer(i, 1, STATUS_DRAINING);
		session(i);
		mapping(i, i, 1, false);
	}
	join();
	assert_number("buffers", 299, "grants", 300);
	assert_int_equal(json_array_size(json_object_get(row("buffers", 0), "holders")), 64);
}

/* Keys at the end of their range. */
static void test_largest_numbers(void **state)
{
	(void)state;
	session(UINT64_MAX);
	buffer(UINT64_MAX, UINT64_MAX, STATUS_LIVE);
	mapping(UINT64_MAX, UINT64_MAX, UINT64_MAX, false);
	grant(UINT64_MAX, UINT64_MAX);
	join();
	assert_number("buffers", 0, "grants", 1);
	assert_number("sessions", 0, "grants", 1);
}

/* ---- malicious ones ---- */

/* Processor time for so many that are of one session, one allocation and one buffer; the least of three. */
static double time_to_join(size_t most)
{
	double least = 1e9;

	count = 0;
	while (count + 6 <= most) {
		session(5);
		buffer(9, 2, STATUS_LIVE);
		buffer(8, 2, STATUS_DRAINING);
		mapping(3, 5, 2, false);
		grant(3, 9);
		records[count] = (union status_record){ .device = { .index = 1 } };
		records[count++].type = TRACKED_DEVICE;
	}
	for (int i = 0; i < 3; i++) {
		clock_t began = clock();
		double took;

		join();
		took = (double)(clock() - began);
		least = took < least ? took : least;
	}
	return least;
}

/*
 * Eight times the records may take eight times as long, and a little more for sorting; if each looked at each, 64
 * times.
 */
static void test_malicious_records_take_linear_time(void **state)
{
	double few = time_to_join(4000), many = time_to_join(32000);

	(void)state;
	print_message("# %.1f and %.1f ms\n", few * 1000 / CLOCKS_PER_SEC, many * 1000 / CLOCKS_PER_SEC);
	assert_true(many < 24 * few);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_what_a_session_holds),
		TEST(test_what_names_nothing),
		TEST(test_many_holders),
		TEST(test_many_who_are_waited_for),
		TEST(test_largest_numbers),
		TEST(test_malicious_records_take_linear_time),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
