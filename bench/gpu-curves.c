/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-curves.c - how figures grow on CUDA devices: one line a point, named CURVE/PARAMETER=VALUE.
 *
 * "create/bytes=N", "first/bytes=N": creating a buffer of that size, and its first acquire, as far as memory goes.
 * "create/gpus=N", "first/gpus=N": creates, and first acquires, a second of N processes together, each on a device of
 * its own; draining, returning and closing again lie within the time. The peer of the latter: the driver's calls alone,
 * an open and a close of a handle that is at hand, by the same processes.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "clients.h"
#include "gpu.h"

/* ---- sizes ---- */

#define LARGEST ((uint64_t)64 << 30)

struct point {
	struct bench create, first;
	char         create_name[64], first_name[64];
	unsigned     clients;
};

static void point_begin(struct point *point, const char *parameter, uint64_t value, const char *unit)
{
	snprintf(point->create_name, sizeof point->create_name, "create/%s=%llu", parameter, (unsigned long long)value);
	snprintf(point->first_name, sizeof point->first_name, "first/%s=%llu", parameter, (unsigned long long)value);
	bench_begin(&point->create, point->create_name, unit);
	bench_begin(&point->first, point->first_name, unit);
}

static void point_end(struct point *point)
{
	bench_end(&point->create);
	bench_end(&point->first);
}

/* False: there is no room for one of that size. */
static bool size_round(gpub_client *client, struct point *point, uint64_t size)
{
	if (!clients_sample_size(client, size, &point->create, &point->first))
		return true;
	fprintf(stderr, "gpu-curves: the curve ends below %llu bytes: %s\n", (unsigned long long)size,
		gpub_strerror_last());
	return false;
}

static void sizes(void)
{
	struct bench_broker broker;
	gpub_client *client;
	bool room = true;

	bench_broker_start(&broker, GPU_KIND);
	bench_must(gpub_connect(&client, NULL));
	for (uint64_t size = 4096; size <= LARGEST && room; size *= 8) {
		int rounds = size <= GPU_GRANULE ? 50 : size <= 1 << 30 ? 10 : 3;
		struct point point;

		point_begin(&point, "bytes", size, "us");
		for (int i = 0; i < rounds && room; i++)
			room = size_round(client, &point, size);
		if (room)
			point_end(&point);
	}
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* ---- devices ---- */

#define TIMES   200 /* of each client, a sample */
#define SAMPLES 5

static int devices;
static cudaIpcMemHandle_t *handles; /* one a device, shared with the owner */

struct member {
	gpub_client *client;
	unsigned     number; /* and its device's */
	char         made[CLIENTS_NAME], kept[CLIENTS_NAME];
};

static void owner(int sock)
{
	void *memory;
	char wait;

	gpu_start();
	for (int i = 0; i < devices; i++) {
		gpu_must(cudaSetDevice(i));
		gpu_must(cudaMalloc(&memory, GPU_GRANULE));
		gpu_must(cudaIpcGetMemHandle(&handles[i], memory));
	}
	gpu_send(sock, "", 1);
	gpu_receive(sock, &wait, 1);
}

static void creates(const struct member *member)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	spec.size = GPU_GRANULE;
	spec.device = GPUB_CURRENT;
	for (int i = 0; i < TIMES; i++) {
		bench_must(gpub_create(member->client, member->made, &spec));
		bench_must(gpub_drain(member->client, member->made, -1));
	}
}

static void firsts(const struct member *member)
{
	gpub_lease lease;

	for (int i = 0; i < TIMES; i++) {
		bench_must(gpub_acquire(member->client, member->kept, GPUB_READ, 0, &lease));
		bench_must(gpub_return(&lease));
		bench_must(gpub_trim(member->client));
	}
}

static void opens(const struct member *member)
{
	void *memory;

	for (int i = 0; i < TIMES; i++) {
		gpu_must(cudaIpcOpenMemHandle(&memory, handles[member->number], cudaIpcMemLazyEnablePeerAccess));
		gpu_must(cudaIpcCloseMemHandle(memory));
	}
}

/* All begin together; the first member says how many that were in a second when all are done. */
static void timed(const struct member *member, void (*work)(const struct member *), struct bench *bench,
		  enum bench_side side, unsigned members, bool counts)
{
	uint64_t began;

	clients_meet();
	began = bench_now_ns();
	work(member);
	clients_meet();
	if (!member->number && counts)
		bench_sample(bench, side, TIMES * members / ((double)(bench_now_ns() - began) / 1e9));
}

static void member_start(struct member *member)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	clients_name(member->made, member->number);
	clients_name(member->kept, 1000 + member->number);
	bench_must(gpub_connect(&member->client, NULL));
	gpu_start();
	gpu_must(cudaSetDevice((int)member->number));
	bench_must(gpub_set_device(member->client, (int)member->number));
	spec.size = GPU_GRANULE;
	spec.device = GPUB_CURRENT;
	bench_must(gpub_create(member->client, member->kept, &spec));
}

static void member_main(unsigned number, void *context)
{
	struct member member = { .number = number };
	struct point *point = context;

	member_start(&member);
	for (int i = -1; i < SAMPLES; i++) {
		timed(&member, creates, &point->create, BENCH_OURS, point->clients, i >= 0);
		timed(&member, opens, &point->first, BENCH_PEER, point->clients, i >= 0);
		timed(&member, firsts, &point->first, BENCH_OURS, point->clients, i >= 0);
	}
	bench_must(gpub_drain(member.client, member.kept, -1));
	gpub_disconnect(member.client);
}

static void gpus(void)
{
	struct bench_broker broker;
	int sock;
	char ready;

	bench_broker_start(&broker, GPU_KIND);
	handles = mmap(NULL, (size_t)devices * sizeof *handles, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	if (handles == MAP_FAILED)
		bench_fail("gpu-curves: no shared memory");
	sock = gpu_helper(owner);
	gpu_receive(sock, &ready, 1);
	for (int n = 1; n <= devices; n *= 2) {
		struct point point = { .clients = (unsigned)n };

		point_begin(&point, "gpus", (uint64_t)n, "1/s");
		clients_run(point.clients, member_main, &point);
		point_end(&point);
	}
	close(sock);
	bench_broker_stop(&broker);
}

int main(void)
{
	devices = gpu_count();
	gpu_part("gpu-curves: bytes", sizes, GPU_SECONDS);
	gpu_part("gpu-curves: gpus", gpus, GPU_SECONDS);
	return gpu_finish();
}
