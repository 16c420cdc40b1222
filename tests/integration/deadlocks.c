/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deadlocks.c - what broker-status --why calls a deadlock, of real programs: processes that wait for each other in a
 * circle of which nothing moves; and not those of which one goes on, or may.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "why-scene.h"

#define STILL \
	"nothing of it has moved for 1 s, so none of them goes on unless one still runs a kernel or has yet to " \
	"signal from another stream: gdb -p %d shows what it does; to end it, end one: kill %d\n"

static void test_circle(void)
{
	char number[16];

	begin();
	ask(&a, do_wait, .slot = 1, .value = 4);
	ask(&b, do_wait, .slot = 2, .value = 5);
	POINT(says(0, "heat/1",
		   "rank 0 (pid %d) waits for heat/1 to reach 4; it is at 3; its writer, rank 1 (pid %d), waits for "
		   "heat/2 to reach 5; it is at 3; its writer, rank 2 (pid %d), runs and waits for nothing that the "
		   "broker knows of: gdb -p %d shows what it does\n",
		   a.pid, b.pid, c.pid, c.pid),
	      "two that wait, one after the other, are no deadlock");
	ask(&c, do_wait, .slot = 0, .value = 6);
	for (int i = 0; i < 2; i++)
		POINT(says(3, "",
			   "deadlock 1: rank 0 (pid %d) waits for heat/1 to reach 4 (it is at 3), which rank 1 (pid "
			   "%d) writes; rank 1 (pid %d) waits for heat/2 to reach 5 (it is at 3), which rank 2 (pid "
			   "%d) writes; rank 2 (pid %d) waits for heat/0 to reach 6 (it is at 3), which rank 0 (pid "
			   "%d) writes: " STILL,
			   a.pid, b.pid, b.pid, c.pid, c.pid, a.pid, c.pid, c.pid),
		      "three that wait for each other are one deadlock, told the same each time: exit 3 (%d)", i);
	snprintf(number, sizeof number, "%d", b.pid);
	POINT(why(number) == 3, "also where one of them is asked about");
	stop_child(b.pid);
	POINT(why("") == 0 && !strstr(answer, "deadlock") && strstr(answer, "is stopped by a signal: kill -CONT "),
	      "where one is stopped, that is told: it does not say what it waits for now");
	kill(b.pid, SIGCONT);
	POINT(SOON(why("") == 3), "until it goes on");
	broker_pause(&broker);
	POINT(why("") == 0 && strstr(answer, "' is stopped by a signal") && !strstr(answer, "deadlock"),
	      "a broker that cannot be asked twice calls nothing a deadlock");
	broker_resume(&broker);
	/* each is released by the end of the next one's timeline */
	puppet_kill(&c);
	POINT(SOON(!ask(&b, do_sync)), "as it says: with one of them gone the others go on");
	ask(&b, do_signal, .slot = 1, .value = 4);
	ask(&a, do_sync);
	puppet_end(&a);
	puppet_end(&b);
	broker_end(&broker);
}

/* ---- a signal from another stream ---- */

static void *other; /* a stream of a puppet */

static int do_other_stream(const struct order *order)
{
	(void)order;
	return gpub_stream_create(client, GPUB_CURRENT, &other);
}

static int do_other_signal(const struct order *order)
{
	int error = gpub_signal_on(&lease[order->slot], order->value, other);

	return error ? error : gpub_stream_sync(other);
}

static int do_other_wait(const struct order *order)
{
	return gpub_wait_on(&lease[order->slot], order->value, other);
}

static int do_other_return(const struct order *order)
{
	int error = gpub_return_on(&lease[order->slot], other);

	return error ? error : gpub_stream_sync(other);
}

static void test_a_signal_from_another_stream(void)
{
	begin();
	ask(&a, do_other_stream);
	ask(&a, do_wait, .slot = 1, .value = 4);
	ask(&b, do_wait, .slot = 0, .value = 4);
	POINT(why("") == 3 && strstr(answer, "or has yet to signal from another stream: "),
	      "a circle of streams is told as what it is: another stream may still end it");
	ask(&a, do_other_signal, .slot = 0, .value = 4);
	POINT(!ask(&b, do_sync), "as it does");
	ask(&b, do_signal, .slot = 1, .value = 4);
	POINT(!ask(&a, do_sync) && says(0, "", "Nothing waits.\n"), "then nothing waits");
	end();
}

/*
 * The mapping is closed while a stream of the process waits for the timeline of a buffer in it: memory of this export
 * closes without a wait, once its leases have landed.
 */
static void test_a_wait_for_a_buffer_that_is_closed(void)
{
	setenv("GPUBROKER_EXPORT", "vmm", 1);
	begin();
	ask(&a, do_other_stream);
	ask(&a, do_wait, .slot = 2, .value = 4);
	ask(&a, do_signal, .slot = 0, .value = 4);
	ask(&a, do_other_return, .slot = 2);
	POINT(!ask(&a, do_trim) && SOON(status_counter(&broker, "mappings_closed") == 1),
	      "a stream waits for the timeline of a buffer that is closed");
	ask(&a, do_other_wait, .slot = 1, .value = 4);
	ask(&b, do_wait, .slot = 0, .value = 4);
	POINT(why("") == 0 && !strstr(answer, "deadlock"),
	      "two that wait for each other, of which one waits for a third, too, are no deadlock");
	ask(&c, do_signal, .slot = 2, .value = 4);
	POINT(!ask(&b, do_sync), "as the third one shows, which goes on");
	ask(&b, do_signal, .slot = 1, .value = 4);
	ask(&a, do_sync);
	end();
	unsetenv("GPUBROKER_EXPORT");
}

/* ---- more waits than an answer has room for ---- */

#define MANY 32

static gpub_lease many[MANY];

/* "y0", "y1" and so on: creates them, unless they are there, and takes a lease of each. */
static int do_take(const struct order *order)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[180];
	int error = 0;

	spec.size = 4096;
	spec.device = GPUB_CURRENT;
	spec.flags = GPUB_TIMELINE;
	for (unsigned i = 0; i < order->value && !error; i++) {
		snprintf(name, sizeof name, "%s%u", order->name, i);
		error = order->flags ? gpub_create(client, name, &spec) : 0;
		error = error ? error : gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &many[order->slot + i]);
		error = error || !order->flags ? error : gpub_signal_on(&many[order->slot + i], 1, work);
	}
	return error || !order->flags ? error : gpub_stream_sync(work);
}

/* For order->size values of each. */
static int do_wait_many(const struct order *order)
{
	int error = 0;

	for (unsigned i = 0; i < order->value; i++)
		for (uint64_t value = 2; value < 2 + order->size && !error; value++)
			error = gpub_wait_on(&many[i], value, work);
	return error;
}

/*
 * So many timelines of b, for so many values of which a waits; b waits for a; and c, which writes one more for which a
 * waits, does not.
 */
static bool is_deadlock(unsigned timelines, unsigned values, bool free_one)
{
	int code;

	broker_start(&broker, "host");
	start(&a, 0);
	start(&b, 1);
	start(&c, 2);
	ask(&b, do_take, .name = "y", .value = timelines, .flags = 1);
	ask(&c, do_take, .name = "z", .value = 1, .flags = 1);
	ask(&a, do_create, .name = "x", .flags = GPUB_TIMELINE);
	ask(&a, do_acquire, .name = "x", .rights = GPUB_READ | GPUB_WRITE);
	ask(&b, do_acquire, .name = "x", .rights = GPUB_READ | GPUB_WRITE);
	ask(&a, do_signal, .value = 1);
	ask(&a, do_sync);
	if (free_one)
		ask(&a, do_take, .name = "z", .value = 1, .slot = (int)timelines);
	ask(&a, do_take, .name = "y", .value = timelines);
	if (ask(&a, do_wait_many, .value = timelines + free_one, .size = values) || ask(&b, do_wait, .value = 2))
		bail_out("no waits: %s", a.last.text);
	code = why("");
	puppet_kill(&c);
	puppet_kill(&b);
	puppet_kill(&a);
	broker_end(&broker);
	return code == 3;
}

static void test_more_waits_than_fit(void)
{
	POINT(is_deadlock(8, 4, false),
	      "eight timelines of one process, four values of each: of each the lowest is known");
	POINT(!is_deadlock(8, 4, true), "also of one that is another process's");
	POINT(is_deadlock(28, 1, false), "so many timelines as there is room for");
	POINT(!is_deadlock(28, 1, true),
	      "and one more, for which there is no room: it may be the one on which it goes on");
}

/* ---- what ends by itself ---- */

/* Each drains what the other one uses. */
static void begin_drains(int timeout)
{
	broker_start(&broker, "host");
	start(&a, 0);
	start(&b, 1);
	ask(&a, do_create, .name = "p");
	ask(&b, do_create, .name = "q");
	ask(&a, do_acquire, .name = "q");
	ask(&b, do_acquire, .name = "p");
	tell(&a, do_drain, .name = "p", .timeout = -1);
	tell(&b, do_drain, .name = "q", .timeout = timeout);
	waits_are(2);
}

static void end_drains(void)
{
	puppet_kill(&b);
	POINT(!receive(&a), "the other one goes on when that process is gone");
	puppet_end(&a);
	broker_end(&broker);
}

static void test_drains_with_a_time_limit(void)
{
	begin_drains(600000);
	POINT(why("") == 0 && !strstr(answer, "deadlock"),
	      "two drains of what the other one uses, of which one has a time limit");
	end_drains();
	begin_drains(-1);
	POINT(says(3, "",
		   "deadlock 1: rank 0 (pid %d) waits for p to be freed, which rank 1 (pid %d) uses; rank 1 (pid %d) "
		   "waits for q to be freed, which rank 0 (pid %d) uses: " STILL,
		   a.pid, b.pid, b.pid, a.pid, b.pid, b.pid),
	      "where neither has one, it is a deadlock");
	end_drains();
}

static void test_a_drain_of_ones_own(void)
{
	broker_start(&broker, "host");
	start(&a, 0);
	ask(&a, do_create, .name = "u");
	ask(&a, do_acquire, .name = "u");
	tell(&a, do_drain, .name = "u", .timeout = -1);
	waits_are(1);
	POINT(says(0, "",
		   "rank 0 (pid %d) waits for u to be freed; it is used by rank 0 (pid %d), which waits for itself: it "
		   "has to return its own lease first\n",
		   a.pid, a.pid),
	      "a drain of what the caller uses itself, which never ends");
	puppet_kill(&a);
	broker_end(&broker);
}

int main(void)
{
	harness_begin("deadlocks", 240);
	test_circle();
	test_a_signal_from_another_stream();
	test_a_wait_for_a_buffer_that_is_closed();
	test_more_waits_than_fit();
	test_drains_with_a_time_limit();
	test_a_drain_of_ones_own();
	return harness_end();
}
