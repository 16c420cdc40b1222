/* SPDX-License-Identifier: Apache-2.0 */
/*
 * renew.c - gpub_renew() and gpub_return() of a mapped buffer that nobody else uses, against the least that could
 * publish a hold: an exchange in a slot of one's own, a look whether the generation is still the same, a store that
 * clears it.
 *
 * One line each: a process, and as many as there are processors, on one buffer; as many threads of a process, on one
 * buffer and on one each. Flat means that the lines say the same.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "gpubroker.h"

#define BATCH   1000 /* rounds a sample */
#define SAMPLES 3000
#define WARM_UP 100

struct job {
	const char *name;
	unsigned    processes, threads; /* of each process */
	bool        own;                /* a buffer for each thread */
};

/* One thread's; its floor has a line of its own. */
struct worker {
	const struct job *job;
	struct bench     *bench;
	gpub_client      *client;
	unsigned          number;
	gpub_lease        lease;
	_Alignas(64) _Atomic uint64_t slot;
};

/* The board of the floor, and the barrier of all processes. */
static struct shared {
	pthread_barrier_t barrier;
	_Alignas(64) _Atomic uint64_t generation;
} *shared;

static double floor_batch(struct worker *worker)
{
	uint64_t begin = bench_now_ns();

	for (uint64_t i = 1; i <= BATCH; i++) {
		atomic_exchange(&worker->slot, i);
		if (atomic_load_explicit(&shared->generation, memory_order_acquire) != 1)
			bench_fail("the generation changed");
		atomic_store_explicit(&worker->slot, 0, memory_order_release);
	}
	return (double)(bench_now_ns() - begin) / BATCH;
}

static double our_batch(struct worker *worker)
{
	uint64_t begin = bench_now_ns();

	for (int i = 0; i < BATCH; i++)
		if (gpub_renew(&worker->lease) || gpub_return(&worker->lease))
			bench_fail("%s", gpub_strerror_last());
	return (double)(bench_now_ns() - begin) / BATCH;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	char name[32];

	bench_pin((int)worker->number);
	snprintf(name, sizeof name, "bench/%u", worker->job->own ? worker->number : 0);
	bench_must(gpub_acquire(worker->client, name, GPUB_READ, 0, &worker->lease));
	/* all at a time, so that each has a slot */
	pthread_barrier_wait(&shared->barrier);
	bench_must(gpub_return(&worker->lease));
	for (int i = 0; i < WARM_UP; i++) {
		floor_batch(worker);
		our_batch(worker);
	}
	pthread_barrier_wait(&shared->barrier);
	for (int i = 0; i < SAMPLES; i++) {
		bench_sample(worker->bench, BENCH_PEER, floor_batch(worker));
		bench_sample(worker->bench, BENCH_OURS, our_batch(worker));
	}
	return NULL;
}

static void process(struct bench *bench, const struct job *job, unsigned number)
{
	struct worker *worker = aligned_alloc(64, job->threads * sizeof *worker);
	pthread_t *thread = calloc(job->threads, sizeof *thread);
	gpub_client *client;

	if (!worker || !thread)
		bench_fail("no memory for threads");
	bench_must(gpub_connect(&client, NULL));
	for (unsigned i = 0; i < job->threads; i++) {
		memset(&worker[i], 0, sizeof worker[i]);
		worker[i].job = job;
		worker[i].bench = bench;
		worker[i].client = client;
		worker[i].number = number * job->threads + i;
		if (pthread_create(&thread[i], NULL, work, &worker[i]))
			bench_fail("no thread");
	}
	for (unsigned i = 0; i < job->threads; i++)
		pthread_join(thread[i], NULL);
	gpub_disconnect(client);
	free(thread);
	free(worker);
}

static void barrier_make(unsigned count)
{
	pthread_barrierattr_t attributes;

	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attributes, count);
	pthread_barrierattr_destroy(&attributes);
}

static void run(const struct job *job)
{
	struct bench bench;
	int status;

	bench_begin(&bench, job->name, "ns");
	barrier_make(job->processes * job->threads);
	for (unsigned i = 0; i < job->processes; i++)
		if (!fork()) {
			process(&bench, job, i);
			exit(0);
		}
	for (unsigned i = 0; i < job->processes; i++)
		if (wait(&status) < 0 || status)
			bench_fail("%s: a process failed", job->name);
	bench_end(&bench);
}

/* They outlive the session that made them. */
static void buffers_make(unsigned count)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_client *client;
	char name[32];

	spec.size = 4096;
	bench_must(gpub_connect(&client, NULL));
	for (unsigned i = 0; i < count; i++) {
		snprintf(name, sizeof name, "bench/%u", i);
		bench_must(gpub_create(client, name, &spec));
	}
	gpub_disconnect(client);
}

int main(void)
{
	unsigned many = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	struct bench_broker broker;
	char name[3][64];
	const struct job jobs[] = {
		{ "renew and return, 1 process", 1, 1, false },
		{ name[0], many, 1, false },
		{ name[1], 1, many, true },
		{ name[2], 1, many, false },
	};

	snprintf(name[0], sizeof name[0], "renew and return, %u processes, one buffer", many);
	snprintf(name[1], sizeof name[1], "renew and return, %u threads, a buffer each", many);
	snprintf(name[2], sizeof name[2], "renew and return, %u threads, one buffer", many);
	bench_broker_start(&broker, "host");
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		bench_fail("no shared memory");
	shared->generation = 1;
	if (!fork()) {
		buffers_make(many);
		exit(0);
	}
	wait(NULL);
	for (unsigned i = 0; i < sizeof jobs / sizeof *jobs; i++)
		run(&jobs[i]);
	bench_broker_stop(&broker);
	return 0;
}
