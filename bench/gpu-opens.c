/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-opens.c - whether opening CUDA IPC handles in several threads gains over one: 512 handles of 2 MiB, opened by 1,
 * 2, 4 and 8 threads in turn. One line a point, "gpu-opens/threads=N": opens a second of all threads together. No
 * broker.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"

#define HANDLES 512
#define PASSES  6 /* the first warms up */

static cudaIpcMemHandle_t *handles; /* shared with the owner */
static void               *opened[HANDLES];
static pthread_barrier_t   start, end;
static unsigned            threads;

static void owner(int sock)
{
	void *memory;
	char wait;

	gpu_start();
	for (unsigned i = 0; i < HANDLES; i++) {
		gpu_must(cudaMalloc(&memory, GPU_GRANULE));
		gpu_must(cudaIpcGetMemHandle(&handles[i], memory));
	}
	gpu_send(sock, "", 1);
	gpu_receive(sock, &wait, 1);
}

static void *opener(void *context)
{
	unsigned first = *(unsigned *)context;

	gpu_must(cudaSetDevice(0));
	pthread_barrier_wait(&start);
	for (unsigned i = first; i < HANDLES; i += threads)
		gpu_must(cudaIpcOpenMemHandle(&opened[i], handles[i], cudaIpcMemLazyEnablePeerAccess));
	pthread_barrier_wait(&end);
	return NULL;
}

static double opens_a_second(void)
{
	pthread_t thread[8];
	unsigned first[8];
	uint64_t began, took;

	pthread_barrier_init(&start, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		first[i] = i;
		if (pthread_create(&thread[i], NULL, opener, &first[i]))
			bench_fail("gpu-opens: no thread");
	}
	pthread_barrier_wait(&start);
	began = bench_now_ns();
	pthread_barrier_wait(&end);
	took = bench_now_ns() - began;
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&start);
	pthread_barrier_destroy(&end);
	for (unsigned i = 0; i < HANDLES; i++)
		gpu_must(cudaIpcCloseMemHandle(opened[i]));
	return HANDLES / ((double)took / 1e9);
}

static void opens(void)
{
	static const unsigned counts[] = { 1, 2, 4, 8 };
	static char name[4][32];
	struct bench_broker broker;
	struct bench bench[4];
	int sock;
	char ready;

	/* its only work is that the lines say which device this is */
	bench_broker_start(&broker, GPU_KIND);
	handles = mmap(NULL, HANDLES * sizeof *handles, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (handles == MAP_FAILED)
		bench_fail("gpu-opens: no shared memory");
	sock = gpu_helper(owner);
	gpu_receive(sock, &ready, 1);
	gpu_start();
	for (int i = 0; i < 4; i++) {
		snprintf(name[i], sizeof name[i], "gpu-opens/threads=%u", counts[i]);
		bench_begin(&bench[i], name[i], "1/s");
	}
	for (int pass = 0; pass < PASSES; pass++)
		for (int i = 0; i < 4; i++) {
			double rate;

			threads = counts[i];
			rate = opens_a_second();
			if (pass)
				bench_sample(&bench[i], BENCH_OURS, rate);
		}
	for (int i = 0; i < 4; i++)
		bench_end(&bench[i]);
	close(sock);
	bench_broker_stop(&broker);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-opens", opens, GPU_SECONDS);
	return gpu_finish();
}
