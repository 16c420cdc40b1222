/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-kills.c - one of several workers that do everything that needs device memory, over and over, while
 * owner-kills.sh kills the owner of the memory at random moments. Each result and each byte is checked.
 *
 *     owner-kills FILE [ends]
 *
 * Ends when the file exists. With memory that comes by descriptors, a worker's own calls always succeed. Other memory
 * ends with its owner ("ends"), unless it may grow: its buffer has lost its name then, but who holds it reads on. A
 * buffer of another worker may be gone or be another one by then. All bytes of a buffer are equal, but in a tail that a
 * resize added, which is zero. Prints what is wrong and exits with 1.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpubroker.h"

#define BUFFERS 6
#define SIZE    150000u

static gpub_client *client;
static void *stream;
static uint8_t *host; /* as large as the largest buffer */
static unsigned rank, workers;
static bool ends; /* memory ends with its owner */
static uint64_t random_state;

static struct buffer {
	char     name[32];
	uint64_t size, reserve;
	uint8_t  value;     /* of each byte */
	uint64_t timeline;  /* the value that it was signalled to */
	bool     there;
} buffers[BUFFERS];

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 8;
}

static void must(int error, const char *what, const char *name)
{
	if (!error)
		return;
	fprintf(stderr, "worker %u: %s of %s: %d: %s\n", rank, what, name, error, gpub_strerror_last());
	exit(1);
}

/* Whether a call of a worker's own buffer succeeded. If not, its memory has ended, and it has lost its name. */
static bool done(int error, const char *what, struct buffer *buffer)
{
	if (!ends || buffer->reserve || (error != -ENOENT && error != -ESTALE))
		must(error, what, buffer->name);
	buffer->there = !error;
	return !error;
}

static void copy(void *to, const void *from, uint64_t size)
{
	must(gpub_copy_on(client, to, from, size, stream), "copy", "bytes");
	must(gpub_stream_sync(stream), "sync", "the stream");
}

static void expect(const gpub_lease *lease, uint64_t from, uint64_t to, uint8_t value, const char *name)
{
	copy(host, (const uint8_t *)lease->ptr + from, to - from);
	for (uint64_t i = 0; i < to - from; i++)
		if (host[i] != value) {
			fprintf(stderr, "worker %u: byte %llu of %s is %u, not %u\n", rank,
				(unsigned long long)(from + i), name, host[i], value);
			exit(1);
		}
}

static void set(const gpub_lease *lease, uint64_t from, uint64_t to, uint8_t value)
{
	memset(host, value, to - from);
	copy((uint8_t *)lease->ptr + from, host, to - from);
}

static void fill(struct buffer *buffer)
{
	gpub_lease lease;

	if (!done(gpub_acquire(client, buffer->name, GPUB_READ | GPUB_WRITE, 0, &lease), "acquire", buffer))
		return;
	expect(&lease, 0, buffer->size, buffer->value, buffer->name);
	buffer->value = (uint8_t)(1 + random_next() % 255);
	set(&lease, 0, buffer->size, buffer->value);
	must(gpub_signal_on(&lease, ++buffer->timeline, stream), "signal", buffer->name);
	must(gpub_return_on(&lease, stream), "return", buffer->name);
}

static void make(struct buffer *buffer)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = buffer->size = 1 + random_next() % SIZE;
	spec.flags = GPUB_TIMELINE | (random_next() % 2 ? GPUB_DEDICATED : 0);
	spec.reserve = buffer->reserve = random_next() % 3 ? 0 : 4 * SIZE;
	spec.timeout_ms = -1;
	buffer->value = 0;
	buffer->timeline = 0;
	if (done(gpub_create(client, buffer->name, &spec), "create", buffer))
		fill(buffer);
}

static void look(struct buffer *buffer)
{
	gpub_lease lease;

	if (!done(gpub_acquire(client, buffer->name, GPUB_READ, 0, &lease), "acquire", buffer))
		return;
	if (random_next() % 8 == 0)
		usleep(20000); /* the owner may end meanwhile */
	expect(&lease, 0, buffer->size, buffer->value, buffer->name);
	must(gpub_return(&lease), "return", buffer->name);
}

static void grow(struct buffer *buffer)
{
	uint64_t before = buffer->size;
	gpub_lease lease;

	if (!buffer->reserve || buffer->size > 3 * SIZE)
		return;
	buffer->size += 1 + random_next() % SIZE;
	if (!done(gpub_resize(client, buffer->name, buffer->size, -1), "resize", buffer) ||
	    !done(gpub_acquire(client, buffer->name, GPUB_READ | GPUB_WRITE, 0, &lease), "acquire", buffer))
		return;
	expect(&lease, 0, before, buffer->value, buffer->name);
	expect(&lease, before, buffer->size, 0, buffer->name);
	set(&lease, before, buffer->size, buffer->value);
	must(gpub_return(&lease), "return", buffer->name);
}

static void drop(struct buffer *buffer)
{
	if (random_next() % 2)
		done(gpub_unlink(client, buffer->name), "unlink", buffer);
	else
		done(gpub_drain(client, buffer->name, 20000), "drain", buffer);
	buffer->there = false;
}

/* Of another worker, who may do anything with it meanwhile: only what a lease promises is looked at. */
static void visit(void)
{
	char name[32];
	gpub_lease lease;
	uint64_t value;
	int error;

	snprintf(name, sizeof name, "w%u/%u", (unsigned)(random_next() % workers), (unsigned)(random_next() % BUFFERS));
	error = gpub_acquire(client, name, GPUB_READ, 0, &lease);
	if (error == -ENOENT || error == -ESTALE)
		return;
	must(error, "visit", name);
	copy(host, lease.ptr, 1);
	error = gpub_timeline(&lease, &value);
	if (error && error != -EOWNERDEAD && error != -ESTALE)
		must(error, "timeline", name);
	must(gpub_return(&lease), "return", name);
}

static void deed(struct buffer *buffer)
{
	switch (random_next() % 8) {
	case 0:
		drop(buffer);
		break;
	case 1:
		grow(buffer);
		break;
	case 2:
	case 3:
		fill(buffer);
		break;
	case 4:
		must(gpub_trim(client), "trim", "all");
		break;
	case 5:
	case 6:
		look(buffer);
		break;
	default:
		visit();
	}
}

static unsigned number_of(const char *variable)
{
	const char *text = getenv(variable);

	return text ? (unsigned)atoi(text) : 0;
}

int main(int argc, char **argv)
{
	unsigned long deeds = 0;

	if (argc < 2)
		return 2;

	ends = argc > 2 && !strcmp(argv[2], "ends");
	rank = number_of("GPUBROKER_RANK");
	workers = number_of("GPUBROKER_SIZE");
	random_state = 0x9e3779b97f4a7c15u * (rank + 1);
	must(gpub_connect(&client, NULL), "connect", "the broker");
	must(gpub_stream_create(client, GPUB_CURRENT, &stream), "stream", "the device");
	must(gpub_host_alloc(client, 4 * SIZE, (void **)&host), "memory", "the host");
	for (unsigned i = 0; i < BUFFERS; i++)
		snprintf(buffers[i].name, sizeof buffers[i].name, "w%u/%u", rank, i);
	printf("worker %u begins\n", rank);
	fflush(stdout);
	for (; access(argv[1], F_OK); deeds++) {
		struct buffer *buffer = &buffers[random_next() % BUFFERS];

		if (buffer->there)
			deed(buffer);
		else
			make(buffer);
	}
	for (unsigned i = 0; i < BUFFERS; i++)
		if (buffers[i].there)
			look(&buffers[i]);
	must(gpub_stream_sync(stream), "sync", "the stream");
	gpub_disconnect(client);
	printf("worker %u: %lu deeds\n", rank, deeds);
	return 0;
}
