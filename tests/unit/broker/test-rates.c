/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-rates.c - what --watch makes of one look after the other: rates by the second, histories, a broker that another
 * one replaces, and figures that make no sense.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/show/rates.h"
#include "common/tables.h"

static struct rates rates;
static struct shown shown;

static int setup(void **state)
{
	(void)state;
	tables_init();
	shown = (struct shown){ .header = { .pid = 7, .start_time = 1 } };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rates_free(&rates);
	shown_free(&shown);
	return 0;
}

static void look(double second, const char *text)
{
	shown_free(&shown);
	shown.text = json_loads(text, 0, NULL);
	assert_non_null(shown.text);
	rates_look(&rates, &shown, second, 8);
}

static const char *history(const char *table, size_t row)
{
	return json_string_value(json_object_get(json_array_get(json_object_get(shown.text, table), row), "history"));
}

static void assert_rate(enum rate rate, double wanted)
{
	assert_true(rates_now(&rates, rate) > wanted - 1e-9 && rates_now(&rates, rate) < wanted + 1e-9);
}

static void test_rates(void **state)
{
	(void)state;
	shown.header.counters.buffers_created = 1000;
	look(10, "{}");
	assert_rate(RATE_CREATES, 0);
	assert_int_equal(rates.history[RATE_CREATES].count, 0);
	shown.header.counters.buffers_created = 1030;
	shown.header.counters.acquires_answered = 5;
	shown.header.counters.bytes_made = 1 << 20;
	look(12, "{}");
	assert_rate(RATE_CREATES, 15);
	assert_rate(RATE_ACQUIRES, 2.5);
	assert_rate(RATE_BYTES, 1 << 19);
	look(13, "{}");
	assert_rate(RATE_CREATES, 0);
}

/* Counters only grow, and so do the seconds: what does not is no rate. */
static void test_nonsense(void **state)
{
	(void)state;
	shown.header.counters.buffers_created = 1000;
	look(10, "{}");
	shown.header.counters.buffers_created = 10;
	look(11, "{\"sessions\":7,\"buffers\":[1,[],{},{}],\"devices\":[{\"index\":-1,\"used\":-1},{\"index\":-1,"
		 "\"used\":5}]}");
	assert_rate(RATE_CREATES, 0);
	assert_string_equal(history("devices", 0), "7");
	shown.header.counters.buffers_created = UINT64_MAX;
	look(11, "{}");
	look(10, "{}");
	assert_int_equal(rates.history[RATE_CREATES].count, 1);
	look(12, "{}");
	assert_true(rates_now(&rates, RATE_CREATES) > 1e18);
}

static void test_levels(void **state)
{
	struct history history = { 0 };
	char text[HISTORY_MAX + 1];

	(void)state;
	assert_string_equal(history_levels(&history, 0, text, 8), "");
	for (int i = 0; i <= 7; i++)
		history.values[history.count++] = i;
	assert_string_equal(history_levels(&history, 0, text, 8), "01234567");
	assert_string_equal(history_levels(&history, 0, text, 3), "567");
	assert_string_equal(history_levels(&history, 14, text, 3), "334");
	assert_string_equal(history_levels(&history, 2, text, 3), "567");
	assert_string_equal(history_levels(&history, 0, text, 0), "");
	history.values[history.count++] = 0.001;
	assert_string_equal(history_levels(&history, 0, text, 2), "71");
}

/* The oldest are forgotten. */
static void test_full_history(void **state)
{
	(void)state;
	for (int i = 0; i < 3 * HISTORY_MAX; i++)
		look(i, "{\"sessions\":[{\"session\":1,\"bytes\":5}]}");
	assert_string_equal(history("sessions", 0), "77777777");
	look(1000, "{\"sessions\":[{\"session\":1,\"bytes\":0}]}");
	assert_string_equal(history("sessions", 0), "77777770");
}

/* By number, wherever the row is; one that went and came is new. */
static void test_followed(void **state)
{
	(void)state;
	look(1, "{\"buffers\":[{\"generation\":1,\"grants\":1},{\"generation\":2,\"grants\":9}],\"sessions\":[{"
		"\"session\":1,\"bytes\":3}]}");
	look(2, "{\"buffers\":[{\"generation\":2,\"grants\":0},{\"generation\":3,\"grants\":9}]}");
	assert_string_equal(history("buffers", 0), "70");
	assert_string_equal(history("buffers", 1), "7");
	look(3, "{\"buffers\":[{\"generation\":1,\"grants\":1}],\"sessions\":[{\"session\":1,\"bytes\":3}]}");
	assert_string_equal(history("buffers", 0), "7");
	assert_string_equal(history("sessions", 0), "7");
}

/* Of that number there is another process now. */
static void test_another_broker(void **state)
{
	(void)state;
	look(1, "{\"sessions\":[{\"session\":1,\"bytes\":3}]}");
	shown.header.counters.buffers_created = 10;
	look(2, "{\"sessions\":[{\"session\":1,\"bytes\":3}]}");
	assert_rate(RATE_CREATES, 10);
	shown.header.start_time = 2;
	shown.header.counters.buffers_created = 90;
	look(3, "{\"sessions\":[{\"session\":1,\"bytes\":3}]}");
	assert_rate(RATE_CREATES, 0);
	assert_string_equal(history("sessions", 0), "7");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_rates),	 TEST(test_nonsense), TEST(test_levels),
		TEST(test_full_history), TEST(test_followed), TEST(test_another_broker),
	};

	return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
