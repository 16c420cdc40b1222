/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size.c - a broker with 100,000 buffers: what one costs it in memory, what a session costs it, and what acquiring by
 * name costs a process that maps them all, in an order without pattern.
 *
 * Memory is what /proc says is resident in the broker (Rss, its share of the board among it), behind less before. The
 * status file, of which a broker may have any part mapped at a time, has a row of its own: what it grew by.
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

static FILE *open_maps(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/smaps", pid);
	return fopen(path, "r");
}

/* Bytes: of all but the status file, or of the status file's size. */
static double memory(pid_t pid, bool status)
{
	FILE *maps = open_maps(pid);
	bool is_status = false;
	double rss = 0, size = 0;
	char line[512];

	while (maps && fgets(line, sizeof line, maps)) {
		unsigned long begin, end;

		if (sscanf(line, "%lx-%lx ", &begin, &end) == 2) {
			/* it was made without a name: that is how the kernel shows it */
			is_status = strstr(line, "/dev/shm/#");
			size += is_status ? (double)(end - begin) : 0;
		}
		if (!is_status && !strncmp(line, "Rss:", 4))
			rss += strtod(line + 4, NULL) * 1024;
	}
	if (maps)
		fclose(maps);
	return status ? size : rss;
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
	return memory(pid, false);
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
	double before, behind, status;

	(void)number;
	bench_must(gpub_connect(&client, NULL));
	before = stable(size->broker);
	status = memory(size->broker, true);
	size->count = clients_create(client, size->count, 4096);
	behind = stable(size->broker);
	one("size-buffers", "buffers", size->count);
	one("size-broker-bytes-a-buffer", "B", (behind - before) / size->count);
	one("size-status-bytes-a-buffer", "B", (memory(size->broker, true) - status) / size->count);
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
	size = (struct size){ broker.serving, wanted };
	clients_run(1, client_main, &size);
	bench_broker_stop(&broker);
	return 0;
}
