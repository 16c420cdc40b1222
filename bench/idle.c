/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - what a broker does while clients are connected, map buffers and ask for nothing: how often its threads wake,
 * by the kernel's count of voluntary context switches, and the processor time that they take.
 */
#include <glob.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"

#define CLIENTS 8
#define SECONDS 3

struct work {
	double switches, cpu_us;
};

static double number_in(const char *path, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[256];
	double number = 0;

	while (file && fgets(line, sizeof line, file))
		if (!strncmp(line, key, strlen(key)))
			number = strtod(line + strlen(key), NULL);
	if (file)
		fclose(file);
	return number;
}

/* Over all threads of a process. */
static struct work work_of(pid_t pid)
{
	struct work sum = { 0 };
	char pattern[64], path[128];
	glob_t found;

	snprintf(pattern, sizeof pattern, "/proc/%d/task/*", pid);
	if (glob(pattern, 0, NULL, &found))
		bench_fail("the broker is gone");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		snprintf(path, sizeof path, "%s/status", found.gl_pathv[i]);
		sum.switches += number_in(path, "voluntary_ctxt_switches:");
		snprintf(path, sizeof path, "%s/schedstat", found.gl_pathv[i]);
		sum.cpu_us += number_in(path, "") / 1e3;
	}
	globfree(&found);
	return sum;
}

/* Of the process that serves and of its keeper. */
static struct work work_of_both(const struct bench_broker *broker)
{
	struct work sum = work_of(broker->serving), keeper = { 0 };

	if (broker->serving != broker->pid)
		keeper = work_of(broker->pid);
	return (struct work){ sum.switches + keeper.switches, sum.cpu_us + keeper.cpu_us };
}

static void measure(const struct bench_broker *broker)
{
	struct bench wakes, cpu;

	bench_begin(&wakes, "idle-wake-ups", "1/s");
	bench_begin(&cpu, "idle-cpu", "us/s");
	sleep(1); /* what the clients asked for is written to the status file */
	for (int i = 0; i < SECONDS; i++) {
		struct work before = work_of_both(broker), after;

		sleep(1);
		after = work_of_both(broker);
		bench_sample(&wakes, BENCH_OURS, after.switches - before.switches);
		bench_sample(&cpu, BENCH_OURS, after.cpu_us - before.cpu_us);
	}
	bench_end(&wakes);
	bench_end(&cpu);
}

static void client_main(unsigned number, void *context)
{
	const struct bench_broker *broker = context;
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[CLIENTS_NAME];
	gpub_client *client;
	gpub_lease lease;

	bench_must(gpub_connect(&client, NULL));
	clients_name(name, number);
	spec.size = 4096;
	bench_must(gpub_create(client, name, &spec));
	bench_must(gpub_acquire(client, name, GPUB_READ, 0, &lease));
	clients_meet();
	if (!number)
		measure(broker);
	clients_meet();
	gpub_disconnect(client);
}

int main(void)
{
	struct bench_broker broker;

	bench_broker_start(&broker, "host");
	clients_run(CLIENTS, client_main, &broker);
	bench_broker_stop(&broker);
	return 0;
}
