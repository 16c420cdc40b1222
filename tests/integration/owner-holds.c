/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner-holds.c - one of several workers that hold memory and use it on the device, while owner-kills.sh kills the
 * owner of the memory.
 *
 *     owner-holds FILE BYTES
 *
 * All share a buffer of so many bytes, and check each word of it with a kernel, over and over. A stream of each waits
 * for a timeline, and then writes into a buffer of its worker. The timeline is signalled when the file exists, and each
 * worker looks at what its stream wrote. Prints "begins" when it has all that it needs, what is wrong otherwise, and
 * then exits with 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpubroker.h"
#include "kernels/kernels.h"

#define ROUND    7    /* of the stamps */
#define OWN      4096 /* bytes of a worker's own buffer: words of its stream, then the verdict */
#define VERDICT  256  /* index of the verdict's first word there */

static gpub_client *client;
static gpub_kernel stamp, check;
static gpub_lease shared, gate, own;
static void *stream, *parked;
static unsigned rank;
static uint64_t words; /* of the shared buffer */

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "worker %u: %s: %d: %s\n", rank, what, error, gpub_strerror_last());
	exit(1);
}

static void make(const char *name, uint64_t size, gpub_lease *lease)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = size;
	spec.flags = GPUB_TIMELINE;
	must(gpub_create(client, name, &spec), name);
	must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, lease), name);
}

static void stamps(void *at, uint64_t count, void *on)
{
	gpub_launch_config config = linear_grid(count, on);
	uint64_t round = ROUND;
	void *args[] = { &at, &round, &count };

	must(gpub_launch(stamp, &config, args), "stamp");
}

/* Has the device check words, and reads how many are wrong. */
static void expect_stamps(const void *at, uint64_t count, const char *what)
{
	gpub_launch_config config = linear_grid(count, stream);
	uint64_t *verdict = (uint64_t *)own.ptr + VERDICT, round = ROUND, found[4] = { 0 };
	void *args[] = { &verdict, &at, &round, &count };

	must(gpub_copy_on(client, verdict, found, sizeof found, stream), "copy");
	must(gpub_launch(check, &config, args), "check");
	must(gpub_copy_on(client, found, verdict, sizeof found, stream), "copy");
	must(gpub_stream_sync(stream), "sync");
	if (!found[0])
		return;
	fprintf(stderr, "worker %u: %s: %llu words are wrong, such as %llu\n", rank, what, (unsigned long long)found[0],
		(unsigned long long)found[2]);
	exit(1);
}

static void begin(uint64_t bytes)
{
	gpub_module *module;
	char name[32];

	must(gpub_connect(&client, NULL), "connect");
	must(gpub_module_open(&module, client, "kernels"), "the module");
	must(gpub_module_kernel(module, "stamp", &stamp), "stamp");
	must(gpub_module_kernel(module, "stamp_check", &check), "stamp_check");
	must(gpub_stream_create(client, GPUB_CURRENT, &stream), "a stream");
	must(gpub_stream_create(client, GPUB_CURRENT, &parked), "a stream");
	snprintf(name, sizeof name, "own/%u", rank);
	make(name, OWN, &own);
	words = bytes / sizeof(uint64_t);
	if (rank) {
		must(gpub_acquire(client, "shared", GPUB_READ, -1, &shared), "shared");
		must(gpub_acquire(client, "gate", GPUB_READ, -1, &gate), "gate");
		must(gpub_timeline_wait(&shared, 1, -1, NULL), "shared");
	} else {
		make("shared", bytes, &shared);
		make("gate", OWN, &gate);
		stamps(shared.ptr, words, stream);
		must(gpub_signal_on(&shared, 1, stream), "signal");
		must(gpub_stream_sync(stream), "sync");
	}
	stamps(own.ptr, 1, stream); /* the kernels are loaded before a stream waits */
	expect_stamps(own.ptr, 1, "own");
}

int main(int argc, char **argv)
{
	const char *number = getenv("GPUBROKER_RANK");
	unsigned long checks = 0;

	if (argc < 3 || !number)
		return 2;
	rank = (unsigned)atoi(number);
	begin(strtoull(argv[2], NULL, 0));
	if (rank) {
		must(gpub_wait_on(&gate, 1, parked), "wait");
		stamps(own.ptr, VERDICT, parked);
	}
	printf("worker %u begins\n", rank);
	fflush(stdout);
	for (; access(argv[1], F_OK); checks++)
		expect_stamps(shared.ptr, words, "shared");
	if (!rank)
		must(gpub_signal_on(&gate, 1, stream), "signal");
	must(gpub_stream_sync(rank ? parked : stream), "sync");
	if (rank)
		expect_stamps(own.ptr, VERDICT, "what the stream that waited wrote");
	must(gpub_return(&own), "return");
	must(gpub_return(&gate), "return");
	must(gpub_return(&shared), "return");
	gpub_disconnect(client);
	printf("worker %u: %lu checks\n", rank, checks);
	return 0;
}
