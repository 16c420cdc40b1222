/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-box.c - how work between the GPUs of one machine goes with their number: one line a point, named CURVE/gpus=N.
 *
 * "pairs/gpus=N": each of N devices copies a buffer of each other device, one copy at a time; gigabytes a second, a
 * sample a pair.
 * "shift/gpus=N": all N copy a buffer of the next device, at the same time; gigabytes a second of all together. The
 * peer of both: the same copies of memory of the process, by cudaDeviceEnablePeerAccess().
 * "ring/gpus=N": N processes, one a device, whose streams hand a number around by timelines; us a hand-over. The peer:
 * stream waits and writes of the driver on words of one page that all registered.
 * "deaths/gpus=N": N processes that each compute on a buffer of a device of its own are killed together; ms until all
 * buffers, which were unlinked before, are freed. The peer: until the kernel has ended the processes.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clients.h"
#include "gpu.h"
#include "kernels/kernels.h"

#define GPUS_MAX 16

static int devices;

static void point_begin(struct bench *bench, const char *curve, unsigned gpus, const char *unit)
{
	static char names[64][32]; /* a bench keeps its name */
	static unsigned count;
	char *name = names[count++ % 64];

	snprintf(name, sizeof names[0], "%s/gpus=%u", curve, gpus);
	bench_begin(bench, name, unit);
}

/* ---- copies between devices ---- */

#define BYTES  ((size_t)256 << 20)
#define COPIES 16 /* a sample */
#define PAIR_ROUNDS  5
#define SHIFT_ROUNDS 20

/* One device's. from[side][i]: memory of device i, as this one reaches it. */
struct place {
	void        *to, *from[2][GPUS_MAX];
	cudaStream_t stream;
};

static struct place places[GPUS_MAX];

static void peer_enable(int device)
{
	cudaError_t result = cudaDeviceEnablePeerAccess(device, 0);

	if (result == cudaErrorPeerAccessAlreadyEnabled)
		(void)cudaGetLastError();
	else
		gpu_check("cudaDeviceEnablePeerAccess()", result);
}

/* Its own memory is zeroed, as a buffer is: what the bytes are can change how fast they move. */
static void place_make(gpub_client *client, int device)
{
	struct place *place = &places[device];
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[CLIENTS_NAME];

	gpu_must(cudaSetDevice(device));
	gpu_must(cudaStreamCreateWithFlags(&place->stream, cudaStreamNonBlocking));
	gpu_must(cudaMalloc(&place->to, BYTES));
	gpu_must(cudaMalloc(&place->from[BENCH_PEER][device], BYTES));
	gpu_must(cudaMemset(place->from[BENCH_PEER][device], 0, BYTES));
	gpu_must(cudaDeviceSynchronize());
	clients_name(name, (unsigned)device);
	spec.size = BYTES;
	spec.device = device;
	bench_must(gpub_create(client, name, &spec));
}

static void place_reach(gpub_client *client, int device)
{
	struct place *place = &places[device];
	char name[CLIENTS_NAME];
	gpub_lease lease;

	gpu_must(cudaSetDevice(device));
	for (int other = 0; other < devices; other++) {
		if (other == device)
			continue;
		peer_enable(other);
		place->from[BENCH_PEER][other] = places[other].from[BENCH_PEER][other];
		clients_name(name, (unsigned)other);
		bench_must(gpub_acquire(client, name, GPUB_READ, 0, &lease));
		place->from[BENCH_OURS][other] = lease.ptr;
	}
}

/* Each of n devices from "from" on copies from the one that is so many steps further among all n of the box. */
static double copies(enum bench_side side, int from, int n, int step, int among)
{
	uint64_t began = bench_now_ns();

	for (int i = 0; i < COPIES * n; i++) {
		int device = (from + i % n) % among;
		const struct place *place = &places[device];

		gpu_must(cudaSetDevice(device));
		gpu_must(cudaMemcpyAsync(place->to, place->from[side][(device + step) % among], BYTES,
					 cudaMemcpyDefault, place->stream));
	}
	for (int i = 0; i < n; i++)
		gpu_must(cudaStreamSynchronize(places[(from + i) % among].stream));
	return (double)BYTES * COPIES * n / (double)(bench_now_ns() - began);
}

static void round_of(struct bench *bench, int round, int from, int n, int step, int among)
{
	double peer = copies(BENCH_PEER, from, n, step, among);

	bench_round(bench, round, peer, copies(BENCH_OURS, from, n, step, among));
}

static void between(int gpus)
{
	struct bench pairs, shift;

	point_begin(&pairs, "pairs", (unsigned)gpus, "GB/s");
	for (int round = -1; round < PAIR_ROUNDS; round++)
		for (int device = 0; device < gpus; device++)
			for (int step = 1; step < gpus; step++)
				round_of(&pairs, round, device, 1, step, gpus);
	bench_end(&pairs);
	point_begin(&shift, "shift", (unsigned)gpus, "GB/s");
	for (int round = -2; round < SHIFT_ROUNDS; round++)
		round_of(&shift, round, 0, gpus, 1, gpus);
	bench_end(&shift);
}

static bool all_reach_all(void)
{
	int access = 1;

	for (int i = 0; i < devices * devices && access; i++)
		if (i / devices != i % devices)
			gpu_must(cudaDeviceCanAccessPeer(&access, i / devices, i % devices));
	return access;
}

static void copying(void)
{
	struct bench_broker broker;
	gpub_client *client;

	bench_broker_start(&broker, GPU_KIND);
	bench_must(gpub_connect(&client, NULL));
	gpu_start();
	if (all_reach_all()) {
		for (int i = 0; i < devices; i++)
			place_make(client, i);
		for (int i = 0; i < devices; i++)
			place_reach(client, i);
		for (int gpus = 2; gpus <= devices; gpus *= 2)
			between(gpus);
	} else {
		fprintf(stderr, "gpu-box: pairs and shift are left out: not every device reaches every other\n");
	}
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

/* ---- numbers around a ring ---- */

#define TURNS        200 /* a sample */
#define RING_SAMPLES 20
#define RING_WARM    3
#define WORD         64 /* bytes from one word of the page to the next */

/*
 * Shared by all members before they are forked: a word of each, and of the first the gate that its stream starts
 * behind.
 */
static uint8_t *page;

struct ring {
	struct bench bench;
	unsigned     gpus;
};

struct member {
	gpub_client *client;
	unsigned     number, gpus;
	gpub_lease   own, left;
	void        *stream;
	CUdeviceptr  words;
	uint64_t     turn[2]; /* so far, of a side */
};

static void ring_join(struct member *member)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[CLIENTS_NAME];
	void *words;

	bench_must(gpub_connect(&member->client, NULL));
	gpu_start_on((int)member->number);
	gpu_must(cudaHostRegister(page, 4096, cudaHostRegisterMapped | cudaHostRegisterPortable));
	gpu_must(cudaHostGetDevicePointer(&words, page, 0));
	member->words = (CUdeviceptr)(uintptr_t)words;
	bench_must(gpub_stream_create(member->client, (int)member->number, &member->stream));
	spec.size = GPU_GRANULE;
	spec.device = (int)member->number;
	spec.flags = GPUB_TIMELINE;
	clients_name(name, member->number);
	bench_must(gpub_create(member->client, name, &spec));
	bench_must(gpub_acquire(member->client, name, GPUB_READ | GPUB_WRITE, 0, &member->own));
	clients_meet();
	clients_name(name, (member->number + member->gpus - 1) % member->gpus);
	bench_must(gpub_acquire(member->client, name, GPUB_READ, 0, &member->left));
}

static void give(struct member *member, enum bench_side side, uint64_t value)
{
	CUdeviceptr own = member->words + member->number * WORD;

	if (side == BENCH_OURS)
		bench_must(gpub_signal_on(&member->own, value, member->stream));
	else
		gpu_driver(gpu.StreamWriteValue64(member->stream, own, value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static void take(struct member *member, enum bench_side side, uint64_t value)
{
	CUdeviceptr left = member->words + (member->number + member->gpus - 1) % member->gpus * WORD;

	if (side == BENCH_OURS)
		bench_must(gpub_wait_on(&member->left, value, member->stream));
	else
		gpu_driver(gpu.StreamWaitValue64(member->stream, left, value, CU_STREAM_WAIT_VALUE_GEQ));
}

static void turns_queue(struct member *member, enum bench_side side)
{
	for (unsigned i = 0; i < TURNS; i++) {
		uint64_t value = ++member->turn[side];

		if (!member->number)
			give(member, side, value);
		take(member, side, value);
		if (member->number)
			give(member, side, value);
	}
}

/*
 * us a hand-over, as the first member sees it. All streams have their work before its gate opens, so that no call is in
 * the time.
 */
static double turns(struct member *member, enum bench_side side)
{
	uint64_t *gate = (uint64_t *)(void *)(page + GPUS_MAX * WORD),
		 opens = __atomic_load_n(gate, __ATOMIC_RELAXED) + 1, began;

	clients_meet();
	if (!member->number)
		gpu_driver(gpu.StreamWaitValue64(member->stream, member->words + GPUS_MAX * WORD, opens,
						 CU_STREAM_WAIT_VALUE_GEQ));
	turns_queue(member, side);
	clients_meet();
	began = bench_now_ns();
	if (!member->number)
		__atomic_store_n(gate, opens, __ATOMIC_RELEASE);
	bench_must(gpub_stream_sync(member->stream));
	return (double)(bench_now_ns() - began) / 1e3 / TURNS / member->gpus;
}

static void ring_main(unsigned number, void *context)
{
	struct ring *ring = context;
	struct member member = { .number = number, .gpus = ring->gpus };

	ring_join(&member);
	for (int i = -RING_WARM; i < RING_SAMPLES; i++) {
		double peer = turns(&member, BENCH_PEER), ours = turns(&member, BENCH_OURS);

		if (!number)
			bench_round(&ring->bench, i, peer, ours);
	}
	clients_meet();
	bench_must(gpub_return(&member.left));
	bench_must(gpub_return(&member.own));
	gpub_disconnect(member.client);
}

static void rings(void)
{
	for (int gpus = 2; gpus <= devices; gpus *= 2) {
		struct bench_broker broker;
		struct ring ring = { .gpus = (unsigned)gpus };

		bench_broker_start(&broker, GPU_KIND);
		page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			bench_fail("gpu-box: no shared memory");
		point_begin(&ring.bench, "ring", ring.gpus, "us");
		clients_run(ring.gpus, ring_main, &ring);
		bench_end(&ring.bench);
		munmap(page, 4096);
		bench_broker_stop(&broker);
	}
}

/* ---- processes that die together ---- */

#define DEATH_SAMPLES 5

/*
 * Made before this process connects. It begins when it is told to, says when it computes, and goes on until it is
 * killed.
 */
struct victim {
	pid_t pid;
	int   pidfd, sock;
};

static void victim_main(int sock)
{
	gpub_client *client;
	gpub_kernel kernel;
	gpub_lease lease;
	uint64_t count = GPU_FILL_WORDS;
	uint32_t device, value = 1;
	void *stream, *arguments[] = { &lease.ptr, &value, &count };
	char name[CLIENTS_NAME];

	if (recv(sock, &device, sizeof device, 0) != sizeof device)
		_exit(0);
	bench_must(gpub_connect(&client, NULL));
	gpu_start_on((int)device);
	clients_name(name, device);
	bench_must(gpub_acquire(client, name, GPUB_READ | GPUB_WRITE, 0, &lease));
	kernel = gpu_leased_kernel(client, "fill");
	bench_must(gpub_stream_create(client, GPUB_CURRENT, &stream));
	for (unsigned i = 0;; i++) {
		gpub_launch_config grid = linear_grid(GPU_FILL_WORDS, stream);

		bench_must(gpub_launch(kernel, &grid, arguments));
		if (i % 100 == 99)
			bench_must(gpub_stream_sync(stream));
		if (i == 199)
			gpu_send(sock, "", 1);
	}
}

static void victim_make(struct victim *victim)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		bench_fail("gpu-box: no socket");
	fflush(NULL);
	victim->pid = fork();
	if (victim->pid < 0)
		bench_fail("gpu-box: no process");
	if (!victim->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		victim_main(pair[1]);
	}
	close(pair[1]);
	victim->sock = pair[0];
	victim->pidfd = pidfd_open(victim->pid, 0);
	if (victim->pidfd < 0)
		bench_fail("gpu-box: no pidfd");
}

static void victims_compute(const struct victim *victims, unsigned count)
{
	char ready;

	for (uint32_t i = 0; i < count; i++)
		gpu_send(victims[i].sock, &i, sizeof i);
	for (unsigned i = 0; i < count; i++)
		gpu_receive(victims[i].sock, &ready, 1);
}

/* Returns when the kernel had ended the last. */
static uint64_t victims_kill(const struct victim *victims, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		kill(victims[i].pid, SIGKILL);
	for (unsigned i = 0; i < count; i++) {
		struct pollfd dead = { .fd = victims[i].pidfd, .events = POLLIN };

		while (poll(&dead, 1, -1) != 1)
			;
	}
	return bench_now_ns();
}

static void victims_bury(const struct victim *victims, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		waitpid(victims[i].pid, NULL, 0);
		close(victims[i].pidfd);
		close(victims[i].sock);
	}
}

static void await_freed(gpub_client *client, unsigned number)
{
	char name[CLIENTS_NAME];
	int error;

	clients_name(name, number);
	error = gpub_drain(client, name, -1);
	if (error && error != -ENOENT) /* it is freed already */
		bench_fail("gpub_drain: %s", gpub_strerror_last());
}

static void death(gpub_client *client, const struct victim *victims, unsigned count, struct bench *bench)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[CLIENTS_NAME];
	uint64_t began, dead;

	spec.size = GPU_GRANULE;
	for (unsigned i = 0; i < count; i++) {
		spec.device = (int)i;
		clients_name(name, i);
		bench_must(gpub_create(client, name, &spec));
	}
	victims_compute(victims, count);
	for (unsigned i = 0; i < count; i++) {
		clients_name(name, i);
		bench_must(gpub_unlink(client, name));
	}
	began = bench_now_ns();
	dead = victims_kill(victims, count);
	for (unsigned i = 0; i < count; i++)
		await_freed(client, i);
	bench_round(bench, 0, (double)(dead - began) / 1e6, (double)(bench_now_ns() - began) / 1e6);
	victims_bury(victims, count);
}

static void deaths(void)
{
	struct victim victims[DEATH_SAMPLES * 2 * GPUS_MAX], *next = victims;
	struct bench_broker broker;
	gpub_client *client;

	bench_broker_start(&broker, GPU_KIND);
	for (int gpus = 1; gpus <= devices; gpus *= 2)
		for (int i = 0; i < DEATH_SAMPLES * gpus; i++)
			victim_make(next++);
	next = victims;
	bench_must(gpub_connect(&client, NULL));
	for (int gpus = 1; gpus <= devices; gpus *= 2) {
		struct bench bench;

		point_begin(&bench, "deaths", (unsigned)gpus, "ms");
		for (int i = 0; i < DEATH_SAMPLES; i++, next += gpus)
			death(client, next, (unsigned)gpus, &bench);
		bench_end(&bench);
	}
	gpub_disconnect(client);
	bench_broker_stop(&broker);
}

int main(void)
{
	devices = gpu_count();
	if (devices > GPUS_MAX)
		devices = GPUS_MAX;
	if (devices > 1) {
		gpu_part("gpu-box: copies", copying, GPU_SECONDS);
		gpu_part("gpu-box: ring", rings, GPU_SECONDS);
	} else {
		fprintf(stderr, "gpu-box: pairs, shift and ring are left out: there is one device\n");
	}
	gpu_part("gpu-box: deaths", deaths, GPU_SECONDS);
	return gpu_finish();
}
