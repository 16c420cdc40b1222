/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline-ends.c - a writer's signals that are late: queued before it disconnects, on a device whose streams no close of
 * its mappings waits for, and landing when another process lets them.
 *
 * The gate is a second timeline: the writer's stream waits there, so that its signal lands when the test wants it to.
 */
#include <errno.h>
#include <signal.h>

#include "harness.h"

static struct broker_process broker;
static struct puppet writer, reader, keeper; /* who signals the gate */

#define T    0 /* leases */
#define GATE 1

/* A stream of device 1, where nothing is mapped. */
static int do_far_stream(const struct order *order)
{
	(void)order;
	return gpub_stream_create(client, 1, &work);
}

static void begin(void)
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
	ask(&writer, do_far_stream);
	ask(&reader, do_stream);
	ask(&keeper, do_stream);
	ask(&writer, do_signal, .slot = T, .value = 4);
	ask(&writer, do_sync);
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
	POINT(still_waits(&writer), "who disconnects waits for the signals that it queued, on whatever device");
	POINT(!ask(&keeper, do_timeline, .slot = T) && keeper.last.value == 4, "its timeline has not ended meanwhile");
	open_gate(1);
	POINT(!hear(&writer), "and is done when they have landed");
	POINT(!hear(&reader), "who waits for more than the writer gave is released");
	POINT(!ask(&reader, do_timeline, .slot = T) && reader.last.value == 5, "the timeline keeps the last value");
	POINT(!books_counter(&broker, "timelines_died") && !books_counter(&broker, "timelines_marked"),
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
	POINT(!ask(&writer, do_disconnect), "who disconnects waits ten seconds for a signal, and no longer");
	POINT(SOON(books_counter(&broker, "timelines_died") == 1), "its timelines count as a dead writer's");
	POINT(ask(&keeper, do_timeline, .slot = T) == -EOWNERDEAD, "which the readers are told: EOWNERDEAD");
	open_gate(1);
	POINT(SOON(books_counter(&broker, "timelines_marked") == 1), "the late signal is written over again");
	POINT(ask(&keeper, do_timeline, .slot = T) == -EOWNERDEAD, "and changes nothing for the readers");
	open_gate(2);
	POINT(!hear(&reader), "a stream that gets to its wait only then is released");
	end();
}

int main(void)
{
	harness_begin("timeline-ends", 60);
	test_leaving_waits_for_signals();
	test_a_signal_that_never_lands();
	return harness_end();
}
