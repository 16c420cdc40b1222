/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.c - a broker with 100,000 buffers: what one costs it in memory, what a session costs it, and what acquiring by
 * name costs a process that maps them all, in an order without pattern.
 *
 * Memory is what /proc says is resident in the broker (VmRSS, its share of the board among it), behind less before.
 */
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"

#define BUFFERS  100000
#define SESSIONS 64
#define SAMPLES  3000
#define QUIET_US 200000

struct size {
	pid_t    broker;
	unsigned count;
};

static double resident(pid_t pid)
{
	char path[64], line[256];
	double bytes = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, "VmRSS:", 6))
			bytes = strtod(line + 6, NULL) * 1024;
	if (file)
		fclose(file);
	return bytes;
}

/* Once the broker's loop is idle. */
static double stable(pid_t pid)
{
	double now = bench_worked_ns(pid), before;

	do {
		before = now;
		usleep(QUIET_US);
		now = bench_worked_ns(pid);
	} while (now != before);
	return resident(pid);
}

static void one(const char *name, const char *unit, double value)
{
	struct bench bench;

	bench_begin(&bench, name, unit);
	bench_sample(&bench, BENCH_OURS, value);
	bench_end(&bench);
}

static void acquire(gpub_client *client, unsigned count)
{
	struct bench bench;

	bench_begin(&bench, "size-acquire-by-name", "ns");
	clients_sample_by_name(client, count, &bench, SAMPLES);
	bench_end(&bench);
}

static void client_main(unsigned number, void *context)
{
	static gpub_client *more[SESSIONS];
	struct size *size = context;
	gpub_client *client;
	double before, behind;

	(void)number;
	bench_must(gpub_connect(&client, NULL));
	before = stable(size->broker);
	size->count = clients_create(client, size->count, 4096);
	behind = stable(size->broker);
	one("size-buffers", "buffers", size->count);
	one("size-broker-bytes-a-buffer", "B", (behind - before) / size->count);
	for (int i = 0; i < SESSIONS; i++)
		bench_must(gpub_connect(&more[i], NULL));
	one("size-broker-bytes-a-session", "B", (stable(size->broker) - behind) / SESSIONS);
	clients_map(client, size->count);
	one("size-broker-bytes-a-mapped-buffer", "B", (stable(size->broker) - before) / size->count);
	acquire(client, size->count);
	for (int i = 0; i < SESSIONS; i++)
		gpub_disconnect(more[i]);
	gpub_disconnect(client);
}

int main(void)
{
	unsigned wanted = clients_buffers(BUFFERS);
	struct bench_broker broker;
	struct size size;

	clients_broker_start(&broker, wanted);
	size = (struct size){ broker.pid, wanted };
	clients_run(1, client_main, &size);
	bench_broker_stop(&broker);
	return 0;
}
