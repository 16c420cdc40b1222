/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-grid.c - rows of a table as lines: which rows and columns are chosen, in which order, and what gives way on
 * narrow paper.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/show/grid.h"

#define TEN "0123456789"

static json_t *rows;
static struct grid grid;
static struct selection selection;
static struct paper paper;
static char line[GRID_LINE_MAX];

static int setup(void **state)
{
	(void)state;
	selection = (struct selection){ 0 };
	paper = (struct paper){ .now = 1000000 };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	grid_free(&grid);
	json_decref(rows);
	rows = NULL;
	return 0;
}

static void make(enum table_kind table, const char *text)
{
	grid_free(&grid);
	json_decref(rows);
	rows = json_loads(text, 0, NULL);
	assert_non_null(rows);
	assert_int_equal(grid_make(&grid, table, rows, &selection, &paper), 0);
}

static void choose(const char *name)
{
	selection.columns[selection.columns_count] = column_find(name, false);
	assert_non_null(selection.columns[selection.columns_count++]);
}

static void assert_line(size_t row, const char *wanted)
{
	assert_in_range(row, 0, grid.rows_count - 1);
	assert_int_equal(grid_line(&grid, row, line), strlen(wanted));
	assert_string_equal(line, wanted);
}

static void assert_heading(const char *wanted)
{
	grid_heading(&grid, line);
	assert_string_equal(line, wanted);
}

/* ---- order ---- */

#define THREE                                                                                                     \
	"[{\"name\":\"b\",\"bytes\":10,\"created\":999000,\"owner\":4294967290}," \
	"{\"name\":\"a\",\"bytes\":30,\"created\":5},{\"name\":\"c\",\"bytes\":10,\"created\":1000000}]"

static void assert_order(const char *sort, bool reversed, const char *first, const char *second, const char *third)
{
	const char *names[] = { first, second, third };

	selection.sort = sort;
	selection.reversed = reversed;
	make(TABLE_BUFFERS, THREE);
	assert_int_equal(grid.rows_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(json_text(grid.rows[i], "name"), names[i]);
}

/* Equal rows stay as they are; a column that the table does not have leaves all as they are. */
static void test_order(void **state)
{
	(void)state;
	assert_order(NULL, false, "a", "b", "c");
	assert_order("size", false, "a", "b", "c");
	assert_order("size", true, "b", "c", "a");
	assert_order("buffer", false, "a", "b", "c");
	assert_order("buffer", true, "c", "b", "a");
	assert_order("age", false, "a", "b", "c");
	assert_order("age", true, "c", "b", "a");
	assert_order("rank", false, "b", "a", "c");
	assert_order("sessions.rank", false, "b", "a", "c");
	assert_order("buffers.buffer", true, "c", "b", "a");
}

/* By number, not by digit. What has none comes last. */
static void test_order_of_numbers(void **state)
{
	(void)state;
	selection.sort = "rank";
	make(TABLE_SESSIONS, "[{\"session\":1},{\"session\":2,\"rank\":10},{\"session\":3,\"rank\":9}]");
	assert_int_equal(json_number(grid.rows[0], "session"), 3);
	assert_int_equal(json_number(grid.rows[1], "session"), 2);
	assert_int_equal(json_number(grid.rows[2], "session"), 1);
}

/* ---- rows ---- */

#define HELD \
	"[{\"name\":\"x\",\"owner\":1,\"device\":0,\"holders\":" \
	"[{\"pid\":411,\"session\":5},{\"pid\":412,\"session\":6}]}," \
	"{\"name\":\"y\",\"owner\":2,\"device\":1,\"holders\":[{\"pid\":412,\"session\":6}]}," \
	"{\"name\":\"z\",\"owner\":2}]"

static void assert_names(const char *wanted)
{
	char names[16] = "";

	make(TABLE_BUFFERS, HELD);
	for (size_t i = 0; i < grid.rows_count; i++)
		strcat(names, json_text(grid.rows[i], "name"));
	assert_string_equal(names, wanted);
}

static void test_rows(void **state)
{
	(void)state;
	assert_names("xyz");
	selection.of_user = true;
	selection.user = 2;
	assert_names("yz");
	selection.of_holder = true;
	selection.holder = 412;
	assert_names("y");
	selection.of_user = false;
	assert_names("xy");
	selection.holder = 5;
	assert_names("x");
	selection.of_device = true;
	selection.device = 1;
	assert_names("");
	selection.of_holder = false;
	assert_names("y");
}

static void test_rows_of_sessions(void **state)
{
	const char *text = "[{\"session\":5,\"pid\":411,\"uid\":1,\"devices\":[0,2]},{\"session\":6,\"pid\":412,"
			   "\"uid\":2,\"devices\":[1]}]";

	(void)state;
	selection.of_device = true;
	selection.device = 2;
	make(TABLE_SESSIONS, text);
	assert_int_equal(grid.rows_count, 1);
	assert_int_equal(json_number(grid.rows[0], "session"), 5);
	selection.of_device = false;
	selection.of_holder = true;
	selection.holder = 6;
	make(TABLE_SESSIONS, text);
	assert_int_equal(grid.rows_count, 1);
	assert_int_equal(json_number(grid.rows[0], "session"), 6);
}

/* ---- columns ---- */

static void test_columns(void **state)
{
	(void)state;
	choose("size");
	choose("buffer");
	choose("mode");
	make(TABLE_BUFFERS, "[{\"name\":\"a\",\"bytes\":1536,\"mode\":416}]");
	assert_heading("SIZE  BUFFER  MODE");
	assert_line(0, "1.5K  a       0640");
	assert_true(selection_has(&selection, TABLE_BUFFERS));
	assert_false(selection_has(&selection, TABLE_SESSIONS));
}

/* One name alone is of the table that is shown last. */
static void test_column_names(void **state)
{
	(void)state;
	assert_int_equal(column_find("size", false)->table, TABLE_BUFFERS);
	assert_int_equal(column_find("sessions.size", false)->table, TABLE_SESSIONS);
	assert_int_equal(column_find("pid", false)->table, TABLE_SESSIONS);
	assert_int_equal(column_find("pid", true)->table, TABLE_BROKERS);
	assert_null(column_find("brokers.pid", false));
	assert_null(column_find("sessions.", false));
	assert_null(column_find("session.size", false));
	assert_null(column_find("", false));
	assert_null(column_find("size", true));
}

/* It is shown where a row has something in it, and in any case where it is chosen. */
static void test_column_with_nothing(void **state)
{
	(void)state;
	make(TABLE_SESSIONS, "[{\"rank\":7}]");
	grid_heading(&grid, line);
	assert_non_null(strstr(line, "RANK"));
	assert_null(strstr(line, "CONTAINER"));
	choose("rank");
	make(TABLE_SESSIONS, "[{}]");
	assert_heading("RANK");
}

/* ---- cells ---- */

static void test_age(void **state)
{
	static const struct {
		int         since;
		const char *text;
	} ages[] = { { 1000000, "0s" },   { 1000007, "0s" }, { 999941, "59s" }, { 999940, "1m" },
		     { 996401, "59m" },   { 996400, "1h" },  { 913601, "23h" }, { 913600, "1d" },
		     { 0, "?" } };
	char text[64];

	(void)state;
	choose("age");
	for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
		snprintf(text, sizeof text, "[{\"created\":%d}]", ages[i].since);
		make(TABLE_BUFFERS, text);
		grid_line(&grid, 0, line);
		assert_string_equal(line + strspn(line, " "), ages[i].text);
	}
}

/* Each process once; those that are not listed are counted. */
static void test_holders(void **state)
{
	const char *text = "[{\"grants\":7,\"held\":1,\"holders\":[{\"pid\":4},{\"pid\":41},{\"pid\":411},{\"pid\":41},"
			   "{\"pid\":4}]}]";

	(void)state;
	choose("holders");
	make(TABLE_BUFFERS, text);
	assert_line(0, "4,41,411 +3");
	paper.width = 10;
	make(TABLE_BUFFERS, text);
	assert_line(0, "4,41 +4");
	paper.width = 1;
	make(TABLE_BUFFERS, text);
	assert_line(0, "4");
}

static void test_state_of_a_session(void **state)
{
	(void)state;
	choose("sessions.state");
	make(TABLE_SESSIONS, "[{\"state\":\"open\",\"process\":\"stopped\"},{\"state\":\"lost\",\"process\":"
			     "\"running\"},{\"state\":\"open\"}]");
	assert_line(0, "stopped");
	assert_line(1, "lost");
	assert_line(2, "open");
	assert_int_equal(grid_tone(&grid, 0), TONE_ALARM);
	assert_int_equal(grid_tone(&grid, 1), TONE_WARNING);
	assert_int_equal(grid_tone(&grid, 2), TONE_PLAIN);
}

/* ---- paper ---- */

#define WIDE \
	"[{\"name\":\"" TEN TEN TEN TEN \
	"\",\"bytes\":4096,\"device\":0,\"state\":\"live\",\"owner\":4294967290,\"grants\":9,\"created\":1," \
	"\"holders\":[{\"pid\":1000001},{\"pid\":1000002},{\"pid\":1000003},{\"pid\":1000004},{\"pid\":1000005}]}]"

/* Lists get shorter first, then texts; and no line is ever wider than the paper. */
static void test_narrow(void **state)
{
	(void)state;
	make(TABLE_BUFFERS, WIDE);
	grid_line(&grid, 0, line);
	assert_non_null(strstr(line, TEN TEN TEN TEN));
	assert_non_null(strstr(line, "1000005 +4"));
	paper.width = 100;
	make(TABLE_BUFFERS, WIDE);
	grid_line(&grid, 0, line);
	assert_non_null(strstr(line, TEN TEN TEN TEN " "));
	assert_non_null(strstr(line, "1000001 +8"));
	paper.width = 80;
	make(TABLE_BUFFERS, WIDE);
	grid_line(&grid, 0, line);
	assert_memory_equal(line, "01234", 5);
	assert_non_null(strstr(line, "..."));
	assert_non_null(strstr(line, "6789 "));
	assert_non_null(strstr(line, "1000001 +8"));
	for (paper.width = 1; paper.width < 120; paper.width++) {
		make(TABLE_BUFFERS, WIDE);
		assert_in_range(grid_heading(&grid, line), 1, paper.width);
		assert_in_range(grid_line(&grid, 0, line), 1, paper.width);
	}
}

/* A column that may be left out is, before a text would be cut too far; not where it was chosen. */
static void test_left_out(void **state)
{
	const char *text = "[{\"name\":\"" TEN TEN "\",\"uuid\":\"" TEN TEN TEN
			   "\",\"bytes\":1,\"used\":1,\"free\":1,\"idle\":0,\"index\":0}]";

	(void)state;
	paper.width = 80;
	make(TABLE_DEVICES, text);
	grid_heading(&grid, line);
	assert_non_null(strstr(line, "UUID"));
	paper.width = 60;
	make(TABLE_DEVICES, text);
	grid_heading(&grid, line);
	assert_null(strstr(line, "UUID"));
	grid_line(&grid, 0, line);
	assert_non_null(strstr(line, TEN TEN));
	choose("devices.name");
	choose("uuid");
	paper.width = 45;
	make(TABLE_DEVICES, text);
	grid_heading(&grid, line);
	assert_non_null(strstr(line, "UUID"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_order),
		TEST(test_order_of_numbers),
		TEST(test_rows),
		TEST(test_rows_of_sessions),
		TEST(test_columns),
		TEST(test_column_names),
		TEST(test_age),
		TEST(test_column_with_nothing),
		TEST(test_holders),
		TEST(test_state_of_a_session),
		TEST(test_narrow),
		TEST(test_left_out),
	};

	return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}
