/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.c - one producer passes items to several consumers through three buffers in GPU memory.
 *
 *     broker-run -n 4 -- pipeline              one producer and three consumers, 1000 items
 *     broker-run -n 4 --device host -- pipeline 50    the same without a GPU, 50 items
 *
 * Item 1 goes into buffer 1, item 2 into buffer 2, item 3 into buffer 0, item 4 into buffer 1 again, and so on. Two
 * rules keep the processes apart, and both are timelines. A timeline is a number that belongs to a buffer: one
 * process's GPU raises it, and the GPUs of others wait for it.
 *
 *     A consumer reads item i when its buffer's timeline is i or more. The producer sets it behind its write.
 *     The producer writes item i when every consumer has read item i - 3, which was in the same buffer. This is
 *     back-pressure: the slowest consumer decides how fast items come.
 *
 * A timeline has one writer. So the consumers cannot share one to say what they have read: each has a buffer of its own
 * for that, of eight bytes, whose timeline is the number of the last item that it has read.
 *
 * No process waits on the processor for another one here: each queues all of its work on a stream at once, waits
 * included, and then waits for its stream.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpubroker.h"

#define BUFFERS     3u
#define WORDS       (256u << 10) /* of 4 bytes in an item: 1 MiB */
#define WORKERS_MAX 64
#define ITEMS_MAX   1000000
#define PATIENCE_MS 20000 /* how long a buffer is waited for that another process is about to create */

static gpub_client *client;
static void        *stream;
static unsigned     rank, workers, items = 1000;

/* Every function of the library returns 0 or a negative errno, and gpub_strerror_last() says what was wrong. */
static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "pipeline: worker %u: %s: %s\n", rank, what, gpub_strerror_last());
	exit(1); /* the broker sees it, and ends what others wait for from this process */
}

/* ---- buffers: by name ---- */

static const char *item_name(unsigned buffer, char text[32])
{
	snprintf(text, 32, "pipeline/item/%u", buffer);
	return text;
}

static const char *read_name(unsigned consumer, char text[32])
{
	snprintf(text, 32, "pipeline/read/%u", consumer);
	return text;
}

/* A buffer with a timeline, on the current device, which is gone when this process is. It is held for writing. */
static gpub_lease make(const char *name, uint64_t size)
{
	gpub_spec  spec = GPUB_SPEC_INIT;
	gpub_lease lease;

	spec.size = size;
	spec.device = GPUB_CURRENT;
	spec.flags = GPUB_TIMELINE | GPUB_EPHEMERAL;
	must(gpub_create(client, name, &spec), name);
	must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease), name);
	return lease;
}

/* Another process's buffer, which may not be there yet. */
static gpub_lease find(const char *name)
{
	gpub_lease lease;

	must(gpub_acquire(client, name, GPUB_READ, PATIENCE_MS, &lease), name);
	return lease;
}

/*
 * The stream is done, and its waits with it. A wait also ends when the process that it waits for does: only the
 * timeline says whether the value was reached.
 */
static void must_have_reached(const gpub_lease *lease, uint64_t value, const char *whose)
{
	uint64_t reached = 0;

	must(gpub_timeline(lease, &reached), whose);
	if (reached >= value)
		return;
	fprintf(stderr, "pipeline: worker %u: %s ended at item %llu of %llu\n", rank, whose,
		(unsigned long long)reached, (unsigned long long)value);
	exit(1);
}

/* ---- the producer: worker 0 ---- */

/* An item is its own number, in every word: a kernel that is installed with gpubroker writes it. */
static void write_item(gpub_kernel fill, const gpub_lease *buffer, uint32_t item)
{
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	uint32_t *words = buffer->ptr;
	uint64_t  count = WORDS;
	void     *args[] = { &words, &item, &count };

	config.grid[0] = WORDS / 256;
	config.block[0] = 256;
	config.stream = stream;
	must(gpub_launch(fill, &config, args), "launch fill");
}

static void produce(void)
{
	gpub_lease   buffer[BUFFERS], read[WORKERS_MAX];
	gpub_module *module;
	gpub_kernel  fill;
	char         name[32];

	must(gpub_module_open(&module, client, "kernels"), "open the module");
	must(gpub_module_kernel(module, "fill", &fill), "find the kernel");
	for (unsigned i = 0; i < BUFFERS; i++)
		buffer[i] = make(item_name(i, name), WORDS * sizeof(uint32_t));
	for (unsigned consumer = 1; consumer < workers; consumer++)
		read[consumer] = find(read_name(consumer, name));

	for (uint32_t item = 1; item <= items; item++) {
		const gpub_lease *to = &buffer[item % BUFFERS];

		/* back-pressure: what this buffer has now was read by everybody */
		for (unsigned consumer = 1; item > BUFFERS && consumer < workers; consumer++)
			must(gpub_wait_on(&read[consumer], item - BUFFERS, stream), "wait for a consumer");
		write_item(fill, to, item);
		must(gpub_signal_on(to, item, stream), "signal an item");
	}

	/* the buffers end with this process: not before all is read */
	for (unsigned consumer = 1; consumer < workers; consumer++)
		must(gpub_wait_on(&read[consumer], items, stream), "wait for a consumer");
	must(gpub_stream_sync(stream), "finish");
	for (unsigned consumer = 1; consumer < workers; consumer++)
		must_have_reached(&read[consumer], items, "a consumer");
	must(gpub_module_close(module), "close the module");
	printf("producer: %u items through %u buffers to %u consumers\n", items, BUFFERS, workers - 1);
}

/* ---- a consumer: every other worker ---- */

static void consume(void)
{
	gpub_lease buffer[BUFFERS], read;
	uint32_t (*seen)[2] = calloc(items + 1, sizeof *seen); /* the first and the last word of each item */
	char     name[32];
	unsigned wrong = 0;

	if (!seen)
		exit(1);
	read = make(read_name(rank, name), sizeof(uint64_t));
	for (unsigned i = 0; i < BUFFERS; i++)
		buffer[i] = find(item_name(i, name));

	for (uint32_t item = 1; item <= items; item++) {
		const gpub_lease *from = &buffer[item % BUFFERS];
		const uint32_t   *words = from->ptr;

		must(gpub_wait_on(from, item, stream), "wait for an item");
		must(gpub_copy_on(client, &seen[item][0], &words[0], sizeof *words, stream), "read an item");
		must(gpub_copy_on(client, &seen[item][1], &words[WORDS - 1], sizeof *words, stream), "read an item");
		must(gpub_signal_on(&read, item, stream), "say that it is read");
	}

	must(gpub_stream_sync(stream), "finish");
	must_have_reached(&buffer[items % BUFFERS], items, "the producer");
	for (uint32_t item = 1; item <= items; item++)
		wrong += seen[item][0] != item || seen[item][1] != item;
	printf("consumer %u: %u items, %u of them wrong\n", rank, items, wrong);
	free(seen);
	if (wrong)
		exit(1);
}

/* ---- both ---- */

/* broker-run gives each worker its rank and their number in the environment. */
static unsigned number_from(const char *text, unsigned otherwise)
{
	return text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	rank = number_from(getenv("GPUBROKER_RANK"), 0);
	workers = number_from(getenv("GPUBROKER_SIZE"), 1);
	if (argc > 1)
		items = number_from(argv[1], 0);
	if (workers < 2 || workers > WORKERS_MAX || items < 1 || items > ITEMS_MAX || argc > 2) {
		fprintf(stderr, "usage: broker-run -n 2 to %d -- pipeline [ITEMS]\n", WORKERS_MAX);
		return 2;
	}
	must(gpub_connect(&client, NULL), "connect");
	must(gpub_stream_create(client, GPUB_CURRENT, &stream), "make a stream");
	if (rank)
		consume();
	else
		produce();
	gpub_stream_destroy(stream);
	gpub_disconnect(client); /* returns all leases */
	return 0;
}
