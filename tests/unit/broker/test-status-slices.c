/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-status-slices.c - the status of many buffers is written piece by piece: whole, once each, beside the last one.
 *
 * A pass of the loop writes one piece, so what happens between two pieces happens between two passes here. Files are
 * read as broker-status reads them. session-harness.h is the world, with a board large enough for many pieces.
 */
#include "broker/request/creation.h"
#include "broker/request/manage.h"
#include "session-harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "broker/show/read.h"

#define PLACES 20000 /* more than are passed over in one piece */
#define MANY   2000 /* buffers; their text takes several pieces */
#define SMALL  64   /* bytes of each */

static void name_of(char name[NAME_SIZE], unsigned i)
{
	snprintf(name, NAME_SIZE, "many/%u", i);
}

static void on_created(void *context, int error, const char *text)
{
	(void)text;
	assert_int_equal(error, 0);
	++*(unsigned *)context;
}

static void create_range(unsigned from, unsigned to)
{
	static unsigned created;
	char name[NAME_SIZE];

	created = 0;
	for (unsigned i = from; i < to; i++) {
		name_of(name, i);
		assert_int_equal(broker_create(&broker, name, SMALL, 0, 0, 0600, on_created, &created), 0);
	}
	EXPECT_SOON(created == to - from);
}

static void unlink_one(unsigned i)
{
	char name[NAME_SIZE];

	name_of(name, i);
	manage_unlink(&broker, registry_find(broker.registry, name));
}

/* The books stand in the file, and the broker sleeps. */
static void settle(void)
{
	EXPECT_SOON(!broker.changed && !broker.status->writing && !broker.status->pending);
}

static void write_a_text(void)
{
	broker_changed(&broker);
	settle();
}

/* Turns until a text is begun and not done: there are many buffers. */
static void begin_a_text(void)
{
	settle();
	broker_changed(&broker);
	EXPECT_SOON(broker.status->writing);
}

static struct shown shown_now(void)
{
	struct shown shown;

	assert_int_equal(shown_read_fd(&shown, broker.config->instance, broker.status->fd), 0);
	return shown;
}

static json_t *buffers_of(const struct shown *shown)
{
	return json_object_get(shown->text, "buffers");
}

/* Each generation at most once, and nothing but what was ever made. */
static void expect_once_each(json_t *buffers)
{
	static bool seen[4 * PLACES];
	json_t *buffer;
	size_t i;

	memset(seen, 0, sizeof seen);
	json_array_foreach (buffers, i, buffer) {
		json_int_t generation = json_integer_value(json_object_get(buffer, "generation"));

		assert_in_range(generation, 1, 4 * PLACES - 1);
		assert_false(seen[generation]);
		seen[generation] = true;
	}
}

static bool has_buffer(json_t *buffers, unsigned wanted)
{
	char name[NAME_SIZE];
	json_t *buffer;
	size_t i;

	name_of(name, wanted);
	json_array_foreach (buffers, i, buffer)
		if (!strcmp(json_string_value(json_object_get(buffer, "name")), name))
			return true;
	return false;
}

/* As it would be, were all pieces made in one go. */
static json_t *made_at_once(void)
{
	static struct status_text text;
	static char whole[16 * STATUS_PIECE];
	size_t length = 0;
	json_t *json;

	for (status_text_begin(&text); !text.whole; length += text.length) {
		status_text_next(&text, &broker);
		assert_true(length + text.length <= sizeof whole);
		memcpy(whole + length, text.piece, text.length);
	}
	json = json_loadb(whole, length, 0, NULL);
	assert_non_null(json);
	json_object_del(json, "updated");
	return json;
}

static void test_a_broker_that_starts_has_a_text(void **state)
{
	struct shown shown = shown_now();

	(void)state;
	assert_int_equal(shown.header.sequence, 1);
	assert_int_equal(json_array_size(buffers_of(&shown)), 0);
	shown_free(&shown);
}

static void test_all_buffers_stand_in_the_text(void **state)
{
	struct peer peer = join();
	struct shown shown;
	json_t *at_once;

	(void)state;
	create_range(0, MANY);
	acquire(&peer, "many/7");
	settle();
	shown = shown_now();
	assert_true(shown.header.length > 3 * STATUS_PIECE);
	assert_int_equal(json_array_size(buffers_of(&shown)), MANY);
	expect_once_each(buffers_of(&shown));
	at_once = made_at_once();
	json_object_del(shown.text, "updated");
	assert_true(json_equal(shown.text, at_once));
	json_decref(at_once);
	shown_free(&shown);
	part_dying(&peer);
}

/* The keys that readers know, in the order of the manual, and each buffer's values. */
static void test_what_is_said_of_a_buffer(void **state)
{
	struct peer peer = join();
	struct shown shown;
	char *buffer, *keys = NULL;
	const char *key;
	json_t *value;
	size_t length;
	FILE *out = open_memstream(&keys, &length);

	(void)state;
	create_range(0, 1);
	acquire(&peer, "many/0");
	strcpy(session_of(&peer)->command, "a \"\\\n\x01 b");
	write_a_text();
	shown = shown_now();
	buffer = json_dumps(json_array_get(buffers_of(&shown), 0), JSON_COMPACT);
	json_object_foreach (shown.text, key, value)
		fprintf(out, "%s ", key);
	fclose(out);
	assert_string_equal(keys,
			    "instance pid device_kind updated stopping waiting devices buffers sessions users counters ");
	assert_non_null(strstr(buffer, "{\"name\":\"many/0\",\"generation\":1,\"bytes\":64,\"allocated\":"));
	assert_non_null(strstr(buffer, "\"state\":\"live\""));
	assert_non_null(strstr(buffer, "\"mode\":384,\"ephemeral\":false,\"timeline\":false,\"alone\":false,\"grants\":1,"
				       "\"held\":0,\"holders\":[{\"session\":1,"));
	assert_non_null(strstr(buffer, "\"command\":\"a \\\"\\\\\\n\\u0001 b\",\"device\":0,\"held\":false}]}"));
	free(buffer);
	free(keys);
	shown_free(&shown);
	part_dying(&peer);
}

/* A process calls itself what it likes: the rest of the text is not the worse for it. */
static void test_a_command_that_is_not_text_is_left_out(void **state)
{
	struct peer peer = join();
	struct shown shown;

	(void)state;
	strcpy(session_of(&peer)->command, "\xff\xfe");
	write_a_text();
	shown = shown_now();
	assert_null(json_object_get(json_array_get(json_object_get(shown.text, "sessions"), 0), "command"));
	shown_free(&shown);
	part(&peer);
}

/* invariant 5: between two pieces the loop is there for clients. */
static void invariant_5_clients_are_served_in_the_middle_of_a_text(void **state)
{
	struct peer peer = join();

	(void)state;
	create_range(0, MANY);
	begin_a_text();
	expect_served(&peer);
	assert_true(broker.status->writing);
	part(&peer);
}

/* A broker that is stopped in the middle of a text has this file. */
static void test_the_last_text_stands_until_the_next_is_whole(void **state)
{
	struct shown shown;
	unsigned passes = 0;
	uint64_t sequence;

	(void)state;
	create_range(0, MANY);
	for (int texts = 0; texts < 4; texts++) {
		begin_a_text();
		sequence = broker.status->header.sequence;
		for (; broker.status->writing; passes++) {
			shown = shown_now();
			assert_int_equal(shown.header.sequence, sequence);
			assert_int_equal(json_array_size(buffers_of(&shown)), MANY);
			shown_free(&shown);
			run_pass();
		}
		assert_int_equal(broker.status->header.sequence, sequence + 1);
	}
	assert_in_range(passes, 4 * 3, 4 * 100);
}

/* Some go, some come, while the text is made; those that stay are all there, and the next text has all. */
static void test_changes_between_pieces(void **state)
{
	unsigned gone = 0, come = MANY;
	struct shown shown;

	(void)state;
	create_range(0, MANY);
	begin_a_text();
	while (broker.status->writing) {
		/* from both ends: what is behind the text, and what is ahead of it */
		unlink_one(gone);
		unlink_one(MANY - 1 - gone++);
		create_range(come, come + 1);
		come++;
		run_pass();
	}
	assert_true(gone > 2);
	shown = shown_now();
	expect_once_each(buffers_of(&shown));
	for (unsigned i = gone; i < MANY - gone; i += 100)
		assert_true(has_buffer(buffers_of(&shown), i));
	assert_true(json_array_size(buffers_of(&shown)) >= MANY - 2 * gone);
	assert_true(broker.status->pending);
	shown_free(&shown);
	settle();
	shown = shown_now();
	assert_int_equal(json_array_size(buffers_of(&shown)), MANY - gone);
	assert_false(has_buffer(buffers_of(&shown), 0));
	assert_true(has_buffer(buffers_of(&shown), come - 1));
	shown_free(&shown);
}

/* The session that came last in a piece ends before the next: the others stand there once each. */
static void test_sessions_end_between_pieces(void **state)
{
	static struct status_text text;
	struct peer peer[4];
	const char *at;

	(void)state;
	for (int i = 0; i < 4; i++)
		peer[i] = join();
	status_text_begin(&text);
	text.array = 2;
	text.inside = true;
	text.cursor = peer[1].session;
	part(&peer[1]);
	EXPECT_SOON(!session_find(&broker, peer[1].session));
	status_text_next(&text, &broker);
	text.piece[text.length] = 0;
	at = strstr(text.piece, "{\"session\":");
	assert_non_null(at);
	assert_int_equal(strtoull(at + strlen("{\"session\":"), NULL, 10), peer[2].session);
	at = strstr(at + 1, "{\"session\":");
	assert_non_null(at);
	assert_int_equal(strtoull(at + strlen("{\"session\":"), NULL, 10), peer[3].session);
	assert_null(strstr(at + 1, "{\"session\":"));
	part(&peer[0]);
	part(&peer[2]);
	part(&peer[3]);
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* After a quiet time a change is written at once; those that follow are gathered, and written behind a pause. */
static void test_changes_are_gathered_between_texts(void **state)
{
	const struct status *status = broker.status;

	(void)state;
	for (int i = 0; i < 3; i++) {
		uint64_t texts;
		int64_t began;

		EXPECT_SOON(!status->resting && !status->writing && !status->pending);
		began = now_ms();
		broker_changed(&broker);
		EXPECT_SOON(!broker.changed && !status->writing && !status->pending);
		texts = status->next.sequence;
		broker_changed(&broker);
		EXPECT_SOON(status->next.sequence > texts);
		assert_true(now_ms() - began >= 50 - 1); /* PAUSE_US of status.c */
	}
}

static uint64_t memory_of_file(void)
{
	struct stat st;

	assert_int_equal(fstat(broker.status->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* However many texts there were, the file has the memory of the last two. */
static void test_the_file_has_two_texts(void **state)
{
	uint64_t before = memory_of_file(), length;

	(void)state;
	create_range(0, MANY);
	for (int texts = 0; texts < 6; texts++)
		write_a_text();
	length = broker.status->header.length;
	assert_in_range(memory_of_file(), length, 2 * length + before + 4 * 4096);
	for (unsigned i = 0; i < MANY; i++)
		unlink_one(i);
	EXPECT_SOON(!broker.registry->buffer_count);
	write_a_text();
	write_a_text();
	assert_in_range(memory_of_file(), 0, before + 4 * 4096);
}

/* Where the file cannot be written the last text stands, and another follows when it can be. */
static void test_what_cannot_be_written(void **state)
{
	int file = dup(broker.status->fd), closed = open("/dev/null", O_RDONLY);
	uint64_t sequence;
	struct shown shown;

	(void)state;
	create_range(0, MANY);
	begin_a_text();
	sequence = broker.status->header.sequence;
	dup2(closed, broker.status->fd);
	run_pass();
	assert_false(broker.status->writing);
	dup2(file, broker.status->fd);
	shown = shown_now();
	assert_int_equal(shown.header.sequence, sequence);
	shown_free(&shown);
	create_range(MANY, MANY + 1);
	settle();
	shown = shown_now();
	assert_true(shown.header.sequence > sequence);
	assert_int_equal(json_array_size(buffers_of(&shown)), MANY + 1);
	shown_free(&shown);
	close(file);
	close(closed);
}

/* The log's next line, while log_line() goes to a file. */
static void expect_logged(int log, const char *reason)
{
	char line[512] = "";

	assert_true(pread(log, line, sizeof line - 1, 0) > 0);
	assert_non_null(strstr(line, "the status file is not up to date"));
	assert_non_null(strstr(line, reason));
}

/* A file that may not grow takes part of a piece first: the reason is the call's that says it, whatever errno was. */
static void test_the_reason_is_that_of_what_failed(void **state)
{
	int log = memfd_create("log", MFD_CLOEXEC), errors = dup(STDERR_FILENO);
	struct rlimit before, small;
	uint64_t end;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	create_range(0, MANY);
	begin_a_text();
	end = broker.status->next.offset + broker.status->next.length;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ .rlim_cur = end + 100, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	dup2(log, STDERR_FILENO);
	errno = ECHILD;
	run_pass();
	dup2(errors, STDERR_FILENO);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_false(broker.status->writing);
	expect_logged(log, strerror(EFBIG));
	write_a_text();
	close(log);
	close(errors);
}

static int group_setup(void **state)
{
	harness_buffers = PLACES;
	return harness_group_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_broker_that_starts_has_a_text),
		ON(test_all_buffers_stand_in_the_text),
		ON(test_what_is_said_of_a_buffer),
		ON(test_a_command_that_is_not_text_is_left_out),
		ON(invariant_5_clients_are_served_in_the_middle_of_a_text),
		ON(test_the_last_text_stands_until_the_next_is_whole),
		ON(test_changes_between_pieces),
		ON(test_sessions_end_between_pieces),
		ON(test_changes_are_gathered_between_texts),
		ON(test_the_file_has_two_texts),
		ON(test_what_cannot_be_written),
		ON(test_the_reason_is_that_of_what_failed),
	};

	return cmocka_run_group_tests_name("status-slices", tests, group_setup, harness_group_teardown);
}
