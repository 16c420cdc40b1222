/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parked.c - one of two workers whose streams wait for each other's timelines: what do waiting streams hold up? Run by
 * parked.sh.
 *
 *   parked WAITING OTHERS [first]
 *
 * So many streams wait for the other worker. Then so many others have a kernel and a signal each, and the worker says
 * how many of them came to their end meanwhile. Last it signals what the other worker's streams wait for, on a stream
 * that waits for nothing; with "first" before it waits. Exit 3: that signal does not land, since it is held up. A
 * stream that is held up cannot be synchronised, so nothing here does; CUDA loads its kernel before anything waits. By
 * the public interface alone.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpubroker.h"
#include "kernels/kernels.h"

#define STREAMS_MAX 40
#define STALL_MS    5000 /* without progress for so long, streams are held up */
#define HELD_UP     3

static gpub_client *client;
static gpub_kernel kernel;
static unsigned rank;
static gpub_lease own, peer, other[STREAMS_MAX];

static void need(int error, const char *what)
{
	if (!error)
		return;
	printf("rank %u: %s: %s\n", rank, what, gpub_strerror_last());
	exit(1);
}

static void *stream_new(void)
{
	void *stream;

	need(gpub_stream_create(client, GPUB_CURRENT, &stream), "a stream");
	return stream;
}

static void timeline_make(const char *name, gpub_lease *lease)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = 4096;
	spec.flags = GPUB_TIMELINE;
	need(gpub_create(client, name, &spec), "a buffer");
	need(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, lease), "its lease");
}

static void work(const gpub_lease *lease, uint64_t value, void *stream)
{
	gpub_launch_config config = single_grid(stream);
	uint64_t milliseconds = 0;
	void *word = lease->ptr, *args[] = { &word, &value, &milliseconds };

	need(gpub_launch(kernel, &config, args), "a kernel");
	need(gpub_signal_on(lease, value, stream), "a signal");
}

/*
 * All that has to be there or loaded before a stream waits: each timeline is at 1 then, and the other worker's is
 * known.
 */
static void prepare(unsigned others)
{
	void *warm = stream_new();
	gpub_module *module;
	char name[32];

	need(gpub_module_open(&module, client, "kernels"), "the module");
	need(gpub_module_kernel(module, "late_write", &kernel), "its kernel");
	snprintf(name, sizeof name, "main/%u", rank);
	timeline_make(name, &own);
	work(&own, 1, warm);
	for (unsigned i = 0; i < others; i++) {
		snprintf(name, sizeof name, "other/%u/%u", rank, i);
		timeline_make(name, &other[i]);
		work(&other[i], 1, warm);
	}
	snprintf(name, sizeof name, "main/%u", !rank);
	need(gpub_acquire(client, name, GPUB_READ, 30000, &peer), "the other worker's buffer");
	need(gpub_wait_on(&peer, 1, warm), "its first value");
	need(gpub_stream_sync(warm), "what is prepared");
}

/* How many of them have come to 2, once all have or none does any more. */
static unsigned count_ended(const gpub_lease *leases, unsigned count)
{
	unsigned ended = 0, before = 0;
	uint64_t value;

	for (unsigned waited = 0; ended < count && waited < STALL_MS; waited++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		ended = 0;
		for (unsigned i = 0; i < count; i++) {
			need(gpub_timeline(&leases[i], &value), "a timeline");
			ended += value == 2;
		}
		if (ended > before)
			waited = 0;
		before = ended;
	}
	return ended;
}

/* Until the other worker has counted too: what is signalled then ends its waits. A name is no work of a device. */
static void meet(void)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_info info = { .struct_size = sizeof info };
	char name[32];
	int error = -ENOENT;

	spec.size = 4096;
	snprintf(name, sizeof name, "counted/%u", rank);
	need(gpub_create(client, name, &spec), "a name");
	snprintf(name, sizeof name, "counted/%u", !rank);
	for (unsigned waited = 0; error == -ENOENT && waited < 10 * STALL_MS; waited++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		error = gpub_stat(client, name, &info);
	}
	need(error, "the other worker's name");
}

static void count_beside(unsigned waiting, unsigned others)
{
	unsigned ended = count_ended(other, others);

	printf("rank %u: %u of %u streams went on beside %u that wait\n", rank, ended, others, waiting);
	meet();
}

static void run(unsigned waiting, unsigned others, bool first)
{
	void *stream[STREAMS_MAX];

	if (first)
		work(&own, 2, stream_new());
	for (unsigned i = 0; i < waiting; i++) {
		stream[i] = stream_new();
		need(gpub_wait_on(&peer, 2, stream[i]), "a wait");
	}
	if (!first)
		stream[waiting] = stream_new();
	for (unsigned i = 0; i < others; i++)
		work(&other[i], 2, stream_new());
	if (others)
		count_beside(waiting, others);
	if (!first)
		work(&own, 2, stream[waiting]);
	if (!count_ended(&own, 1)) {
		printf("rank %u: held up: its signal does not land\n", rank);
		fflush(stdout);
		_exit(HELD_UP);
	}
	for (unsigned i = 0; i < waiting; i++)
		need(gpub_stream_sync(stream[i]), "a stream that waited");
	if (count_ended(other, others) < others)
		exit(1);
}

int main(int argc, char **argv)
{
	unsigned waiting = argc > 2 ? (unsigned)atoi(argv[1]) : STREAMS_MAX,
		 others = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	const char *number = getenv("GPUBROKER_RANK");

	if (!number || waiting >= STREAMS_MAX || others > STREAMS_MAX)
		return 2;
	rank = (unsigned)atoi(number);
	need(gpub_connect(&client, NULL), "connecting");
	prepare(others);
	run(waiting, others, argc > 3 && !strcmp(argv[3], "first"));
	gpub_disconnect(client);
	return 0;
}
