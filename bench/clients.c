/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c - see clients.h */
#include "clients.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define CLIENTS_MAX 64

static pthread_barrier_t *meeting;

static void *shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory != MAP_FAILED ? memory : (bench_fail("no shared memory"), NULL);
}

static void meeting_make(unsigned count)
{
	pthread_barrierattr_t between_processes;

	meeting = shared(sizeof *meeting);
	pthread_barrierattr_init(&between_processes);
	pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(meeting, &between_processes, count);
}

void clients_meet(void)
{
	pthread_barrier_wait(meeting);
}

/* One that fails ends the program, and with it the others, who may wait for it. */
static void await(void)
{
	int status;

	if (wait(&status) < 0 || status)
		bench_fail("a client ended with wait status %#x", (unsigned)status);
}

void clients_run(unsigned count, void (*work)(unsigned number, void *context), void *context)
{
	if (count > CLIENTS_MAX)
		bench_fail("%u clients are more than %u", count, CLIENTS_MAX);
	meeting_make(count);
	fflush(stdout);
	for (unsigned i = 0; i < count; i++) {
		pid_t pid = fork();

		if (pid < 0)
			bench_fail("no process for a client");
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			bench_pin((int)i);
			work(i, context);
			_exit(0);
		}
	}
	for (unsigned i = 0; i < count; i++)
		await();
	munmap(meeting, sizeof *meeting);
}

void clients_name(char name[CLIENTS_NAME], unsigned i)
{
	snprintf(name, CLIENTS_NAME, "layer/%06u/weights", i);
}

unsigned clients_create(gpub_client *client, unsigned count, uint64_t size)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[CLIENTS_NAME];

	spec.size = size;
	for (unsigned i = 0; i < count; i++) {
		clients_name(name, i);
		if (!gpub_create(client, name, &spec))
			continue;
		fprintf(stderr, "%u buffers of %u: %s\n", i, count, gpub_strerror_last());
		return i;
	}
	return count;
}

struct creation {
	unsigned count;
	uint64_t size;
};

static void create_work(unsigned number, void *context)
{
	struct creation *creation = context;
	gpub_client *client;

	(void)number;
	bench_must(gpub_connect(&client, NULL));
	creation->count = clients_create(client, creation->count, creation->size);
	gpub_disconnect(client);
}

unsigned clients_create_apart(unsigned count, uint64_t size)
{
	struct creation *creation = shared(sizeof *creation);

	*creation = (struct creation){ count, size };
	clients_run(1, create_work, creation);
	count = creation->count;
	munmap(creation, sizeof *creation);
	return count;
}

unsigned clients_buffers(unsigned wanted)
{
	return wanted <= 4000 || bench_broker_has("--buffers") ? wanted : 4000;
}

void clients_broker_start(struct bench_broker *broker, unsigned buffers)
{
	char room[16], mappings[16];
	const char *const options[] = { "--buffers", room, "--mappings", mappings, NULL };

	snprintf(room, sizeof room, "%u", buffers + 64);
	snprintf(mappings, sizeof mappings, "%u", 4 * buffers + 1024);
	bench_broker_start_with(broker, "host", bench_broker_has("--buffers") ? options : NULL);
}

void clients_map(gpub_client *client, unsigned count)
{
	char name[CLIENTS_NAME];
	gpub_lease lease;

	for (unsigned i = 0; i < count; i++) {
		clients_name(name, i);
		bench_must(gpub_acquire(client, name, GPUB_READ, 0, &lease));
		bench_must(gpub_return(&lease));
	}
}

#define NAMES 200 /* a sample */

static double take_by_name(gpub_client *client, unsigned count, uint64_t *state)
{
	static char name[NAMES][CLIENTS_NAME];
	gpub_lease lease;
	uint64_t began;

	for (unsigned i = 0; i < NAMES; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		clients_name(name[i], (unsigned)((*state >> 33) % count));
	}
	began = bench_now_ns();
	for (unsigned i = 0; i < NAMES; i++)
		if (gpub_acquire(client, name[i], GPUB_READ, 0, &lease) || gpub_return(&lease))
			bench_fail("%s: %s", name[i], gpub_strerror_last());
	return (double)(bench_now_ns() - began) / NAMES;
}

void clients_sample_by_name(gpub_client *client, unsigned count, struct bench *bench, int samples)
{
	uint64_t state = 1;

	for (int i = -100; i < samples; i++) {
		double took = take_by_name(client, count, &state);

		if (i >= 0)
			bench_sample(bench, BENCH_OURS, took);
	}
}

int clients_sample_size(gpub_client *client, uint64_t size, struct bench *create, struct bench *first)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	uint64_t began = bench_now_ns();
	gpub_lease lease;
	int error;

	spec.size = size;
	error = gpub_create(client, "sized", &spec);
	if (error)
		return error;
	bench_sample(create, BENCH_OURS, (double)(bench_now_ns() - began) / 1e3);
	began = bench_now_ns();
	bench_must(gpub_acquire(client, "sized", GPUB_READ, 0, &lease));
	bench_sample(first, BENCH_OURS, (double)(bench_now_ns() - began) / 1e3);
	bench_must(gpub_return(&lease));
	bench_must(gpub_drain(client, "sized", -1));
	return 0;
}
