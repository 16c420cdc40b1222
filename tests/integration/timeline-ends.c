/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-ends.c - a writer's signals that are late: queued before it disconnects, on a stream that no close of its
 * mappings waits for, and landing when another process lets them; and what waits when the broker is gone.
 *
 * The gate is a second timeline: the writer's stream waits there, so that its signal lands when the test wants it to.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "client/timeline-wait.h"
#include "harness.h"

static struct broker_process broker;
static struct puppet writer, reader, keeper; /* the one that signals the gate */

#define T    0 /* leases */
#define GATE 1

/* Of the driver, which is there on CUDA alone: no header of it is needed for so little. */
static int driver(const char *name, uintptr_t a, uintptr_t b, uintptr_t c)
{
	static void *library;
	int (*function)(uintptr_t, uintptr_t, uintptr_t);

	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&function = library ? dlsym(library, name) : NULL;
	return function ? function(a, b, c) : -1;
}

/* A stream of a context of its own; the primary one, in which buffers are mapped, is current again afterwards. */
static int other_context_stream(void)
{
	void *context, *popped;
	int device = 0;

	return driver("cuDeviceGet", (uintptr_t)&device, 0, 0) ||
			       driver("cuCtxCreate_v2", (uintptr_t)&context, 0, (uintptr_t)device) ||
			       driver("cuStreamCreate", (uintptr_t)&work, 1, 0) ||
			       driver("cuCtxPopCurrent_v2", (uintptr_t)&popped, 0, 0) ?
		       -EIO :
		       0;
}

/* One that no close of the mappings waits for: of another context, or, on the host device, of another device. */
static int do_far_stream(const struct order *order)
{
	(void)order;
	return on_cuda() ? other_context_stream() : gpub_stream_create(client, 1, &work);
}

/* The library of this process waits for less long. */
static int do_patience(const struct order *order)
{
	timeline_abandon_ms = (unsigned)order->timeout;
	return 0;
}

static void begin_quietly(void)
{
	struct puppet *all[] = { &writer, &reader, &keeper };

	broker_start(&broker, "host:2");
	for (int i = 0; i < 3; i++)
		puppet_start(all[i], &broker);
	ask(&keeper, do_create, .name = "gate", .flags = GPUB_TIMELINE);
	ask(&writer, do_create, .name = "t", .flags = GPUB_TIMELINE);
	for (int i = 0; i < 3; i++) {
		ask(all[i], do_acquire, .name = "t", .slot = T);
		ask(all[i], do_acquire, .name = "gate", .slot = GATE);
	}
	if (ask(&writer, do_far_stream))
		bail_out("no second context: %d", writer.last.result);
	ask(&reader, do_stream);
	ask(&keeper, do_stream);
	ask(&writer, do_signal, .slot = T, .value = 4);
	ask(&writer, do_sync);
}

static void begin(void)
{
	begin_quietly();
	/* 5 lands when the gate is opened */
	ask(&writer, do_wait, .slot = GATE, .value = 1);
	ask(&writer, do_signal, .slot = T, .value = 5);
}

static void end(void)
{
	puppet_end(&reader);
	puppet_end(&keeper);
	puppet_end(&writer);
	broker_end(&broker);
}

static void open_gate(uint64_t value)
{
	ask(&keeper, do_signal, .slot = GATE, .value = value);
}

/* As long as it takes the broker to answer others some hundred times. */
static bool still_waits(struct puppet *puppet)
{
	for (int i = 0; i < 300; i++)
		if (puppet_answered(puppet) || ask(&keeper, do_stat, .name = "t"))
			return false;
	return !puppet_answered(puppet);
}

static void test_leaving_waits_for_signals(void)
{
	begin();
	ask(&reader, do_wait, .slot = T, .value = 6);
	tell(&reader, do_sync);
	tell(&writer, do_disconnect);
	POINT(still_waits(&writer), "a disconnect waits for the signals that its process queued, on whatever stream");
	POINT(!ask(&keeper, do_timeline, .slot = T) && keeper.last.value == 4, "its timeline has not ended meanwhile");
	open_gate(1);
	POINT(!receive(&writer), "and is done when they have landed");
	POINT(!receive(&reader), "a wait for more than the writer signalled is released");
	POINT(!ask(&reader, do_timeline, .slot = T) && reader.last.value == 5, "the timeline keeps the last value");
	POINT(!status_counter(&broker, "timelines_died") && !status_counter(&broker, "timelines_marked"),
	      "nobody died, and no mark was written over");
	end();
}

/* Its process lives on, and so does its stream. */
static void test_a_signal_that_never_lands(void)
{
	begin();
	/* two streams of one process would do: the second wait is reached when the late signal has landed */
	ask(&reader, do_wait, .slot = GATE, .value = 2);
	ask(&reader, do_wait, .slot = T, .value = 6);
	tell(&reader, do_sync);
	POINT(!ask(&writer, do_disconnect), "a disconnect waits ten seconds for a signal, and no longer");
	POINT(SOON(status_counter(&broker, "timelines_died") == 1), "its timelines count as a dead writer's");
	POINT(ask(&keeper, do_timeline, .slot = T) == -EOWNERDEAD, "which the readers are told: EOWNERDEAD");
	open_gate(1);
	POINT(SOON(status_counter(&broker, "timelines_marked") == 1), "the late signal is written over again");
	POINT(ask(&keeper, do_timeline, .slot = T) == -EOWNERDEAD, "and changes nothing for the readers");
	open_gate(2);
	POINT(!receive(&reader), "a stream that gets to its wait only then is released");
	end();
}

/* Nobody has signalled, and nobody can: the buffer has no name or is sealed, and no session may write it. */
static void test_nobody_can_write_it(void)
{
	begin_quietly();
	ask(&writer, do_create, .name = "never", .flags = GPUB_TIMELINE | GPUB_EPHEMERAL);
	ask(&writer, do_create, .name = "unlinked", .flags = GPUB_TIMELINE);
	ask(&writer, do_create, .name = "sealed", .flags = GPUB_TIMELINE);
	ask(&writer, do_acquire, .name = "unlinked", .slot = 3);
	ask(&reader, do_acquire, .name = "never", .slot = 2, .rights = GPUB_READ);
	ask(&reader, do_acquire, .name = "unlinked", .slot = 3, .rights = GPUB_READ);
	ask(&reader, do_acquire, .name = "sealed", .slot = 4, .rights = GPUB_READ);
	ask(&reader, do_wait, .slot = 4, .value = 1);
	tell(&reader, do_sync);
	ask(&keeper, do_seal, .name = "sealed");
	POINT(!receive(&reader), "a seal ends a timeline that has no writer");
	POINT(ask(&reader, do_timeline, .slot = 4) == -EOWNERDEAD, "as a writer's death does");
	ask(&keeper, do_unlink, .name = "unlinked");
	POINT(!ask(&reader, do_timeline, .slot = 3), "an unlink does not, while a session may still write it");
	ask(&reader, do_wait, .slot = 3, .value = 1);
	ask(&reader, do_wait, .slot = 2, .value = 1);
	tell(&reader, do_sync);
	POINT(!ask(&writer, do_disconnect), "its creator leaves in order, without a signal");
	POINT(!receive(&reader), "which releases waits for both of its buffers");
	POINT(ask(&reader, do_timeline, .slot = 2) == -EOWNERDEAD, "the one that ended with it");
	POINT(ask(&reader, do_timeline, .slot = 3) == -EOWNERDEAD, "and the one that only it could write");
	end();
}

/* ---- without a broker ---- */

static void kill_broker(void)
{
	broker_wait(&broker, SIGKILL);
}

static void test_broker_killed(void)
{
	begin_quietly();
	ask(&reader, do_wait, .slot = T, .value = 6);
	tell(&reader, do_sync);
	kill_broker();
	POINT(!receive(&reader), "the broker is killed: waits are released by the writer's own library");
	/* the mark may be there before this process's own library has noticed */
	ask(&reader, do_timeline, .slot = T);
	POINT(reader.last.result == -ECONNRESET || reader.last.result == -EOWNERDEAD,
	      "and told that nothing more will come");
	POINT(ask(&writer, do_signal, .slot = T, .value = 5) == -ECONNRESET, "nothing more can be signalled");
	puppet_end(&reader);
	puppet_end(&writer);
	puppet_end(&keeper);
}

static void test_broker_and_writer_killed(void)
{
	begin_quietly();
	ask(&reader, do_patience, .timeout = 200);
	ask(&reader, do_wait, .slot = T, .value = 6);
	tell(&reader, do_sync);
	stop_child(writer.pid); /* its library does nothing in between */
	kill_broker();
	puppet_kill(&writer);
	POINT(receive(&reader) == -ECONNRESET,
	      "broker and writer are killed: a synchronisation does not hang: ECONNRESET");
	POINT(strstr(reader.last.text, "end this process"), "and is told what to do");
	POINT(ask(&reader, do_sync) == -ECONNRESET, "each time");
	puppet_kill(&reader);
	puppet_end(&keeper);
}

/* Its session lives on, and none of its device work hangs: only waits for a timeline are watched. */
static void test_broker_killed_with_work(void)
{
	begin_quietly();
	ask(&reader, do_patience, .timeout = 1);
	ask(&reader, do_late_write, .slot = T, .value = 77, .timeout = 300);
	kill_broker();
	POINT(!ask(&reader, do_sync), "a stream that waits for no timeline is waited for as ever");
	/* on CUDA a copy is refused once the broker is gone */
	if (!on_cuda())
		POINT(!ask(&reader, do_read, .slot = T) && reader.last.value == 77, "and its work is done then");
	puppet_end(&reader);
	puppet_end(&writer);
	puppet_end(&keeper);
}

static void test_broker_ends_in_order(void)
{
	begin_quietly();
	ask(&keeper, do_create, .name = "unclaimed", .flags = GPUB_TIMELINE);
	ask(&reader, do_acquire, .name = "unclaimed", .slot = 2);
	ask(&reader, do_wait, .slot = 2, .value = 1);
	tell(&reader, do_sync);
	kill(broker.pid, SIGTERM);
	SOON(status_buffers(&broker, "unclaimed", "draining"));
	kill(broker.pid, SIGTERM);
	POINT(!receive(&reader), "a broker that ends in order releases waits for a first signal");
	broker_wait(&broker, 0);
	puppet_end(&reader);
	puppet_end(&writer);
	puppet_end(&keeper);
}

int main(void)
{
	harness_begin("timeline-ends", 60);
	test_leaving_waits_for_signals();
	test_a_signal_that_never_lands();
	test_nobody_can_write_it();
	test_broker_killed();
	test_broker_and_writer_killed();
	test_broker_killed_with_work();
	test_broker_ends_in_order();
	return harness_end();
}
