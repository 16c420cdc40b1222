/* SPDX-License-Identifier: Apache-2.0 */
/* timelines.c - order between the streams of processes: one writer, and what its end means for those that wait. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet a, b;

/* Two clients with a stream each hold "t", which has a timeline. */
static void begin(void)
{
	broker_start(&broker, "host");
	puppet_start(&a, &broker);
	puppet_start(&b, &broker);
	ask(&a, do_stream);
	ask(&b, do_stream);
	ask(&a, do_create, .name = "t", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "t");
	ask(&b, do_acquire, .name = "t");
}

static void end(void)
{
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* Whether work behind the waits so far is still waiting: none of it has got to the lease's first word. */
static bool parked(struct puppet *puppet, uint64_t value)
{
	return !ask(puppet, do_read) && puppet->last.value != value;
}

static void test_order(void)
{
	begin();
	POINT(!ask(&b, do_timeline) && !b.last.value, "a timeline begins at 0");
	POINT(!ask(&b, do_wait, .value = 3) && !ask(&b, do_late_write, .value = 30),
	      "a stream is queued behind a value that is not reached yet");
	POINT(!ask(&a, do_signal, .value = 2) && !ask(&a, do_sync), "the writer signals a lower one");
	POINT(!ask(&b, do_timeline) && b.last.value == 2, "it is seen in the other process");
	POINT(parked(&b, 30), "the stream waits on");
	ask(&a, do_late_write, .value = 10, .timeout = 50);
	ask(&a, do_signal, .value = 3);
	POINT(!ask(&b, do_sync) && !ask(&b, do_read) && b.last.value == 30,
	      "what waited in one process runs behind what the other queued before the signal");
	POINT(!ask(&a, do_wait, .value = 1) && !ask(&a, do_sync), "a value that was passed is not waited for");
	end();
}

static void test_one_writer(void)
{
	begin();
	POINT(!ask(&a, do_signal, .value = 5), "the first that signals is the writer");
	POINT(ask(&b, do_signal, .value = 6) == -EBUSY &&
		      strstr(b.last.text, "make a buffer with a timeline for each writer"),
	      "a second writer: EBUSY, %s", b.last.text);
	POINT(ask(&a, do_signal, .value = 5) == -EINVAL && ask(&a, do_signal, .value = 4) == -EINVAL,
	      "values must grow: EINVAL");
	POINT(ask(&a, do_signal, .value = GPUB_TIMELINE_MAX + 1) == -EINVAL &&
		      ask(&b, do_wait, .value = GPUB_TIMELINE_MAX + 1) == -EINVAL,
	      "a value beyond the largest: EINVAL");
	POINT(!ask(&a, do_signal, .value = GPUB_TIMELINE_MAX) && !ask(&b, do_wait, .value = GPUB_TIMELINE_MAX) &&
		      !ask(&b, do_sync) && !ask(&b, do_timeline) && b.last.value == GPUB_TIMELINE_MAX,
	      "the largest itself is reached");
	ask(&a, do_create, .name = "plain");
	ask(&a, do_acquire, .name = "plain", .slot = 1);
	POINT(ask(&a, do_signal, .slot = 1, .value = 1) == -EINVAL && ask(&a, do_wait, .slot = 1) == -EINVAL &&
		      ask(&a, do_timeline, .slot = 1) == -EINVAL,
	      "a buffer without a timeline: EINVAL");
	end();
}

static void test_thread_waits(void)
{
	begin();
	POINT(!ask(&b, do_await, .value = 0) && !b.last.value, "a thread that waits for 0 reads the timeline");
	POINT(ask(&b, do_await, .value = 1) == -ETIMEDOUT && ask(&b, do_await, .value = 1, .timeout = 20) == -ETIMEDOUT,
	      "a value that is not reached in time: ETIMEDOUT");
	tell(&b, do_await, .value = 3, .timeout = -1);
	ask(&a, do_signal, .value = 2);
	POINT(!ask(&a, do_sync) && !ask(&a, do_timeline) && a.last.value == 2 && !puppet_answered(&b),
	      "a lower value does not end its wait");
	ask(&a, do_signal, .value = 4);
	POINT(!receive(&b) && b.last.value == 4, "a higher one does, and the thread learns which");
	POINT(ask(&b, do_await, .value = GPUB_TIMELINE_MAX + 1) == -EINVAL &&
		      ask(&b, do_await, .timeout = -2) == -EINVAL,
	      "a value, or a timeout, that cannot be: EINVAL");
	tell(&b, do_await, .value = 5, .timeout = -1);
	puppet_end(&a);
	POINT(receive(&b) == -EOWNERDEAD && !ask(&b, do_await, .value = 4),
	      "a writer that leaves before the value: EOWNERDEAD");
	puppet_end(&b);
	broker_end(&broker);
}

static void test_writer_killed(void)
{
	begin();
	ask(&b, do_acquire, .name = "t", .slot = 1);
	ask(&a, do_signal, .value = 1);
	ask(&a, do_sync);
	ask(&b, do_wait, .value = 1000);
	tell(&b, do_sync);
	puppet_kill(&a);
	POINT(!receive(&b), "a wait for a writer that is killed is released");
	POINT(ask(&b, do_timeline) == -EOWNERDEAD, "and told: EOWNERDEAD");
	POINT(!ask(&b, do_await, .value = 1) && b.last.value == 1 &&
		      !ask(&b, do_await, .value = 0) && b.last.value == 1,
	      "what the writer had reached can still be read");
	POINT(ask(&b, do_await, .value = 2, .timeout = -1) == -EOWNERDEAD, "and a thread does not wait for more");
	POINT(!ask(&b, do_wait, .value = GPUB_TIMELINE_MAX) && !ask(&b, do_sync), "later waits do not hang either");
	POINT(ask(&b, do_signal, .value = 2000) == -EOWNERDEAD, "nobody takes the writer's place");
	POINT(SOON(status_counter(&broker, "timelines_died") == 1), "the status counts it");
	puppet_end(&b);
	broker_end(&broker);
}

/* A writer that dies before its first signal: the creator is waited for all the same. */
static void test_creator_killed(void)
{
	begin();
	ask(&b, do_wait, .value = 1);
	tell(&b, do_sync);
	puppet_kill(&a);
	POINT(!receive(&b), "a wait for a first signal is released when the creator is killed");
	POINT(ask(&b, do_timeline) == -EOWNERDEAD, "and told: EOWNERDEAD");
	puppet_end(&b);
	broker_end(&broker);
}

static void test_writer_leaves(void)
{
	begin();
	ask(&a, do_late_write, .value = 1, .timeout = 50);
	ask(&a, do_signal, .value = 7);
	ask(&b, do_wait, .value = 1000);
	tell(&b, do_sync);
	puppet_end(&a);
	POINT(!receive(&b), "a wait for more than the writer signalled is released when it disconnects");
	POINT(!ask(&b, do_timeline) && b.last.value == 7, "the timeline keeps its last value");
	puppet_end(&b);
	broker_end(&broker);
}

/* A reader that dies, and one that is stopped, are nothing to the writer. */
static void test_reader_killed(void)
{
	pid_t reader;

	begin();
	reader = b.pid;
	ask(&b, do_wait, .value = 1000);
	stop_child(b.pid);
	POINT(!ask(&a, do_signal, .value = 1) && !ask(&a, do_sync), "a stopped reader does not stop the writer");
	puppet_kill(&b);
	POINT(SOON(!status_holders(&broker, "t", reader)) && !ask(&a, do_signal, .value = 2) && !ask(&a, do_sync) &&
		      !ask(&a, do_timeline) && a.last.value == 2,
	      "nor does a killed one");
	puppet_end(&a);
	broker_end(&broker);
}

/* The word of a new generation is a new word. */
static void test_generations(void)
{
	begin();
	ask(&a, do_signal, .value = 9);
	ask(&a, do_sync);
	ask(&a, do_unlink, .name = "t");
	ask(&b, do_create, .name = "t", .flags = GPUB_TIMELINE);
	ask(&b, do_acquire, .name = "t", .slot = 1);
	POINT(!ask(&b, do_timeline, .slot = 1) && !b.last.value && !ask(&b, do_timeline) && b.last.value == 9,
	      "a new generation's timeline begins at 0, the old one keeps its value");
	POINT(!ask(&b, do_signal, .slot = 1, .value = 1), "and has a writer of its own");
	ask(&b, do_return);
	ask(&b, do_trim);
	ask(&a, do_return);
	ask(&a, do_trim);
	POINT(SOON(!status_buffers(&broker, "t", "draining")), "the old one is freed");
	ask(&a, do_acquire, .name = "t");
	ask(&a, do_wait, .value = 2);
	tell(&a, do_sync);
	ask(&b, do_signal, .slot = 1, .value = 2);
	POINT(!receive(&a), "the new one orders the other way round");
	end();
}

/* ---- several threads signal one timeline ---- */

#define SIGNALLERS 3
#define ROUNDS     1500

static pthread_barrier_t together;
static uint64_t accepted[SIGNALLERS]; /* the largest value of each thread that was queued */

/*
 * All try at once, each its own value of the round: one that is passed by a larger one is refused, or queued before it.
 */
static void *signaller(void *argument)
{
	unsigned me = *(unsigned *)argument;
	void *wrong = NULL;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t value = round * SIGNALLERS + 1 + (me + round) % SIGNALLERS;
		int error;

		pthread_barrier_wait(&together);
		error = gpub_signal_on(&lease[0], value, work);
		if (!error)
			accepted[me] = value;
		else if (error != -EINVAL)
			wrong = argument;
		pthread_barrier_wait(&together);
		/* the one that checks has the round to itself */
		pthread_barrier_wait(&together);
	}
	return wrong;
}

/* What was queued last is the largest that was accepted. */
static int check_round(void)
{
	uint64_t largest = 0, value;

	for (unsigned i = 0; i < SIGNALLERS; i++)
		largest = accepted[i] > largest ? accepted[i] : largest;
	return gpub_stream_sync(work) || gpub_timeline(&lease[0], &value) || value != largest;
}

/* step_value: rounds that went wrong. */
static int signal_from_threads(const struct order *order)
{
	pthread_t thread[SIGNALLERS];
	unsigned number[SIGNALLERS];
	void *wrong;

	(void)order;
	pthread_barrier_init(&together, NULL, SIGNALLERS + 1);
	for (unsigned i = 0; i < SIGNALLERS; i++) {
		number[i] = i;
		if (pthread_create(&thread[i], NULL, signaller, &number[i]))
			return -EAGAIN;
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&together);
		pthread_barrier_wait(&together);
		step_value += (uint64_t)check_round();
		pthread_barrier_wait(&together);
	}
	for (unsigned i = 0; i < SIGNALLERS; i++) {
		pthread_join(thread[i], &wrong);
		step_value += wrong != NULL;
	}
	return 0;
}

static void test_threads(void)
{
	begin();
	POINT(!ask(&a, signal_from_threads) && !a.last.value,
	      "%d threads signal one timeline on one stream: what is queued last is the largest", SIGNALLERS);
	printf("# wrong in %llu of %d rounds\n", (unsigned long long)a.last.value, ROUNDS);
	end();
}

int main(void)
{
	harness_begin("timelines", 60);
	test_order();
	test_one_writer();
	test_thread_waits();
	test_writer_killed();
	test_creator_killed();
	test_writer_leaves();
	test_reader_killed();
	test_generations();
	test_threads();
	return harness_end();
}
