/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-drain.c - a drain of a buffer that another process has mapped and computes beside: until the memory is freed, and
 * how long that process's launches take meanwhile; with a broker that exports descriptors, and with one of CUDA IPC.
 *
 * The other process, the consumer, has returned its lease in stream order. It launches kernels of BUSY_MS on another
 * stream, one after the other, and has a closer thread (GPUB_BACKGROUND_CLOSE), without which CUDA IPC would close
 * nothing. A launch of a round without a drain is what launches are compared with.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "gpu.h"

#define ROUNDS  20
#define WARM    3
#define BUSY_MS 50
#define SIZE    (8 * GPU_GRANULE)

/* ---- the consumer ---- */

static gpub_kernel  late_write;
static void        *stream, *word;
static atomic_ulong longest_ns;

static void launch(void)
{
	uint64_t value = 1, milliseconds = BUSY_MS, began = bench_now_ns(), took;
	gpub_launch_config config = GPUB_LAUNCH_INIT;
	void *arguments[] = { &word, &value, &milliseconds };

	config.device = 0;
	config.stream = stream;
	bench_must(gpub_launch(late_write, &config, arguments));
	took = bench_now_ns() - began;
	if (took > atomic_load(&longest_ns))
		atomic_store(&longest_ns, took);
}

static void *compute(void *unused)
{
	(void)unused;
	for (;;) {
		launch();
		gpu_must(cudaStreamSynchronize(stream));
	}
	return NULL;
}

static void consumer(int sock)
{
	gpub_client *client;
	gpub_lease lease;
	pthread_t thread;
	double longest;
	void *own;
	char order;

	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	bench_must(gpub_set_flags(client, GPUB_BACKGROUND_CLOSE));
	bench_must(gpub_stream_create(client, 0, &stream));
	bench_must(gpub_stream_create(client, 0, &own));
	gpu_must(cudaMalloc(&word, 8));
	late_write = gpu_leased_kernel(client, "late_write");
	if (pthread_create(&thread, NULL, compute, NULL))
		bench_fail("no thread");
	for (;;) {
		gpu_receive(sock, &order, 1);
		if (order == 'm') {
			bench_must(gpub_acquire(client, "x", GPUB_READ, 0, &lease));
			bench_must(gpub_return_on(&lease, own));
			gpu_must(cudaStreamSynchronize(own));
		}
		longest = (double)atomic_exchange(&longest_ns, 0) / 1e3;
		gpu_send(sock, &longest, sizeof longest);
	}
}

/* ---- rounds ---- */

struct side {
	struct bench_broker broker;
	gpub_client        *client;
	int                 sock;
};

static double tell(const struct side *side, char order)
{
	double longest;

	gpu_send(side->sock, &order, 1);
	gpu_receive(side->sock, &longest, sizeof longest);
	return longest;
}

/* Microseconds; *launch: the longest of the consumer's while it lasted. */
static double timed_drain(const struct side *side, double *longest)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	uint64_t began;
	double took;

	spec.size = SIZE;
	bench_must(gpub_create(side->client, "x", &spec));
	tell(side, 'm');
	usleep(BUSY_MS * 1000 / 3); /* into a kernel */
	began = bench_now_ns();
	bench_must(gpub_drain(side->client, "x", 10000));
	took = (double)(bench_now_ns() - began) / 1e3;
	usleep(2 * BUSY_MS * 1000);
	*longest = tell(side, 'l');
	return took;
}

static double quiet_launch(const struct side *side)
{
	tell(side, 'l');
	usleep(2 * BUSY_MS * 1000);
	return tell(side, 'l');
}

/* Forks; connects only when all have forked. */
static void side_start(struct side *side, const char *kind)
{
	const char *options[] = { "--pool", "0", "--export", kind, NULL };

	bench_broker_start_with(&side->broker, GPU_KIND, options);
	side->sock = gpu_helper(consumer);
}

static void side_connect(struct side *side)
{
	bench_must(gpub_connect(&side->client, side->broker.address));
}

static void side_stop(struct side *side)
{
	gpub_disconnect(side->client);
	close(side->sock);
	bench_broker_stop(&side->broker);
}

static void drain(void)
{
	struct bench times, launches[2];
	struct side vmm, ipc;

	side_start(&ipc, "ipc");
	side_start(&vmm, "vmm");
	side_connect(&ipc);
	side_connect(&vmm);
	bench_begin(&times, "gpu-drain-vmm", "us");
	bench_begin(&launches[0], "gpu-drain-launch-vmm", "us");
	bench_begin(&launches[1], "gpu-drain-launch-ipc", "us");
	for (int i = -WARM; i < ROUNDS; i++) {
		double launch_ipc, launch_vmm, took_ipc = timed_drain(&ipc, &launch_ipc),
					       took_vmm = timed_drain(&vmm, &launch_vmm);

		bench_round(&times, i, took_ipc, took_vmm);
		bench_round(&launches[0], i, quiet_launch(&vmm), launch_vmm);
		bench_round(&launches[1], i, quiet_launch(&ipc), launch_ipc);
	}
	bench_end(&times);
	bench_end(&launches[0]);
	bench_end(&launches[1]);
	side_stop(&vmm);
	side_stop(&ipc);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-drain", drain, GPU_SECONDS);
	return gpu_finish();
}
