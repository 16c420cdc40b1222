/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-jobs.c - the order in which a device's thread carries out what the loop submits (memory/job-queue.h); that all
 * of it is done and handed back (memory/jobs.h, owner/serve.h); and what comes along.
 *
 * The device is a list of what it was called for. Its thread is kept in a call, the gate, behind which the queue is
 * filled; then it is let go.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/memory/jobs.h"
#include "common/error.h"
#include "tests/unit/broker/failing.h"
#include "tests/unit/broker/owner-thread.h"

#define ALICE 4001
#define BOB   4002
#define CAROL 4003
#define MANY  1000

#define PATIENCE_MS 5000

#define GATE       ((uint64_t)INT32_MAX)  /* the number of a call that waits until it may go on */
#define MEMORIES   32                     /* memory with the numbers from 1 on, which setup() makes */

static struct jobs jobs;
static struct owner_link link_to_owner;
static struct event_base *base;
static sem_t there, go; /* the thread is at the gate; it may go on */
/* Numbers of jobs, which are their sizes, memory or pids: what the device was called for, and what came back. */
static uint64_t called[MANY + 8], handed_back[MANY + 8];
static unsigned calls, handed; /* calls: the thread's until it has ended, or all that was submitted came back */
static sigset_t blocked;       /* in the thread */
static bool making;         /* setup() makes memory, which is not noted */
static int exported = -1;   /* the descriptor of new memory */

/* ---- the device ---- */

static int note(uint64_t number)
{
	if (calls < sizeof called / sizeof *called)
		called[calls++] = number;
	return 0;
}

static void wait_at_gate(void)
{
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	sem_post(&there);
	while (sem_wait(&go))
		;
}

static int fake_allocate(int ordinal, uint64_t size, unsigned kind, void **ptr)
{
	(void)ordinal, (void)kind;
	*ptr = NULL;
	if (making)
		*ptr = (void *)(uintptr_t)size;
	else if (size == GATE)
		wait_at_gate();
	else
		note(size);
	return 0;
}

static int fake_zero(int ordinal, void *ptr, uint64_t size)
{
	(void)ordinal, (void)size;
	/* that of an allocation is not noted */
	return ptr && !making ? note((uint64_t)(uintptr_t)ptr) : 0;
}

static int fake_export(int ordinal, void *ptr, struct device_handle *handle, int *descriptor)
{
	(void)ordinal, (void)ptr, (void)handle;
	*descriptor = exported;
	return 0;
}

static int fake_release(int ordinal, void *ptr)
{
	(void)ordinal;
	return note((uint64_t)(uintptr_t)ptr);
}

static int fake_room(int ordinal, uint64_t *bytes)
{
	(void)ordinal;
	*bytes = 0;
	return 0;
}

static int fake_gone(pid_t pid, bool mps)
{
	(void)mps;
	if (pid == (pid_t)GATE)
		wait_at_gate();
	else
		note((uint64_t)pid);
	return error_set(-EBUSY, "%d is not gone", pid);
}

static int names_result; /* of the next names_restore() */

static int fake_names_restore(void)
{
	return names_result < 0 ? error_set(names_result, "no names") : names_result;
}

static const struct device fake = { .kind = DEVICE_HOST,
				    .allocate = fake_allocate,
				    .zero = fake_zero,
				    .export_handle = fake_export,
				    .release = fake_release,
				    .room = fake_room,
				    .names_restore = fake_names_restore,
				    .gone = fake_gone };

/* ---- the jobs ---- */

static uint64_t job_number(const struct job *job)
{
	return job->order.kind == ORDER_ALLOCATE ? job->order.size :
	       job->order.kind == ORDER_GONE	 ? (uint64_t)job->order.pid :
						   job->order.memory;
}

static bool is_filler(const struct job *job)
{
	return job_number(job) == GATE || job->order.kind == ORDER_ROOM || job->order.kind == ORDER_NAMES;
}

static void done(struct job *job)
{
	if (!is_filler(job))
		handed_back[handed++] = job_number(job);
	if (job->order.kind == ORDER_GONE) {
		assert_int_equal(job->outcome.error, -EBUSY);
		assert_non_null(strstr(job->outcome.text, "is not gone"));
	}
	free(job);
}

static void submit(enum order_kind kind, uid_t uid, uint64_t number)
{
	struct job *job = calloc(1, sizeof *job);

	assert_non_null(job);
	job->order.kind = kind;
	job->descriptor = -1;
	job->order.uid = uid;
	job->order.size = kind == ORDER_ALLOCATE ? number : 0;
	job->order.memory = kind == ORDER_RELEASE || kind == ORDER_ZERO ? number : 0;
	job->order.pid = kind == ORDER_GONE ? (pid_t)number : 0;
	job->done = done;
	jobs_submit(&jobs, job);
}

static void create(uid_t uid, uint64_t number)
{
	submit(ORDER_ALLOCATE, uid, number);
}

static void expect_at_gate(void)
{
	while (sem_trywait(&there)) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		poll(NULL, 0, 1);
	}
}

/* Fills what the owner may have of a lane, with orders that change nothing. */
static void fill(enum order_kind kind, uid_t uid)
{
	const struct lane *lane = &jobs.lane[kind == ORDER_NAMES ? jobs.lanes - 1 : 0];

	while (lane->count < LANE_ORDERS && !lane->held)
		submit(kind, uid, 0);
}

/* From now on until open_gate() all that is submitted is queued: the owner has LANE_ORDERS orders. */
static void close_gate(uid_t uid)
{
	create(uid, GATE);
	fill(ORDER_ROOM, uid);
	expect_at_gate();
}

/* The same of questions, which are asked on a thread of their own. */
static void close_gate_of_questions(uid_t uid)
{
	submit(ORDER_GONE, uid, GATE);
	fill(ORDER_NAMES, uid);
	expect_at_gate();
}

static void finish(void)
{
	while (jobs.pending)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

static void open_gate(void)
{
	assert_int_equal(sem_post(&go), 0);
	finish();
}

static void expect_order(const uint64_t *order, unsigned count)
{
	assert_int_equal(calls, count);
	assert_memory_equal(called, order, count * sizeof *order);
	/* and so they come back */
	assert_int_equal(handed, count);
	assert_memory_equal(handed_back, order, count * sizeof *order);
}

#define EXPECT_ORDER(...)                                                            \
	do {                                                                         \
		const uint64_t order[] = { __VA_ARGS__ };                            \
		expect_order(order, (unsigned)(sizeof order / sizeof *order));       \
	} while (0)

static void lost(void *context)
{
	(void)context;
	fail_msg("the owner has ended");
}

static int start(void)
{
	return owner_thread_begin_with(&link_to_owner, &fake, 1) ||
	       jobs_start(&jobs, base, link_to_owner.lane, link_to_owner.lanes, lost, &jobs);
}

static void stop(void)
{
	jobs_stop(&jobs);
	owner_thread.end(&link_to_owner);
}

static int setup(void **state)
{
	(void)state;
	base = event_base_new();
	if (!base || sem_init(&there, 0, 0) || sem_init(&go, 0, 0) || start())
		return -1;
	handed = 0;
	making = true;
	for (uint64_t i = 1; i <= MEMORIES; i++)
		create(ALICE, i);
	while (jobs.pending)
		event_base_loop(base, EVLOOP_ONCE);
	calls = handed = 0;
	making = false;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	/* where the test failed with the gate closed */
	sem_post(&go);
	stop();
	event_base_free(base);
	return sem_destroy(&there) || sem_destroy(&go);
}

/* ---- the tests ---- */

static void test_one_users_jobs_come_in_their_order(void **state)
{
	(void)state;
	close_gate(ALICE);
	for (uint64_t i = 1; i <= 4; i++)
		create(ALICE, i);
	open_gate();
	EXPECT_ORDER(1, 2, 3, 4);
}

static void test_users_are_served_in_turn(void **state)
{
	(void)state;
	close_gate(ALICE);
	for (uint64_t i = 1; i <= 4; i++)
		create(ALICE, 10 + i);
	create(BOB, 21);
	create(BOB, 22);
	create(CAROL, 31);
	open_gate();
	EXPECT_ORDER(11, 21, 31, 12, 22, 13, 14);
}

/* Invariant 5: no client slows another user's; it waits for one job of the flooder, not for all. */
static void invariant_5_a_flood_delays_another_user_by_one_job(void **state)
{
	(void)state;
	close_gate(ALICE);
	for (uint64_t i = 1; i <= MANY; i++)
		create(ALICE, i);
	create(BOB, MANY + 1);
	create(CAROL, MANY + 2);
	open_gate();
	assert_int_equal(calls, MANY + 2);
	assert_int_equal(called[0], 1);
	assert_int_equal(called[1], MANY + 1);
	assert_int_equal(called[2], MANY + 2);
	for (unsigned i = 3; i < calls; i++)
		assert_int_equal(called[i], i - 1);
}

/* A question is charged to the user of the dead process: many deaths ask many questions. */
static void test_questions_are_served_in_turn_too(void **state)
{
	(void)state;
	close_gate_of_questions(BOB);
	for (uint64_t i = 1; i <= 3; i++)
		submit(ORDER_GONE, ALICE, i);
	submit(ORDER_GONE, BOB, 4);
	submit(ORDER_GONE, BOB, 5);
	open_gate();
	EXPECT_ORDER(1, 4, 2, 5, 3);
}

static void wait_for(unsigned count)
{
	for (int tries = 0; tries < PATIENCE_MS && handed < count; tries++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		poll(NULL, 0, 1);
	}
	assert_int_equal(handed, count);
}

/* Each behind nothing of the other's: a device may hang for good, and NVML may. */
static void invariant_5_devices_and_questions_do_not_wait_for_each_other(void **state)
{
	(void)state;
	close_gate(ALICE);
	submit(ORDER_GONE, ALICE, 1);
	submit(ORDER_GONE, BOB, 2);
	wait_for(2);
	open_gate();
	close_gate_of_questions(ALICE);
	create(ALICE, 3);
	submit(ORDER_RELEASE, BOB, 4);
	wait_for(4);
	open_gate();
}

/* What takes long is with the owner in pairs, what is short in numbers. */
static void test_the_owner_has_few_orders_at_a_time(void **state)
{
	(void)state;
	close_gate(ALICE); /* which is an order of 2 GiB */
	assert_int_equal(jobs.lane[0].count, LANE_LEAST);
	open_gate();
	assert_int_equal(jobs.lane[0].bytes, 0);
	close_gate_of_questions(ALICE);
	assert_int_equal(jobs.lane[1].count, LANE_ORDERS);
	submit(ORDER_GONE, ALICE, 1);
	assert_int_equal(jobs.lane[1].count, LANE_ORDERS);
	open_gate();
	assert_int_equal(jobs.lane[1].count, 0);
}

static void test_releases_and_others_alternate(void **state)
{
	(void)state;
	close_gate(ALICE);
	create(ALICE, 1);
	submit(ORDER_RELEASE, ALICE, 2);
	create(BOB, 3);
	submit(ORDER_RELEASE, BOB, 4);
	submit(ORDER_RELEASE, ALICE, 5);
	create(BOB, 6);
	open_gate();
	EXPECT_ORDER(2, 1, 4, 3, 5, 6);
}

/* All the memory of a user who died may be zeroed for the pool: its next create does not wait for that. */
static void test_a_create_does_not_wait_for_all_zeroing(void **state)
{
	(void)state;
	close_gate(ALICE);
	submit(ORDER_ZERO, ALICE, 1);
	submit(ORDER_ZERO, ALICE, 2);
	submit(ORDER_ZERO, BOB, 3);
	create(ALICE, 4);
	submit(ORDER_RELEASE, ALICE, 5);
	open_gate();
	EXPECT_ORDER(1, 5, 4, 3, 2);
}

/* A user who was served and has no other job waiting comes behind the others with its next job. */
static void test_a_new_queue_is_the_last(void **state)
{
	(void)state;
	close_gate(ALICE);
	create(BOB, 1);
	create(CAROL, 2);
	create(CAROL, 3);
	create(ALICE, 4);
	open_gate();
	EXPECT_ORDER(1, 2, 4, 3);
}

/* A job comes to the end of its user's queue, whether or not the user was served and has other jobs. */
static void test_queues_grow_while_others_are_served(void **state)
{
	(void)state;
	close_gate(BOB);
	create(ALICE, 1);
	create(ALICE, GATE);
	create(ALICE, 2);
	create(ALICE, 3);
	create(BOB, 4);
	assert_int_equal(sem_post(&go), 0);
	expect_at_gate();
	wait_for(2);
	create(ALICE, 5);
	create(ALICE, 7);
	create(BOB, 6);
	open_gate();
	EXPECT_ORDER(1, 4, 2, 3, 5, 6, 7); /* 2 and 3 were taken from the queue before */
}

/* More users than there are buckets, many of them in one: each has its own queue. */
static void test_any_number_of_users_are_served_in_turn(void **state)
{
	const unsigned users = 3 * USER_BUCKETS;

	(void)state;
	close_gate(ALICE);
	for (unsigned i = 0; i < 2 * users; i++)
		create(BOB + (i % users) * (i % 2 ? 1 : USER_BUCKETS), i + 1);
	open_gate();
	assert_int_equal(calls, 2 * users);
	for (unsigned i = 0; i < calls; i++)
		assert_int_equal(called[i], i + 1);
}

/* Each queue was empty, and filled again, in every way. */
static void test_a_queue_that_was_empty_goes_on(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 3; i++) {
		calls = handed = 0;
		close_gate(BOB);
		submit(ORDER_RELEASE, BOB, 10 * i + 1);
		create(ALICE, 2);
		create(BOB, 3);
		submit(ORDER_RELEASE, BOB, 10 * i + 4);
		create(ALICE, 5);
		open_gate();
		EXPECT_ORDER(10 * i + 1, 2, 10 * i + 4, 3, 5);
	}
}

/* What was submitted is done before the threads end, so that memory is freed. */
static void test_a_stop_does_what_was_submitted(void **state)
{
	(void)state;
	close_gate(ALICE);
	for (uint64_t i = 1; i <= MANY; i++)
		create(ALICE, i);
	submit(ORDER_RELEASE, ALICE, 4);
	assert_int_equal(sem_post(&go), 0);
	stop();
	assert_int_equal(calls, MANY + 1);
	assert_int_equal(handed, 0);
	assert_int_equal(start(), 0);
}

static int events_in_loop(void)
{
	return event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED);
}

static void test_a_stop_leaves_no_event_in_the_loop(void **state)
{
	(void)state;
	assert_int_equal(events_in_loop(), 2);
	stop();
	assert_int_equal(events_in_loop(), 0);
	assert_int_equal(start(), 0);
}

/* Each of the calls for memory fails once. */
static void test_a_start_without_memory_is_undone(void **state)
{
	unsigned calls_made = 0;
	int error;

	(void)state;
	jobs_stop(&jobs);
	for (;; calls_made++) {
		fail_after(calls_made);
		error = jobs_start(&jobs, base, link_to_owner.lane, link_to_owner.lanes, lost, &jobs);
		if (!fail_ended())
			break;
		assert_int_equal(error, -ENOMEM);
		assert_int_equal(events_in_loop(), 0);
	}
	assert_int_equal(error, 0);
	assert_int_equal(calls_made, 6); /* a timer, the lanes, and the event of each lane and its adding */
}

static struct outcome made;

static void note_made(struct job *job)
{
	made = job->outcome;
	assert_int_equal(job->order.kind, ORDER_ALLOCATE);
	free(job);
}

static void note_names(struct job *job)
{
	made = job->outcome;
	free(job);
}

static void expect_names(int result, bool renamed, int error)
{
	struct job *job = calloc(1, sizeof *job);

	assert_non_null(job);
	names_result = result;
	job->order.kind = ORDER_NAMES;
	job->done = note_names;
	jobs_submit(&jobs, job);
	finish();
	assert_int_equal(made.renamed, renamed);
	assert_int_equal(made.error, error);
	if (error)
		assert_string_equal(made.text, "no names");
}

static void test_what_became_of_names_is_told(void **state)
{
	(void)state;
	expect_names(0, false, 0);
	expect_names(1, true, 0);
	expect_names(-EACCES, false, -EACCES);
	names_result = 0;
}

static void create_exported(void)
{
	struct job *job = calloc(1, sizeof *job);

	assert_non_null(job);
	job->order = (struct order){ .kind = ORDER_ALLOCATE, .size = 77, .exported = EXPORT_VMM };
	job->done = note_made;
	making = true;
	exported = STDIN_FILENO;
	jobs_submit(&jobs, job);
	finish();
	making = false;
	exported = -1;
}

static void test_a_descriptor_comes_along(void **state)
{
	(void)state;
	create_exported();
	assert_int_equal(made.error, 0);
	assert_true(made.descriptor > STDERR_FILENO);
	assert_int_equal(fcntl(made.descriptor, F_GETFD), FD_CLOEXEC);
	assert_int_equal(close(made.descriptor), 0);
}

/* Memory that the broker has no descriptor for is freed again, and the create fails. */
static void test_memory_without_a_descriptor_is_freed(void **state)
{
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	create_exported();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(made.error, -EMFILE);
	assert_non_null(strstr(made.text, "ulimit -n"));
	assert_int_equal(calls, 1);
	assert_int_equal(called[0], 77);
}

static void test_the_threads_leave_signals_to_the_program(void **state)
{
	(void)state;
	close_gate(ALICE);
	for (int number = 1; number <= SIGSYS; number++)
		if (number != SIGKILL && number != SIGSTOP)
			assert_int_equal(sigismember(&blocked, number), 1);
	open_gate();
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_one_users_jobs_come_in_their_order),
		ON(test_users_are_served_in_turn),
		ON(invariant_5_a_flood_delays_another_user_by_one_job),
		ON(test_questions_are_served_in_turn_too),
		ON(invariant_5_devices_and_questions_do_not_wait_for_each_other),
		ON(test_the_owner_has_few_orders_at_a_time),
		ON(test_releases_and_others_alternate),
		ON(test_a_create_does_not_wait_for_all_zeroing),
		ON(test_a_new_queue_is_the_last),
		ON(test_queues_grow_while_others_are_served),
		ON(test_any_number_of_users_are_served_in_turn),
		ON(test_a_queue_that_was_empty_goes_on),
		ON(test_a_stop_does_what_was_submitted),
		ON(test_a_stop_leaves_no_event_in_the_loop),
		ON(test_a_start_without_memory_is_undone),
		ON(test_what_became_of_names_is_told),
		ON(test_a_descriptor_comes_along),
		ON(test_memory_without_a_descriptor_is_freed),
		ON(test_the_threads_leave_signals_to_the_program),
	};

	return cmocka_run_group_tests_name("jobs", tests, NULL, NULL);
}
