/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-attach.c - large buffers and many of them, with a broker of --export vmm on a CUDA device.
 *
 * gpu-attach-SIZE: a buffer of 8, 16 and 64 GiB is acquired, returned in stream order and closed, against the bare
 * calls: a request on a socket, a descriptor back, which is imported, mapped and made accessible; then unmapped and
 * released. That is the sequence of NVIDIA Dynamo's GPU memory service for attach and detach, without its protocol.
 * Both have the memory one after the other, since a device has no room for two of 64 GiB.
 *
 * gpu-many: the last creates of as many buffers of 2 MiB as the device has room for and the system descriptors, up to
 * 100,000, against the first ones of that run: each keeps a descriptor in the broker. Says on stderr what the broker's
 * process has then.
 */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gpu.h"

#define ROUNDS  50
#define GIB     ((size_t)1 << 30)
#define MANY    100000u
#define COMPARE 1000u   /* creates at the beginning and at the end */
#define SPARE   (4 * GIB) /* of the device: for contexts */
#define OTHERS  200       /* descriptors that the broker has otherwise */

static const char *const vmm[] = { "--export", "vmm", "--pool", "0", NULL };
static size_t            size;

/* ---- one large buffer ---- */

static void owner(int sock)
{
	gpu_vmm_serve(sock, size);
}

static double timed_bare(int sock)
{
	uint64_t          began = bench_now_ns();
	struct gpu_mapped mapped;
	int               descriptor;

	gpu_send(sock, "", 1);
	descriptor = gpu_descriptor_receive(sock);
	gpu_vmm_map(descriptor, size, &mapped);
	close(descriptor);
	gpu_vmm_unmap(&mapped);
	return (double)(bench_now_ns() - began) / 1e3;
}

static double timed_ours(gpub_client *client, void *stream)
{
	uint64_t   began = bench_now_ns();
	gpub_lease lease;

	bench_must(gpub_acquire(client, "large", GPUB_READ, 0, &lease));
	bench_must(gpub_return_on(&lease, stream));
	bench_must(gpub_trim(client));
	return (double)(bench_now_ns() - began) / 1e3;
}

static void ours(struct bench *bench)
{
	struct bench_broker broker;
	gpub_spec           spec = GPUB_SPEC_INIT;
	gpub_client        *client;
	void               *stream;

	bench_broker_start_with(&broker, GPU_KIND, vmm);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	spec.size = size;
	bench_must(gpub_create(client, "large", &spec));
	bench_must(gpub_stream_create(client, 0, &stream));
	for (int i = 0; i < 2 * ROUNDS; i++) {
		double took = timed_ours(client, stream);

		if (i >= ROUNDS)
			bench_sample(bench, BENCH_OURS, took);
	}
	gpub_stream_destroy(stream);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* In a process of its own, whose memory is gone with it. */
static void bare(int sock)
{
	int  own = gpu_helper(owner);
	char go;

	gpu_start();
	gpu_receive(sock, &go, 1);
	for (int i = 0; i < 2 * ROUNDS; i++) {
		double took = timed_bare(own);

		if (i >= ROUNDS)
			gpu_send(sock, &took, sizeof took);
	}
	close(own);
	for (;;)
		gpu_receive(sock, &go, 1);
}

static void attach(void)
{
	struct bench bench;
	char         name[32];
	int          sock;
	double       took;

	snprintf(name, sizeof name, "gpu-attach-%zuG", size / GIB);
	bench_begin(&bench, name, "us");
	sock = gpu_helper(bare);
	ours(&bench);
	gpu_send(sock, "", 1);
	for (int i = 0; i < ROUNDS; i++) {
		gpu_receive(sock, &took, sizeof took);
		bench_sample(&bench, BENCH_PEER, took);
	}
	close(sock);
	bench_end(&bench);
}

/* ---- many small ones ---- */

static unsigned many_fit(void)
{
	size_t        room, all;
	unsigned      count;
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	gpu_must(cudaMemGetInfo(&room, &all));
	count = room > SPARE ? (unsigned)((room - SPARE) / GPU_GRANULE) : 0;
	if (count > limit.rlim_max - OTHERS)
		count = (unsigned)limit.rlim_max - OTHERS;
	return count < MANY ? count : MANY;
}

static double timed_create(gpub_client *client, unsigned number)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	uint64_t  began = bench_now_ns();
	char      name[32];

	snprintf(name, sizeof name, "many/%u", number);
	spec.size = GPU_GRANULE;
	bench_must(gpub_create(client, name, &spec));
	return (double)(bench_now_ns() - began) / 1e3;
}

/* Resident memory and descriptors of the broker and its children: one owns the device memory. */
static void say_of_broker(pid_t pid, unsigned count)
{
	char command[512];

	snprintf(command, sizeof command,
		 "for pid in %d $(cat /proc/%d/task/%d/children); do "
		 "echo \"# %u buffers: $(cat /proc/$pid/comm)\" "
		 "$(grep VmRSS /proc/$pid/status), $(ls /proc/$pid/fd | wc -l) descriptors >&2; done",
		 (int)pid, (int)pid, (int)pid, count);
	(void)!system(command);
}

static void many(void)
{
	static const char *const options[] = { "--export", "vmm", "--pool", "0", "--buffers", "131072", NULL };
	struct bench_broker broker;
	struct bench        bench;
	gpub_client        *client;
	unsigned            count;

	bench_broker_start_with(&broker, GPU_KIND, options);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	count = many_fit();
	bench_begin(&bench, "gpu-many", "us");
	say_of_broker(broker.pid, 0);
	for (unsigned i = 0; i < count; i++) {
		double took = timed_create(client, i);

		if (i >= COMPARE && i < 2 * COMPARE)
			bench_sample(&bench, BENCH_PEER, took);
		if (i >= count - COMPARE)
			bench_sample(&bench, BENCH_OURS, took);
	}
	say_of_broker(broker.pid, count);
	bench_end(&bench);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

int main(void)
{
	static const size_t sizes[] = { 8 * GIB, 16 * GIB, 64 * GIB };

	gpu_count();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size = sizes[i];
		gpu_part("gpu-attach", attach, 2 * GPU_SECONDS);
	}
	gpu_part("gpu-many", many, 3 * GPU_SECONDS);
	return gpu_finish();
}
