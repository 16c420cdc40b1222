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
	pid_t  broker;
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

/* Over all its threads. */
static struct work work_of(pid_t broker)
{
	struct work sum = { .broker = broker };
	char pattern[64], path[128];
	glob_t found;

	snprintf(pattern, sizeof pattern, "/proc/%d/task/*", broker);
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

static void measure(pid_t broker)
{
	struct bench wakes, cpu;

	bench_begin(&wakes, "idle-wake-ups", "1/s");
	bench_begin(&cpu, "idle-cpu", "us/s");
	sleep(1); /* what the clients asked for is written to the status file */
	for (int i = 0; i < SECONDS; i++) {
		struct work before = work_of(broker), after;

		sleep(1);
		after = work_of(broker);
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
		measure(broker->pid);
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
