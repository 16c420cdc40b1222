/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permuted.c - two workers that see the same two devices in opposite orders. permuted.sh starts it.
 *
 * Rank 0 makes a buffer on each of its devices, and writes into each its device's UUID and a pattern. Rank 1 leases
 * both buffers on both of its devices, compares, and writes a word from each; rank 0 reads those. Prints "ok WHAT" or
 * "not ok WHAT" for each thing it holds, and exits 1 when it could not go on.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpubroker.h"

#define DEVICES 2
#define WORDS   65536u /* of a buffer */
#define WAIT_MS 30000

typedef uint64_t contents[WORDS];

static gpub_client *client;
static void *stream[DEVICES];
static uint8_t uuid[DEVICES][16]; /* of this process's devices */

static void need(int error, const char *what)
{
	if (!error)
		return;
	printf("not ok %s: %s\n", what, gpub_strerror_last());
	exit(1);
}

static void point(bool good, const char *what)
{
	printf("%sok %s\n", good ? "" : "not ", what);
}

static const char *name_of(const char *what, int device)
{
	static char name[32];

	snprintf(name, sizeof name, "%s/%d", what, device);
	return name;
}

static gpub_info info_of(const char *name)
{
	gpub_info info = { .struct_size = sizeof info };

	need(gpub_stat(client, name, &info), name);
	return info;
}

static void make(const char *name, int device)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = sizeof(contents);
	spec.device = device;
	need(gpub_create(client, name, &spec), name);
}

/* One buffer on each device, which says what the device's UUID is; "ok" as far as the numbers are this process's. */
static bool make_all(const char *what)
{
	bool good = true;
	int count = 0;

	need(gpub_device_count(client, &count), "count the devices");
	if (count != DEVICES) {
		printf("not ok two devices: this process sees %d\n", count);
		exit(1);
	}
	for (int d = 0; d < DEVICES; d++) {
		gpub_info info;

		need(gpub_stream_create(client, d, &stream[d]), "a stream");
		make(name_of(what, d), d);
		info = info_of(name_of(what, d));
		good &= info.device == d;
		memcpy(uuid[d], info.device_uuid, sizeof uuid[d]);
	}
	return good && memcmp(uuid[0], uuid[1], sizeof uuid[0]) != 0;
}

/* Leases the buffer on that device of this process. */
static gpub_lease hold(const char *name, int device)
{
	gpub_lease lease;

	need(gpub_set_device(client, device), "choose a device");
	need(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, WAIT_MS, &lease), name);
	if (lease.device != device && lease.device != GPUB_HOST)
		printf("not ok lease.device: %d on device %d\n", (int)lease.device, device);
	return lease;
}

static void copy(void *to, const void *from, size_t size, int device)
{
	need(gpub_copy_on(client, to, from, size, stream[device]), "a copy");
	need(gpub_stream_sync(stream[device]), "a copy");
}

/* What the maker writes into the buffer of its device d, which is this process's device. */
static void fill(contents words, int d, int device)
{
	memcpy(words, uuid[device], sizeof uuid[device]);
	for (unsigned i = 2; i < WORDS; i++)
		words[i] = i * 0x9e3779b97f4a7c15ull + (unsigned)d;
}

static void announce(const char *name)
{
	make(name, GPUB_CURRENT);
}

static void await(const char *name)
{
	gpub_lease lease = hold(name, 0);

	need(gpub_return(&lease), "a return");
}

static void maker(void)
{
	static contents words;
	bool good = true;

	if (!make_all("made"))
		printf("not ok a device's number\n");
	for (int d = 0; d < DEVICES; d++) {
		gpub_lease lease = hold(name_of("made", d), d);

		fill(words, d, d);
		copy(lease.ptr, words, sizeof words, d);
		need(gpub_return(&lease), "a return");
	}
	announce("made/all");
	await("seen/all");
	for (int d = 0; d < DEVICES; d++) {
		gpub_lease lease = hold(name_of("made", d), d);

		copy(words, lease.ptr, sizeof words, d);
		for (unsigned other = 0; other < DEVICES; other++)
			good &= words[WORDS - 1 - other] == 100 + other;
		need(gpub_return(&lease), "a return");
	}
	point(good, "written on device 0 and 1 under the other order, read under this one");
}

/* The maker's device d has the other number here. */
static bool numbers_agree(int d)
{
	gpub_info info = info_of(name_of("made", d));
	gpub_lease lease = hold(name_of("made", d), 0);
	uint8_t told[16];

	copy(told, lease.ptr, sizeof told, 0);
	need(gpub_return(&lease), "a return");
	return info.device == DEVICES - 1 - d && !memcmp(info.device_uuid, told, sizeof told) &&
	       !memcmp(uuid[info.device], told, sizeof told);
}

/* Leased on this process's device, whichever device the memory is on. */
static bool contents_right(int device)
{
	static contents words, wanted;
	bool good = true;

	for (int d = 0; d < DEVICES; d++) {
		gpub_lease lease = hold(name_of("made", d), device);
		uint64_t mark = 100u + (unsigned)device;

		fill(wanted, d, DEVICES - 1 - d);
		copy(words, lease.ptr, sizeof words, device);
		good &= !memcmp(words, wanted, sizeof words - DEVICES * sizeof words[0]);
		copy((uint64_t *)lease.ptr + WORDS - 1 - device, &mark, sizeof mark, device);
		need(gpub_return(&lease), "a return");
	}
	return good;
}

static void reader(void)
{
	bool good = make_all("seen");

	await("made/all");
	for (int d = 0; d < DEVICES; d++)
		good &= numbers_agree(d);
	point(good, "device numbers and UUIDs agree with the other order");
	point(contents_right(0), "contents right on device 0");
	point(contents_right(1), "contents right on device 1");
	announce("seen/all");
}

int main(void)
{
	const char *rank = getenv("GPUBROKER_RANK");

	setvbuf(stdout, NULL, _IOLBF, 0);
	need(gpub_connect(&client, NULL), "connect");
	if (rank && !strcmp(rank, "0"))
		maker();
	else
		reader();
	gpub_disconnect(client);
	return 0;
}
