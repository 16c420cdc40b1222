/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-why.c - what is said of waits, from records that are made by hand: chains, circles, processes in every state, and records
 * that say what no broker would. Whatever the order of the records, the answers are the same.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "broker/show/why.h"
#include "common/error.h"

#define MIB    (1ull << 20)
#define NOW_MS 10000000u

/* ---- records ---- */

static union status_record records[4096];
static size_t count;
static char letters[64]; /* of the process with that number */
static char said[1 << 16];
static struct why_found found;

static union status_record *add(enum tracked_type type)
{
	union status_record *record = &records[count++];

	memset(record, 0, sizeof *record);
	record->type = type;
	return record;
}

/* Session n is process 10 + n, of rank n. */
static struct status_session *session(unsigned n)
{
	struct status_session *made = &add(TRACKED_SESSION)->session;

	made->id = n;
	made->pid = 10 + n;
	made->rank = n + 1;
	strcpy(made->command, "solver");
	return made;
}

static struct status_buffer *buffer(const char *name, uint64_t generation, enum status_buffer_state state)
{
	struct status_buffer *made = &add(TRACKED_BUFFER)->buffer;

	made->state = state;
	made->generation = generation;
	made->allocation = generation;
	made->bytes = made->allocated = 4 * MIB;
	strcpy(made->name, name);
	return made;
}

static struct status_timeline *timeline(uint64_t generation, uint64_t value, uint64_t writer)
{
	struct status_timeline *made = &add(TRACKED_TIMELINE)->timeline;

	made->generation = generation;
	made->value = value;
	made->writer = writer;
	made->pid = writer ? (uint32_t)writer + 10 : 0;
	return made;
}

static void stream_waits(uint64_t of, uint64_t generation, uint64_t value)
{
	struct status_wait *made = &add(TRACKED_WAIT)->wait;

	made->session = of;
	made->generation = generation;
	made->value = value;
	made->since = NOW_MS - 12000;
}

static void request(enum status_request_kind kind, uint64_t of, const char *name, uint64_t generation)
{
	struct status_request *made = &add(TRACKED_REQUEST)->request;

	made->kind = kind;
	made->session = of;
	made->generation = generation;
	made->since = NOW_MS - 300000;
	made->bytes = kind == STATUS_CREATE ? 8 * MIB : 0;
	strcpy(made->name, name);
}

static struct status_grant *uses(uint64_t id, uint64_t of, uint64_t generation)
{
	struct status_grant *grant = &add(TRACKED_GRANT)->grant;
	struct status_use *use = &add(TRACKED_USE)->use;

	grant->id = use->grant = id;
	grant->session = of;
	grant->allocation = use->generation = generation;
	return grant;
}

/* A buffer with a timeline at 3, which that session writes. */
static void line(const char *name, uint64_t generation, uint64_t writer)
{
	buffer(name, generation, STATUS_LIVE);
	timeline(generation, 3, writer);
}

/* ---- what is said ---- */

static void look(uint64_t pid, struct why_process *process)
{
	process->state = pid < sizeof letters ? letters[pid] : 0;
	process->contained = process->state == 'T' && pid == 19;
}

static void say(void *context, const char *text)
{
	(void)context;
	strcat(strcat(said, text), "\n");
}

static int ask(const char *about)
{
	struct why why = { .records = records,
			   .count = count,
			   .about = about,
			   .live = true,
			   .now_ms = NOW_MS,
			   .look = look,
			   .say = say };

	said[0] = 0;
	return why_explain(&why, &found);
}

static void shuffle(void)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = (size_t)rand() % i;
		union status_record other = records[i - 1];

		records[i - 1] = records[j];
		records[j] = other;
	}
}

static void expect_about(const char *about, const char *wanted)
{
	for (int i = 0; i < 5; i++) {
		assert_int_equal(ask(about), 0);
		assert_string_equal(said, wanted);
		shuffle();
	}
}

static void expect(const char *wanted)
{
	expect_about(NULL, wanted);
}

static int setup(void **state)
{
	(void)state;
	count = 0;
	memset(letters, 'S', sizeof letters);
	return 0;
}

/* ---- chains ---- */

static void test_nothing_waits(void **state)
{
	(void)state;
	expect("Nothing waits.\n");
	session(1);
	line("a", 5, 1);
	stream_waits(1, 5, 3); /* reached by now */
	stream_waits(1, 6, 3); /* there is no such buffer */
	expect("Nothing waits.\n");
	expect_about("a", "Nothing waits for a.\n");
	expect_about("11", "rank 1 (pid 11) runs and waits for nothing that the broker knows of: gdb -p 11 shows what it does\n");
}

static void test_a_chain_ends_with_what_to_do(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 3; n++)
		session(n);
	line("a", 5, 2);
	line("b", 6, 3);
	stream_waits(1, 5, 4);
	stream_waits(2, 6, 7);
	letters[13] = 'T';
	expect("12 s: rank 1 (pid 11) waits for a to reach 4; it is at 3; its writer, rank 2 (pid 12), waits for b to reach 7; "
	       "it is at 3; its writer, rank 3 (pid 13), is stopped by a signal: kill -CONT 13\n"
	       "12 s: rank 2 (pid 12) waits for b to reach 7; it is at 3; its writer, rank 3 (pid 13), is stopped by a signal: "
	       "kill -CONT 13\n");
	assert_int_equal(found.deadlocks, 0);
	expect_about("12", "12 s: rank 2 (pid 12) waits for b to reach 7; it is at 3; its writer, rank 3 (pid 13), is stopped by a "
			   "signal: kill -CONT 13\n");
	assert_int_equal(ask("c"), -ENOENT);
	assert_int_equal(ask("99"), -ENOENT);
}

static void test_a_stopped_process_is_told_before_what_it_waits_for(void **state)
{
	(void)state;
	session(1);
	session(9);
	line("a", 5, 9);
	line("b", 6, 1);
	stream_waits(1, 5, 4);
	letters[19] = 'T';
	expect("12 s: rank 1 (pid 11) waits for a to reach 4; it is at 3; its writer, rank 9 (pid 19, in a container), is stopped by "
	       "a signal: kill -CONT 19\n");
}

static void test_writers(void **state)
{
	(void)state;
	session(1);
	session(2)->answer = STATUS_OWES_ANSWER;
	session(3)->answer = STATUS_CANNOT_ANSWER;
	line("a", 5, 0);
	line("b", 6, 1);
	line("c", 7, 2);
	line("d", 8, 3);
	line("e", 9, 44);
	buffer("f", 10, STATUS_LIVE);
	timeline(10, 3, 2)->ended = STATUS_DIED; /* releases who waits */
	for (uint64_t generation = 5; generation <= 10; generation++)
		stream_waits(1, generation, 4);
	expect("12 s: rank 1 (pid 11) waits for a to reach 4; it is at 3; nobody has signalled it yet: start the process that is to\n"
	       "12 s: rank 1 (pid 11) waits for b to reach 4; it is at 3; it is its own writer, and has to signal it from another "
	       "stream: gdb -p 11 shows what it does\n"
	       "12 s: rank 1 (pid 11) waits for c to reach 4; it is at 3; its writer, rank 2 (pid 12), does not answer the broker: "
	       "gdb -p 12 shows what it does\n"
	       "12 s: rank 1 (pid 11) waits for d to reach 4; it is at 3; its writer, rank 3 (pid 13), has an older library, which "
	       "does not say what it waits for: gdb -p 13 shows it\n"
	       "12 s: rank 1 (pid 11) waits for e to reach 4; it is at 3; its writer is gone\n");
}

static void test_who_has_not_answered_is_named(void **state)
{
	(void)state;
	session(1)->answer = STATUS_OWES_ANSWER;
	session(2)->answer = STATUS_OWES_ANSWER;
	letters[12] = 'T';
	expect("rank 1 (pid 11) has not said what it waits for, and does not answer the broker: gdb -p 11 shows what it does\n"
	       "rank 2 (pid 12) has not said what it waits for, and is stopped by a signal: kill -CONT 12\n");
}

/* ---- what waits in the broker ---- */

static void test_drains(void **state)
{
	(void)state;
	session(1);
	session(2);
	session(3)->rank = 0;
	session(4)->state = STATUS_LOST;
	buffer("u", 5, STATUS_DRAINING);
	uses(1, 2, 5);
	uses(2, 3, 5)->orphaned = 1;
	uses(3, 4, 5);
	request(STATUS_DRAIN, 1, "u", 5);
	expect("5 min: rank 1 (pid 11) waits for u to be freed; it is used by rank 2 (pid 12), which runs and has not closed it: "
	       "broker-ctl evict 2 --kill ends it, and by solver (pid 13), which has closed it, and has to end because it is another "
	       "user's: kill 13, and by rank 4 (pid 14), which has closed its connection and still runs: kill 14\n");
}

static void test_an_unlinked_buffer_for_which_nobody_waits(void **state)
{
	(void)state;
	session(2);
	buffer("u", 5, STATUS_DRAINING);
	uses(1, 2, 5);
	expect("Nothing waits.\n");
	expect_about("u", "u is unlinked and used by rank 2 (pid 12), which runs and has not closed it: broker-ctl evict 2 --kill ends "
			  "it\n");
}

static void test_many_holders_are_counted(void **state)
{
	(void)state;
	buffer("u", 5, STATUS_DRAINING);
	for (unsigned n = 1; n <= 20; n++) {
		session(n);
		uses(n, n, 5);
	}
	request(STATUS_DRAIN, 0, "u", 5);
	assert_int_equal(ask(NULL), 0);
	assert_non_null(strstr(said, "the broker waits for u to be freed; it is used by rank 1 (pid 11), which"));
	assert_non_null(strstr(said, "rank 4 (pid 14), which runs and has not closed it: broker-ctl evict 4 --kill ends it, and by 16 "
				     "more\n"));
}

static void test_creates(void **state)
{
	(void)state;
	add(TRACKED_DEVICE)->device.bytes = 16 * MIB;
	session(1);
	session(2);
	request(STATUS_CREATE, 1, "new", 9);
	buffer("new", 9, STATUS_CREATING);
	expect("5 min: rank 1 (pid 11) waits for 8 MiB of device 0 to create new; no buffer of this broker has it: look for other "
	       "programs on the device\n");
	buffer("large", 5, STATUS_LIVE)->allocated = 8 * MIB;
	buffer("small", 6, STATUS_LIVE);
	request(STATUS_ACQUIRE, 2, "new", 0);
	expect("5 min: rank 1 (pid 11) waits for 8 MiB of device 0 to create new; 2 buffers take 12 MiB of its 16 MiB, the largest is "
	       "large (8 MiB): broker-ctl drain large\n"
	       "5 min: rank 2 (pid 12) waits for a buffer new; its creator, rank 1 (pid 11), waits for 8 MiB of device 0 to create "
	       "new; 2 buffers take 12 MiB of its 16 MiB, the largest is large (8 MiB): broker-ctl drain large\n");
	request(STATUS_ACQUIRE, 1, "none", 0);
	expect_about("none", "5 min: rank 1 (pid 11) waits for a buffer none; nobody has created it: start the process that is to, or "
			     "broker-ctl create none SIZE\n");
}

static void test_quotas(void **state)
{
	struct status_user *user = &add(TRACKED_USER)->user;

	(void)state;
	memset(user->limit, 0xff, sizeof user->limit);
	user->uid = 7;
	user->used[RESOURCE_BYTES] = 39 * MIB;
	user->limit[RESOURCE_BYTES] = 40 * MIB;
	user->used[RESOURCE_BUFFERS] = 2;
	user->limit[RESOURCE_BUFFERS] = 2;
	user->used[RESOURCE_SESSIONS] = 2;
	user->limit[RESOURCE_SESSIONS] = 3;
	expect("Nothing waits.\n"
	       "user 7 holds 39 MiB of the 40 MiB of its quota: what needs more is refused at once; end some, or raise the quota in "
	       "brokerd.conf\n"
	       "user 7 holds 2 of the 2 buffers of its quota: what needs more is refused at once; end some, or raise the quota in "
	       "brokerd.conf\n");
}

/* ---- deadlocks ---- */

static void test_a_circle_is_told_once(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 4; n++)
		session(n);
	line("a", 5, 1);
	line("b", 6, 2);
	line("c", 7, 3);
	stream_waits(1, 6, 4);
	stream_waits(2, 7, 5);
	stream_waits(3, 5, 6);
	stream_waits(4, 6, 9);
	expect("12 s: deadlock 1: rank 1 (pid 11) waits for b to reach 4 (it is at 3), which rank 2 (pid 12) writes; rank 2 (pid 12) "
	       "waits for c to reach 5 (it is at 3), which rank 3 (pid 13) writes; rank 3 (pid 13) waits for a to reach 6 (it is at "
	       "3), which rank 1 (pid 11) writes: none of them can go on, end one: kill 13\n"
	       "12 s: rank 4 (pid 14) waits for b to reach 9; it is at 3; its writer, rank 2 (pid 12), is in deadlock 1\n");
	assert_int_equal(found.deadlocks, 1);
	expect_about("14", "12 s: rank 4 (pid 14) waits for b to reach 9; it is at 3; its writer, rank 2 (pid 12), is in deadlock 1\n");
}

/* One of its waits leads elsewhere, and nobody knows which one its stream has come to. Of one timeline the lowest value is told. */
static void test_who_waits_elsewhere_too_is_in_no_deadlock(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 3; n++)
		session(n);
	line("a", 5, 1);
	line("b", 6, 2);
	line("c", 7, 3);
	letters[13] = 'T';
	stream_waits(1, 6, 4);
	stream_waits(1, 6, 5);
	stream_waits(1, 7, 4);
	stream_waits(2, 5, 4);
	expect("12 s: rank 1 (pid 11) waits for b to reach 4; it is at 3; its writer, rank 2 (pid 12), waits for a to reach 4; it is at "
	       "3; its writer, rank 1 (pid 11), waits in turn, behind work of its own that may go on\n"
	       "12 s: rank 1 (pid 11) waits for c to reach 4; it is at 3; its writer, rank 3 (pid 13), is stopped by a signal: "
	       "kill -CONT 13\n"
	       "12 s: rank 2 (pid 12) waits for a to reach 4; it is at 3; its writer, rank 1 (pid 11), waits for c to reach 4; it is at "
	       "3; its writer, rank 3 (pid 13), is stopped by a signal: kill -CONT 13\n");
	assert_int_equal(found.deadlocks, 0);
}

/* A process that may go on is in no deadlock, and each of two is told, the one of the lower session first. */
static void test_two_circles(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 5; n++)
		session(n);
	line("a", 11, 1);
	line("b", 12, 2);
	line("c", 13, 3);
	line("d", 14, 4);
	line("e", 15, 5);
	stream_waits(3, 14, 4);
	stream_waits(4, 13, 4);
	stream_waits(5, 11, 4);
	stream_waits(1, 12, 4);
	stream_waits(2, 11, 4);
	assert_int_equal(ask(NULL), 0);
	assert_int_equal(found.deadlocks, 2);
	assert_ptr_equal(strstr(said, "deadlock 1: rank 1 (pid 11) waits for b to reach 4"), said + strlen("12 s: "));
	assert_non_null(strstr(said, "\n12 s: deadlock 2: rank 3 (pid 13) waits for d to reach 4 (it is at 3), which rank 4 (pid 14) "
				     "writes; rank 4 (pid 14) waits for c"));
	assert_non_null(strstr(said, "\n12 s: rank 5 (pid 15) waits for a to reach 4; it is at 3; its writer, rank 1 (pid 11), is in "
				     "deadlock 1\n"));
}

static void test_a_circle_through_the_broker(void **state)
{
	(void)state;
	session(1);
	session(2);
	buffer("u", 5, STATUS_DRAINING);
	uses(1, 2, 5);
	line("a", 6, 1);
	request(STATUS_DRAIN, 1, "u", 5);
	stream_waits(2, 6, 4);
	expect("12 s: deadlock 1: rank 1 (pid 11) waits for u to be freed, which rank 2 (pid 12) uses; rank 2 (pid 12) waits for a to "
	       "reach 4 (it is at 3), which rank 1 (pid 11) writes: none of them can go on, end one: kill 12\n");
}

/* ---- records of nobody's ---- */

/* Whatever they refer to: it ends, the lines are bounded, and the order of the records does not matter. */
static void test_random_records(void **state)
{
	static char before[sizeof said];

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		unsigned sessions = 1 + (unsigned)rand() % 12;

		srand(round);
		count = 0;
		for (unsigned n = 1; n <= sessions; n++)
			session(n)->answer = (uint32_t)rand() % STATUS_ANSWERS;
		for (uint64_t generation = 1; generation <= 20; generation++) {
			char name[16];

			snprintf(name, sizeof name, "b%llu", (unsigned long long)generation);
			buffer(name, generation, (uint32_t)rand() % STATUS_BUFFER_STATES);
			timeline(generation, (uint64_t)rand() % 5, (uint64_t)rand() % 14);
			uses(generation, (uint64_t)rand() % 14, (uint64_t)rand() % 20);
			stream_waits((uint64_t)rand() % 14, (uint64_t)rand() % 22, generation % 6);
			if (generation % 4 == 0)
				request((uint32_t)rand() % STATUS_REQUESTS, (uint64_t)rand() % 14, name, generation);
		}
		for (unsigned n = 0; n < sizeof letters; n++)
			letters[n] = "STtZD"[rand() % 5];
		assert_int_equal(ask(NULL), 0);
		strcpy(before, said);
		shuffle();
		assert_int_equal(ask(NULL), 0);
		assert_string_equal(said, before);
	}
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_nothing_waits),
		ON(test_a_chain_ends_with_what_to_do),
		ON(test_a_stopped_process_is_told_before_what_it_waits_for),
		ON(test_writers),
		ON(test_who_has_not_answered_is_named),
		ON(test_drains),
		ON(test_an_unlinked_buffer_for_which_nobody_waits),
		ON(test_many_holders_are_counted),
		ON(test_creates),
		ON(test_quotas),
		ON(test_a_circle_is_told_once),
		ON(test_who_waits_elsewhere_too_is_in_no_deadlock),
		ON(test_two_circles),
		ON(test_a_circle_through_the_broker),
		ON(test_random_records),
	};

	return cmocka_run_group_tests_name("why", tests, NULL, NULL);
}
