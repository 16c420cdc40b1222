/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.c - what the death of the process that owns the device memory costs those who need no device: first acquires of
 * eight clients, each one a millisecond, in windows in which that process is killed and another one starts, beside
 * windows in which it lives. Only memory that came by a descriptor can be acquired then.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "bench.h"
#include "clients.h"

#define CLIENTS   8
#define WINDOWS   60 /* of each side */
#define WINDOW_NS 50000000ull
#define PAUSE_NS  1000000ull

struct deaths {
	struct bench     bench;
	pid_t            broker;
	_Atomic uint64_t until; /* of this window */
};

static void acquire(struct deaths *deaths, gpub_client *client, const char *name, enum bench_side side, bool counts)
{
	uint64_t began = bench_now_ns();
	gpub_lease lease;

	bench_must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease));
	if (counts)
		bench_sample(&deaths->bench, side, (double)(bench_now_ns() - began) / 1e3);
	bench_must(gpub_return(&lease));
	bench_must(gpub_trim(client));
}

static void window(struct deaths *deaths, unsigned number, gpub_client *client, enum bench_side side, bool counts)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	char name[CLIENTS_NAME];
	pid_t owner = 0;

	clients_name(name, number);
	while (!number && side == BENCH_OURS && !owner)
		owner = bench_child(deaths->broker, "gpubroker-owner"); /* none, while the next one is forked */
	clients_meet();
	if (!number)
		deaths->until = bench_now_ns() + WINDOW_NS;
	clients_meet();
	if (owner && kill(owner, SIGKILL))
		bench_fail("the process that owns the device memory cannot be killed: %m");
	while (bench_now_ns() < deaths->until) {
		acquire(deaths, client, name, side, counts);
		nanosleep(&pause, NULL);
	}
	clients_meet();
}

static void client_main(unsigned number, void *context)
{
	struct deaths *deaths = context;
	gpub_client *client;

	bench_must(gpub_connect(&client, NULL));
	for (int i = -2; i < WINDOWS; i++) {
		window(deaths, number, client, i % 2 ? BENCH_OURS : BENCH_PEER, i >= 0);
		window(deaths, number, client, i % 2 ? BENCH_PEER : BENCH_OURS, i >= 0);
	}
	gpub_disconnect(client);
}

int main(void)
{
	static const char *const options[] = { "--export", "vmm", "--quiet", NULL };
	struct deaths *deaths = mmap(NULL, sizeof *deaths, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct bench_broker broker;

	if (deaths == MAP_FAILED)
		bench_fail("no shared memory");
	bench_broker_start_with(&broker, "host", options);
	deaths->broker = broker.pid;
	clients_create_apart(CLIENTS, 2u << 20);
	bench_begin(&deaths->bench, "acquire-owner-dies", "us");
	clients_run(CLIENTS, client_main, deaths);
	bench_end(&deaths->bench);
	bench_broker_stop(&broker);
	return 0;
}
