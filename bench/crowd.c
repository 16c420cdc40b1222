/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd.c - what the library's and the broker's spinning costs a machine that has nothing to spare: a process computes
 * on each processor, all the time, while two clients make a round trip a millisecond each. How much is computed
 * meanwhile is compared with how much is while the same clients make as many bare round trips, which sleep for every
 * answer (floor.h). Once with a broker as it is, once with one that polls while it is busy.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"
#include "floor.h"

#define CLIENTS   2
#define WINDOWS   40
#define WINDOW_NS 100000000ull
#define PAUSE_NS  1000000ull

struct crowd {
	struct bench     bench;
	struct floor    *floor;
	unsigned         workers;
	_Atomic uint64_t until;    /* of this window */
	_Atomic uint64_t computed; /* in it, by all */
	_Atomic uint64_t trips;
};

/* Some 10 us in registers and the first cache. */
static uint64_t compute(uint64_t seed)
{
	for (int i = 0; i < 10000; i++)
		seed = seed * 6364136223846793005u + 1442695040888963407u;
	return seed;
}

static void work(struct crowd *crowd)
{
	static volatile uint64_t sink;
	uint64_t count = 0;

	while (bench_now_ns() < crowd->until) {
		sink = compute(sink);
		count++;
	}
	crowd->computed += count;
}

static void ask(struct crowd *crowd, gpub_client *client, unsigned number, enum bench_side side)
{
	gpub_info info = { .struct_size = sizeof info };
	struct timespec pause = { .tv_nsec = PAUSE_NS };
	uint64_t count = 0;

	for (; bench_now_ns() < crowd->until; count++) {
		if (side == BENCH_OURS)
			bench_must(gpub_stat(client, "crowd", &info));
		else
			floor_round(crowd->floor, number, 1);
		nanosleep(&pause, NULL);
	}
	crowd->trips += count;
}

/* The first client opens and closes it. */
static void window(struct crowd *crowd, unsigned number, gpub_client *client, enum bench_side side, bool counts)
{
	clients_meet();
	if (!number) {
		crowd->computed = crowd->trips = 0;
		crowd->until = bench_now_ns() + WINDOW_NS;
	}
	clients_meet();
	if (number < CLIENTS)
		ask(crowd, client, number, side);
	else
		work(crowd);
	clients_meet();
	if (!number && counts)
		bench_sample(&crowd->bench, side, (double)crowd->computed / ((double)WINDOW_NS / 1e6));
}

static void member_main(unsigned number, void *context)
{
	struct crowd *crowd = context;
	gpub_client *client = NULL;
	gpub_spec spec = GPUB_SPEC_INIT;

	if (number < CLIENTS)
		bench_must(gpub_connect(&client, NULL));
	spec.size = 4096;
	if (!number)
		bench_must(gpub_create(client, "crowd", &spec));
	for (int i = -4; i < WINDOWS; i++) {
		window(crowd, number, client, i % 2 ? BENCH_OURS : BENCH_PEER, i >= 0);
		window(crowd, number, client, i % 2 ? BENCH_PEER : BENCH_OURS, i >= 0);
	}
	if (client)
		gpub_disconnect(client);
}

static void crowd_run(struct crowd *crowd, const char *name, const char *const *options)
{
	struct bench_broker broker;

	bench_broker_start_with(&broker, "host", options);
	crowd->floor = floor_start(CLIENTS, 1);
	bench_begin(&crowd->bench, name, "1/ms");
	clients_run(CLIENTS + crowd->workers, member_main, crowd);
	bench_end(&crowd->bench);
	floor_stop(crowd->floor);
	bench_broker_stop(&broker);
}

int main(void)
{
	static const char *const polls[] = { "--poll", "50", NULL };
	struct crowd *crowd = mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (crowd == MAP_FAILED)
		bench_fail("no shared memory");
	crowd->workers = (unsigned)(processors < 32 ? processors : 32);
	crowd_run(crowd, "crowd", NULL);
	crowd_run(crowd, "crowd-polled", polls);
	return 0;
}
