/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status-table.c - what broker-status prints of a file that somebody wrote to hurt its reader.
 *
 * Each text goes through table, list and --json: no line of a table is wider than its paper, nothing but printable
 * ASCII comes out, and the JSON parses. Output is taken from stdout, which is a file meanwhile. What people choose and
 * sort is test-grid's.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/show/json.h"
#include "broker/show/table.h"

static char output[1 << 16];

/* ---- taking stdout ---- */

static int stdout_take(FILE *file)
{
	int saved;

	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	assert_true(saved >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
	return saved;
}

static void stdout_give(int saved)
{
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
}

static struct table_options options;

static void print_table(const struct shown *shown)
{
	assert_int_equal(table_show(shown, &options), 0);
}

static void print_whole_table(const struct shown *shown)
{
	options.all = true;
	print_table(shown);
	options.all = false;
}

static void print_list(const struct shown *shown)
{
	json_t *rows = json_array();

	table_list_add(rows, shown);
	assert_int_equal(table_list_show(rows, &options), 0);
	json_decref(rows);
}

static void capture(void (*print)(const struct shown *), const struct shown *shown)
{
	FILE *file = tmpfile();
	int saved;
	size_t length;

	assert_non_null(file);
	saved = stdout_take(file);
	print(shown);
	stdout_give(saved);
	rewind(file);
	length = fread(output, 1, sizeof output - 1, file);
	output[length] = 0;
	fclose(file);
}

/* ---- what must hold ---- */

static void assert_printable(void)
{
	for (const char *c = output; *c; c++)
		assert_true(*c == '\n' || isprint((unsigned char)*c));
}

/* JSON leaves DEL as it is: it does nothing to a terminal. */
static void assert_no_control(void)
{
	for (const char *c = output; *c; c++)
		assert_true(*c == '\n' || *c == 127 || isprint((unsigned char)*c));
}

static void assert_narrow(void)
{
	for (const char *line = output; *line; line += strcspn(line, "\n") + 1)
		if (options.paper.width)
			assert_in_range(strcspn(line, "\n"), 0, options.paper.width);
}

static void check_tables(const struct shown *shown)
{
	static void (*const prints[])(const struct shown *) = { print_table, print_whole_table, print_list };
	static const size_t widths[] = { 80, 0, 1, 7, 40, 200 };

	for (size_t i = 0; i < 18; i++) {
		options.paper.width = widths[i / 3];
		capture(prints[i % 3], shown);
		assert_true(*output);
		assert_printable();
		assert_narrow();
	}
	options.paper.width = 80;
}

static json_t *check_json(const struct shown *shown)
{
	json_t *json;

	capture(json_show, shown);
	assert_no_control();
	json = json_loads(output, 0, NULL);
	assert_non_null(json);
	return json;
}

static struct shown shown_of(const char *text)
{
	struct shown shown = { .instance = "twenty-bytes-long-xx", .trusted = true, .header.pid = 4194304 };

	shown.text = json_loads(text, 0, NULL);
	assert_non_null(shown.text);
	return shown;
}

static void check(const char *text)
{
	struct shown shown = shown_of(text);

	check_tables(&shown);
	json_decref(check_json(&shown));
	shown.trusted = false;
	shown.header.pid = UINT64_MAX;
	check_tables(&shown);
	json_decref(check_json(&shown));
	shown_free(&shown);
}

/* ---- texts ---- */

#define EVIL "\\u001b[2J\\u009b\\u202e\\u0007\\n\\r\\u007f"
#define TEN  "0123456789"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

static void test_strange(void **unused)
{
	(void)unused;
	check("{}");
	check("{\"buffers\":7,\"sessions\":{},\"counters\":[],\"devices\":\"x\",\"updated\":\"never\"}");
	check("{\"buffers\":[7,null,\"x\",[]],\"sessions\":[[]],\"devices\":[0],\"waiting\":-1,\"updated\":-1}");
	check("{\"users\":[7,{\"quota\":[],\"used\":0},{\"uid\":\"x\",\"quota\":{\"bytes\":\"y\"},\"used\":{\"bytes\":{"
	      "}}}]}");
	check("{\"updated\":9223372036854775807,\"waiting\":9223372036854775807,\"device_kind\":\"" LONG "\"}");
}

static void test_evil(void **unused)
{
	(void)unused;
	check("{\"device_kind\":\"" EVIL "\",\"" EVIL "\":\"" EVIL "\",\"devices\":[{\"name\":\"" EVIL "\"}],"
	      "\"buffers\":[{\"name\":\"" EVIL "\",\"state\":\"draining\",\"holders\":[{\"command\":\"" EVIL "\"}]}],"
	      "\"sessions\":[{\"command\":\"" EVIL "\",\"state\":\"" EVIL "\"}]}");
}

static void test_long(void **unused)
{
	(void)unused;
	check("{\"devices\":[{\"name\":\"" LONG "\",\"uuid\":\"" LONG
	      "\",\"index\":-1,\"bytes\":-1,\"idle\":-1,\"pooled\":-1}],\"buffers\":[{\"name\":\"" LONG
	      "\",\"state\":\"" LONG
	      "\",\"owner\":-1,\"generation\":-1,\"grants\":-1},{\"state\":\"draining\",\"grants\":-1,\"held\":-1,"
	      "\"holders\":[{\"held\":7},{\"pid\":-1,\"device\":-1,\"command\":\"" LONG LONG
	      "\"}]}],\"users\":[{\"uid\":-1,\"used\":{\"bytes\":-1,\"grants\":-1},\"quota\":{\"bytes\":-1,\"grants\":-"
	      "1,\"requests\":-1}},{\"uid\":9223372036854775807}],\"sessions\":[{\"session\":-1,\"pid\":-1,\"uid\":-1,"
	      "\"command\":\"" LONG
	      "\",\"bytes\":-1}],\"counters\":{\"buffers_created\":-1,\"refused_access\":9223372036854775807}}");
}

/* ---- what must be there ---- */

static void test_drain(void **unused)
{
	struct shown shown = shown_of("{\"buffers\":[{\"name\":\"u\",\"bytes\":67108864,\"state\":\"draining\","
				      "\"holders\":[{\"pid\":12345,\"command\":\"solver\",\"device\":1}]}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, " 64M "));
	assert_non_null(strstr(output, "\nu: waits for pid 12345 (solver), which maps it on device 1\n"));
	shown_free(&shown);
}

/* What was closed by another user waits for its end, and counts beside what is open. */
static void test_held(void **unused)
{
	struct shown shown = shown_of(
		"{\"buffers\":[{\"name\":\"u\",\"state\":\"draining\",\"grants\":1,\"held\":1,\"holders\":[{\"pid\":7,"
		"\"command\":\"a\",\"device\":1,\"held\":false},{\"pid\":8,\"command\":\"b\",\"device\":1,\"held\":"
		"true}]},{\"name\":\"v\",\"state\":\"live\",\"grants\":3,\"held\":0,\"generation\":5}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "    1+1  7,8\n"));
	assert_non_null(strstr(output, "\nu: waits for pid 7 (a), which maps it on device 1\n"));
	assert_non_null(strstr(output, "\nu: closed, waits for pid 8 (b) to die\n"));
	assert_non_null(strstr(output, "      3   +3\n"));
	assert_null(strstr(output, "more\n"));
	shown_free(&shown);
}

/* As many as are listed, and one more. */
static void test_holders_that_are_not_listed_are_counted(void **unused)
{
	char text[4096];
	struct shown shown;
	size_t length = (size_t)snprintf(text, sizeof text, "{\"buffers\":[{\"name\":\"u\",\"state\":\"draining\","
						"\"grants\":70,\"holders\":[{\"pid\":1}");

	(void)unused;
	for (int pid = 2; pid <= 65; pid++)
		length += (size_t)snprintf(text + length, sizeof text - length, ",{\"pid\":%d}", pid);
	snprintf(text + length, sizeof text - length, "]}]}");
	shown = shown_of(text);
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\nu: and for 6 more\n"));
	shown_free(&shown);
}

/* The file lists some of those who hold a buffer, and counts all. */
static void test_many_holders(void **unused)
{
	struct shown shown = shown_of("{\"buffers\":[{\"name\":\"u\",\"state\":\"draining\",\"grants\":70,\"held\":5,"
				      "\"holders\":[{\"pid\":7,\"command\":\"a\"},{\"pid\":8,\"command\":\"b\"}]}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\nu: and for 73 more\n"));
	shown_free(&shown);
}

static void print_owner(struct status_owner owner, enum shown_state state)
{
	union status_record record = { .owner = owner };
	struct shown shown = shown_of("{}");

	record.type = TRACKED_OWNER;
	shown.records = &record;
	shown.count = 1;
	shown.state = state;
	capture(print_table, &shown);
	shown.records = NULL;
	shown_free(&shown);
}

static void test_owner(void **unused)
{
	struct status_owner owner = { .pid = 7 };

	(void)unused;
	print_owner(owner, SHOWN_RUNNING);
	assert_non_null(strstr(output, "\nprocess 7 owns the device memory\n"));
	assert_null(strstr(output, "ended"));
	print_owner(owner, SHOWN_DEAD);
	assert_null(strstr(output, "owns"));
	owner = (struct status_owner){ .pid = 8, .died = 1, .died_at = UINT64_MAX, .lost = 1 };
	print_owner(owner, SHOWN_RUNNING);
	assert_non_null(strstr(output, "\n1 owner ended, the last at "));
	assert_non_null(strstr(output, ": 1 buffer lost its name\n"));
	owner = (struct status_owner){ .state = STATUS_OWNER_STARTS, .died = 2, .lost = STATUS_HIDDEN, .tries = 1 };
	print_owner(owner, SHOWN_STOPPED);
	assert_non_null(strstr(output, "\nno process owns the device memory: creates and drains wait\n"));
	assert_non_null(strstr(output, "\nanother one is starting since 1970-01-0"));
	assert_non_null(strstr(output, "\n2 owners ended, the last at "));
	assert_null(strstr(output, "lost"));
	assert_non_null(strstr(output, ", after 1 that did not start\n"));
	owner.state = STATUS_OWNER_FAILED;
	print_owner(owner, SHOWN_RUNNING);
	assert_non_null(strstr(output,
			       "\nno process owns the device memory, and no other one starts: the broker ends\n"));
	assert_null(strstr(output, "another one"));
}

#define USER                                                                                                     \
	"\"uid\":4294967,\"used\":{\"bytes\":3145728,\"buffers\":2,\"sessions\":1,\"grants\":5,\"tickets\":0," \
	"\"greetings\":1}"

/* Greetings are bounded for everybody: that alone is no quota. */
static void test_one_user(void **unused)
{
	struct shown shown = shown_of("{\"users\":[{" USER ",\"quota\":{\"greetings\":256}}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_null(strstr(output, "4294967"));
	capture(print_whole_table, &shown);
	assert_non_null(strstr(output, "4294967      3M        2         1       5        0         -\n"));
	shown_free(&shown);
}

static void test_quota(void **unused)
{
	struct shown shown =
		shown_of("{\"users\":[{" USER ",\"quota\":{\"bytes\":1073741824,\"grants\":100,\"requests\":50}}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\nUSER     MEMORY  BUFFERS  SESSIONS  GRANTS  TICKETS  REQUESTS\n"));
	assert_non_null(strstr(output, "4294967   3M/1G        2         1   5/100        0      50/s\n"));
	shown_free(&shown);
}

static void test_two_users(void **unused)
{
	struct shown shown = shown_of("{\"users\":[{" USER "},{\"uid\":4294966,\"used\":{\"bytes\":1}}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "4294967 "));
	assert_non_null(strstr(output, "4294966      1B        -         -       -        -         -\n"));
	shown_free(&shown);
}

/* On narrow paper a name is cut where it matters least, and both its ends are seen; elsewhere it is whole. */
static void test_long_name(void **unused)
{
	struct shown shown = shown_of("{\"buffers\":[{\"name\":\"simulation/" LONG "/north\"}]}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\nsimulation/0123"));
	assert_non_null(strstr(output, "..."));
	assert_non_null(strstr(output, "/north "));
	options.paper.width = 0;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\nsimulation/" LONG "/north "));
	options.paper.width = 200;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\nsimulation/" LONG "/north "));
	options.paper.width = 80;
	shown_free(&shown);
}

static void test_counters(void **unused)
{
	struct shown shown = shown_of("{\"counters\":{\"sessions_cut\":7,\"sessions_died\":0}}");

	(void)unused;
	capture(print_table, &shown);
	assert_non_null(strstr(output, " 7  sessions cut off"));
	assert_null(strstr(output, "sessions that died"));
	capture(print_whole_table, &shown);
	assert_non_null(strstr(output, " 0  sessions that died"));
	shown_free(&shown);
}

static void test_first_line(void **unused)
{
	struct shown shown = shown_of("{\"updated\":1700000000}");

	(void)unused;
	setenv("TZ", "UTC", 1);
	shown.state = SHOWN_STOPPED;
	capture(print_table, &shown);
	assert_non_null(strstr(output, ": stopped, pid 4194304, status of 2023-11-14 22:13:20\n"));
	shown.state = SHOWN_DEAD;
	capture(print_table, &shown);
	assert_non_null(strstr(output, ": dead, pid 4194304, status of 2023-11-14 22:13:20\n"));
	shown_free(&shown);
}

/* On a terminal, and for what needs attention. */
static void test_colors(void **unused)
{
	struct shown shown =
		shown_of("{\"buffers\":[{\"name\":\"u\",\"state\":\"draining\"},{\"name\":\"v\",\"state\":\"live\"}],"
			 "\"sessions\":[{\"session\":7,\"state\":\"open\",\"process\":\"stopped\"}]}");

	(void)unused;
	options.paper.color = true;
	capture(print_table, &shown);
	assert_non_null(strstr(output, "\n\033[33mu "));
	assert_non_null(strstr(output, "\nv "));
	assert_non_null(strstr(output, "\n\033[1mBUFFER "));
	assert_non_null(strstr(output, "\n\033[31m      7 "));
	options.paper.color = false;
	capture(print_table, &shown);
	assert_null(strchr(output, '\033'));
	shown_free(&shown);
}

static const char *string_of(const json_t *json, const char *key)
{
	return json_string_value(json_object_get(json, key));
}

/* The file says nothing about itself that the reader knows better. */
static void test_json_keys(void **unused)
{
	struct shown shown = shown_of("{\"instance\":\"x\",\"pid\":1,\"state\":\"fine\",\"broker\":7,\"waiting\":3}");
	json_t *json, *broker;

	(void)unused;
	shown.owner = 1000;
	json = check_json(&shown);
	broker = json_object_get(json, "broker");
	assert_int_equal(json_integer_value(json_object_get(json, "version")), JSON_VERSION);
	assert_string_equal(string_of(json, "instance"), "twenty-bytes-long-xx");
	assert_string_equal(string_of(json, "state"), "running");
	assert_int_equal(json_integer_value(json_object_get(json, "pid")), 4194304);
	assert_int_equal(json_integer_value(json_object_get(json, "waiting")), 3);
	assert_int_equal(json_integer_value(json_object_get(broker, "owner")), 1000);
	assert_true(json_is_true(json_object_get(broker, "trusted")));
	json_decref(json);
	shown_free(&shown);
}

static void test_unreadable(void **unused)
{
	struct shown shown;
	json_t *json;

	(void)unused;
	error_set(-1, "it is broken");
	shown_refused(&shown, "x");
	capture(print_list, &shown);
	assert_non_null(strstr(output, "unreadable"));
	json = check_json(&shown);
	assert_string_equal(string_of(json, "state"), "unreadable");
	assert_string_equal(string_of(json, "error"), "it is broken");
	json_decref(json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strange),
		cmocka_unit_test(test_evil),
		cmocka_unit_test(test_long),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_holders_that_are_not_listed_are_counted),
		cmocka_unit_test(test_many_holders),
		cmocka_unit_test(test_owner),
		cmocka_unit_test(test_one_user),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_two_users),
		cmocka_unit_test(test_first_line),
		cmocka_unit_test(test_colors),
		cmocka_unit_test(test_json_keys),
		cmocka_unit_test(test_unreadable),
	};

	options.paper.width = 80;
	return cmocka_run_group_tests_name("status-table", tests, NULL, NULL);
}
