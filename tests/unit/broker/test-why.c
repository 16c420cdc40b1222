/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-why.c - what is said of waits, from records that are made by hand: chains, processes in every state, and records
 * that say what no broker would. test-why-circles.c has the deadlocks.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "why-records.h"

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
	expect_about("11", "rank 1 (pid 11) runs and waits for nothing that the broker knows of: gdb -p 11 shows what "
			   "it does\n");
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
	expect("12 s: rank 1 (pid 11) waits for a to reach 4; it is at 3; its writer, rank 2 (pid 12), waits for b to "
	       "reach 7; it is at 3; its writer, rank 3 (pid 13), is stopped by a signal: kill -CONT 13\n"
	       "12 s: rank 2 (pid 12) waits for b to reach 7; it is at 3; its writer, rank 3 (pid 13), is stopped by a "
	       "signal: kill -CONT 13\n");
	assert_int_equal(found.deadlocks, 0);
	expect_about("12", "12 s: rank 2 (pid 12) waits for b to reach 7; it is at 3; its writer, rank 3 (pid 13), is "
			   "stopped by a signal: kill -CONT 13\n");
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
	expect("12 s: rank 1 (pid 11) waits for a to reach 4; it is at 3; its writer, rank 9 (pid 19, in a container), "
	       "is stopped by a signal: kill -CONT 19\n");
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
	expect("12 s: rank 1 (pid 11) waits for a to reach 4; it is at 3; nobody has signalled it yet: start the "
	       "process that is to\n"
	       "12 s: rank 1 (pid 11) waits for b to reach 4; it is at 3; it is its own writer, and has to signal it "
	       "from another stream: gdb -p 11 shows what it does\n"
	       "12 s: rank 1 (pid 11) waits for c to reach 4; it is at 3; its writer, rank 2 (pid 12), does not answer "
	       "the broker: gdb -p 12 shows what it does\n"
	       "12 s: rank 1 (pid 11) waits for d to reach 4; it is at 3; its writer, rank 3 (pid 13), has an older "
	       "library, which does not say what it waits for: gdb -p 13 shows it\n"
	       "12 s: rank 1 (pid 11) waits for e to reach 4; it is at 3; its writer is gone\n");
}

static void test_who_has_not_answered_is_named(void **state)
{
	(void)state;
	session(1)->answer = STATUS_OWES_ANSWER;
	session(2)->answer = STATUS_OWES_ANSWER;
	letters[12] = 'T';
	expect("rank 1 (pid 11) has not said what it waits for, and does not answer the broker: gdb -p 11 shows what "
	       "it does\n"
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
	grants(1, 2, 5);
	grants(2, 3, 5)->orphaned = 1;
	grants(3, 4, 5);
	request(STATUS_DRAIN, 1, "u", 5);
	expect("5 min: rank 1 (pid 11) waits for u to be freed; it is used by rank 2 (pid 12), which runs and has not "
	       "closed it: broker-ctl evict 2 --kill ends it, and by solver (pid 13), which has closed it, and has to "
	       "end because it is another user's: kill 13, and by rank 4 (pid 14), which has closed its connection and "
	       "still runs: kill 14\n");
}

static void test_an_unlinked_buffer_for_which_nobody_waits(void **state)
{
	(void)state;
	session(2);
	buffer("u", 5, STATUS_DRAINING);
	grants(1, 2, 5);
	expect("Nothing waits.\n");
	expect_about("u", "u is unlinked and used by rank 2 (pid 12), which runs and has not closed it: broker-ctl "
			  "evict 2 --kill ends it\n");
}

/* ---- the owner of the device memory ---- */

#define NEXT "the next owner of the device memory, which the broker starts\n"

static void test_memory_that_ended_with_its_owner(void **state)
{
	(void)state;
	owner(STATUS_OWNER_RUNS);
	session(2);
	buffer("u", 5, STATUS_DRAINING)->flags |= STATUS_ENDED;
	grants(1, 2, 5);
	expect_about("u", "u is unlinked and used by rank 2 (pid 12), which runs and has not closed it: broker-ctl "
			  "evict 2 --kill ends it; its memory ended with the process that owned it, and whoever maps "
			  "it reads on\n");
}

static void test_what_waits_for_the_next_owner(void **state)
{
	(void)state;
	owner(STATUS_OWNER_STARTS);
	session(1);
	session(2)->state = STATUS_DYING;
	buffer("u", 5, STATUS_FREEING);
	buffer("v", 6, STATUS_CREATING)->created = NOW_MS / 1000 - 3;
	buffer("w", 7, STATUS_DRAINING);
	grants(1, 2, 7);
	request(STATUS_DRAIN, 1, "u", 5);
	expect("2 min: no process owns the device memory, because the last one (pid 7) has ended: creates and drains "
	       "wait for " NEXT
	       "5 min: rank 1 (pid 11) waits for u to be freed; it is used by nobody: its memory is about to be freed, "
	       "and that waits for " NEXT
	       "3 s: the create of v waits for " NEXT);
	expect_about("v", "3 s: the create of v waits for " NEXT);
	expect_about("w", "w is unlinked and used by rank 2 (pid 12), which is dead, and the driver has not ended its "
			  "work yet, and the question whether it has waits for " NEXT);
}

static void test_a_process_that_may_wait_for_the_next_owner(void **state)
{
	(void)state;
	owner(STATUS_OWNER_STARTS);
	session(1);
	expect_about("11", "rank 1 (pid 11) runs; what it creates or drains waits for " NEXT);
}

static void test_a_create_without_memory_and_without_an_owner(void **state)
{
	(void)state;
	owner(STATUS_OWNER_STARTS);
	session(1);
	buffer("v", 6, STATUS_CREATING);
	request(STATUS_CREATE, 1, "v", 6);
	expect_about("v", "5 min: rank 1 (pid 11) waits for 8 MiB of device 0 to create v; any of it waits for the "
			  "next owner of the device memory, which the broker starts; no buffer of this broker has it: "
			  "look for other programs on the device\n");
}

static void test_no_other_owner_starts(void **state)
{
	(void)state;
	owner(STATUS_OWNER_FAILED);
	expect("2 min: no process owns the device memory, because the last one (pid 7) has ended: creates and drains "
	       "wait for another owner of the device memory, and none starts any more: the broker ends\n");
	assert_int_equal(ask_as(NULL, false, true), 0); /* of a dead broker nothing waits for one */
	assert_string_equal(said, "Nothing waits.\n");
}

static void test_many_holders_are_counted(void **state)
{
	(void)state;
	buffer("u", 5, STATUS_DRAINING);
	for (unsigned n = 1; n <= 20; n++) {
		session(n);
		grants(n, n, 5);
	}
	request(STATUS_DRAIN, 0, "u", 5);
	assert_int_equal(ask(NULL), 0);
	assert_non_null(strstr(said, "the broker waits for u to be freed; it is used by rank 1 (pid 11), which"));
	assert_non_null(strstr(said, "rank 4 (pid 14), which runs and has not closed it: broker-ctl evict 4 --kill "
				     "ends it, and by 16 more\n"));
}

static void test_creates(void **state)
{
	(void)state;
	add(TRACKED_DEVICE)->device.bytes = 16 * MIB;
	session(1);
	session(2);
	request(STATUS_CREATE, 1, "new", 9);
	buffer("new", 9, STATUS_CREATING);
	expect("5 min: rank 1 (pid 11) waits for 8 MiB of device 0 to create new; no buffer of this broker has it: "
	       "look for other programs on the device\n");
	buffer("large", 5, STATUS_LIVE)->allocated = 8 * MIB;
	buffer("small", 6, STATUS_LIVE);
	request(STATUS_ACQUIRE, 2, "new", 0);
	expect("5 min: rank 1 (pid 11) waits for 8 MiB of device 0 to create new; 2 buffers take 12 MiB of its 16 MiB, "
	       "the largest is large (8 MiB): broker-ctl drain large\n"
	       "5 min: rank 2 (pid 12) waits for a buffer new; its creator, rank 1 (pid 11), waits for 8 MiB of device "
	       "0 to create new; 2 buffers take 12 MiB of its 16 MiB, the largest is large (8 MiB): broker-ctl drain "
	       "large\n");
	request(STATUS_ACQUIRE, 1, "none", 0);
	expect_about("none", "5 min: rank 1 (pid 11) waits for a buffer none; nobody has created it: start the process "
			     "that is to, or broker-ctl create none SIZE\n");
}

static void test_what_brings_a_newer_buffer(void **state)
{
	(void)state;
	session(1);
	request(STATUS_NEWER, 1, "u", 0);
	expect_about("u", "5 min: rank 1 (pid 11) waits for a newer buffer u; nobody has published one: it comes with "
			  "a rename to u, a create, or a resize\n");
}

static void test_growth(void **state)
{
	(void)state;
	add(TRACKED_DEVICE)->device.bytes = 16 * MIB;
	session(1);
	request(STATUS_CREATE, 1, "g", 9);
	buffer("g", 9, STATUS_LIVE)->allocated = 8 * MIB;
	expect("5 min: rank 1 (pid 11) waits for 8 MiB of device 0 to enlarge g; 1 buffer takes 8 MiB of its 16 MiB, "
	       "the largest is g (8 MiB): broker-ctl drain g\n");
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
	       "user 7 holds 39 MiB of the 40 MiB of its quota: what needs more is refused at once; end some, or raise "
	       "the quota in brokerd.conf\n"
	       "user 7 holds 2 of the 2 buffers of its quota: what needs more is refused at once; end some, or raise "
	       "the quota in brokerd.conf\n");
}

/* ---- processes that are dead, or seem to be ---- */

/* It has a lease itself of what it wants to be freed. */
static void test_a_drain_of_ones_own(void **state)
{
	(void)state;
	session(1);
	session(2);
	buffer("u", 5, STATUS_DRAINING);
	grants(1, 1, 5);
	grants(2, 2, 5);
	request(STATUS_DRAIN, 1, "u", 5);
	expect("5 min: rank 1 (pid 11) waits for u to be freed; it is used by rank 1 (pid 11), which waits for itself: "
	       "it has to return its own lease first, and by rank 2 (pid 12), which runs and has not closed it: "
	       "broker-ctl evict 2 --kill ends it\n");
}

static void expect_holder(const char *does)
{
	char wanted[512];

	snprintf(wanted, sizeof wanted,
		 "5 min: rank 1 (pid 11) waits for u to be freed; it is used by rank 2 (pid 12), which %s\n", does);
	expect(wanted);
}

static void test_zombies(void **state)
{
	struct status_session *holder;

	(void)state;
	session(1);
	holder = session(2);
	buffer("u", 5, STATUS_DRAINING);
	grants(1, 2, 5);
	request(STATUS_DRAIN, 1, "u", 5);
	letters[12] = 'Z';
	holder->state = STATUS_ORPHANED;
	assert_int_equal(ask(NULL), 0);
	assert_non_null(
		strstr(said, "which is dead, and a process that it started has its connection: end that one\n"));
	holder->state = STATUS_DYING;
	assert_int_equal(ask(NULL), 0);
	assert_non_null(strstr(said, "which is dead, and the driver has not ended its work yet\n"));
	holder->state = STATUS_OPEN;
	expect_holder("is dead, and its parent has not waited for it yet");
	headless = true;
	expect_holder("runs, without its main thread, which has ended, and has not closed it: broker-ctl evict 2 "
		      "--kill ends it");
}

/* ---- records of nobody's ---- */

#define MANY 8000

/* What is said of a buffer does not cost as much as all who use it, nor that of a device as much as all its buffers. */
static void test_many_records_take_a_moment(void **state)
{
	clock_t began;

	(void)state;
	for (unsigned n = 1; n <= 40; n++) {
		session(n);
		buffer("b", n, STATUS_DRAINING)->allocation = 7;
		request(STATUS_CREATE, n, "b", 90);
	}
	for (unsigned i = 0; i < MANY; i++) {
		grants(1 + i, 1 + i % 40, 1000 + i)->allocation = 7;
		request(STATUS_DRAIN, 1 + i % 40, "b", 1 + i % 40);
	}
	began = clock();
	assert_int_equal(ask(NULL), 0);
	assert_true((clock() - began) / CLOCKS_PER_SEC < 5);
	assert_int_equal(found.lines, MANY + 40);
}


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
			grants(generation, (uint64_t)rand() % 14, (uint64_t)rand() % 20);
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
		ON(test_memory_that_ended_with_its_owner),
		ON(test_what_waits_for_the_next_owner),
		ON(test_a_process_that_may_wait_for_the_next_owner),
		ON(test_a_create_without_memory_and_without_an_owner),
		ON(test_no_other_owner_starts),
		ON(test_creates),
		ON(test_what_brings_a_newer_buffer),
		ON(test_growth),
		ON(test_quotas),
		ON(test_a_drain_of_ones_own),
		ON(test_zombies),
		ON(test_many_records_take_a_moment),
		ON(test_random_records),
	};

	return cmocka_run_group_tests_name("why", tests, NULL, NULL);
}
