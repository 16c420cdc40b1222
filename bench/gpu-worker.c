/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu-worker.c - the round of a worker on a buffer of 64 MiB that it does not own: have it, write 1,024 words of it
 * with one kernel, let go of it and know that all is done; against the same round with what else there is (gpu-peers/).
 *
 * "gpu-worker-PEER": our worker knows the name: gpub_renew(), a launch, gpub_return_on(), gpub_stream_sync().
 * "gpu-worker-told-PEER": besides, it waits on a socket until another process tells it to, and answers there, as the
 * peers, who have to be given the memory each time, cannot avoid. The peers' rounds are these, timed by the owner; an
 * acknowledgement comes behind the close. Ours and theirs take turns, ROUNDS at a time. A peer that is not installed is
 * left out.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clients.h"
#include "gpu.h"
#include "kernels/kernels.h"

#define ROUNDS 50
#define PASSES 12 /* the first warms up */
#define SIZE   ((uint64_t)64 << 20)
#define READY  60 /* seconds until the last peer is ready: python3 may load from a cold disk */
#define ANSWER 5  /* seconds for ROUNDS rounds */
#define ABSENT 77

/* ---- our worker ---- */

enum order { ONE_ROUND, ROUNDS_ALONE };

static double *alone; /* microseconds of each round alone, shared with the worker */

struct worker {
	gpub_client *client;
	gpub_lease   lease;
	gpub_kernel  fill;
	void        *stream;
};

static void worker_round(struct worker *worker)
{
	gpub_launch_config grid = linear_grid(GPU_FILL_WORDS, worker->stream);
	uint64_t count = GPU_FILL_WORDS;
	uint32_t value = 1;
	void *arguments[] = { &worker->lease.ptr, &value, &count };

	bench_must(gpub_renew(&worker->lease));
	bench_must(gpub_launch(worker->fill, &grid, arguments));
	bench_must(gpub_return_on(&worker->lease, worker->stream));
	bench_must(gpub_stream_sync(worker->stream));
}

static void worker_main(int sock)
{
	struct worker worker;
	char name[CLIENTS_NAME], order;

	clients_name(name, 0);
	bench_must(gpub_connect(&worker.client, NULL));
	worker.fill = gpu_leased_kernel(worker.client, "fill");
	bench_must(gpub_stream_create(worker.client, GPUB_CURRENT, &worker.stream));
	bench_must(gpub_acquire(worker.client, name, GPUB_READ | GPUB_WRITE, 0, &worker.lease));
	bench_must(gpub_return(&worker.lease));
	gpu_send(sock, "", 1);
	while (recv(sock, &order, 1, 0) == 1) {
		for (int i = 0; i < (order == ROUNDS_ALONE ? ROUNDS : 1); i++) {
			uint64_t began = bench_now_ns();

			worker_round(&worker);
			alone[i] = (double)(bench_now_ns() - began) / 1e3;
		}
		gpu_send(sock, "", 1);
	}
	gpub_disconnect(worker.client);
}

static void ask(int sock, enum order order)
{
	char message = (char)order, answer;

	gpu_send(sock, &message, 1);
	gpu_receive(sock, &answer, 1);
}

/* ---- peers ---- */

static struct peer {
	const char *name;
	const char *command[3]; /* "raw" is our program, a script is looked for beside the sources */
	pid_t       pid;
	FILE       *out, *in;
	struct bench bench, told;
	char         bench_name[48], told_name[48];
} peers[] = {
	{ .name = "torch", .command = { "python3", "torch_ipc.py" } },
	{ .name = "cupy", .command = { "python3", "cupy_ipc.py" } },
	{ .name = "numba", .command = { "python3", "numba_ipc.py" } },
	{ .name = "ipc", .command = { "raw", "ipc" } },
	{ .name = "vmm", .command = { "raw", "vmm" } },
};

#define PEERS (sizeof peers / sizeof *peers)

static _Noreturn void peer_exec(const struct peer *peer, int sock)
{
	const char *build = getenv("top_builddir");
	char program[4096];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(sock, STDIN_FILENO) < 0 || dup2(sock, STDOUT_FILENO) < 0)
		_exit(126);
	close_range(3, ~0u, 0);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1); /* the scripts lie among the sources */
	if (!strcmp(peer->command[0], "raw")) {
		snprintf(program, sizeof program, "%s/bench/gpu-peers/raw", build ? build : ".");
		execl(program, "raw", peer->command[1], (char *)NULL);
	} else {
		snprintf(program, sizeof program, GPU_PEERS "/%s", peer->command[1]);
		execlp(peer->command[0], peer->command[0], program, (char *)NULL);
	}
	perror(program);
	_exit(127);
}

static void peer_start(struct peer *peer)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		bench_fail("gpu-worker: no socket for %s", peer->name);
	peer->pid = fork();
	if (peer->pid < 0)
		bench_fail("gpu-worker: no process for %s", peer->name);
	if (!peer->pid)
		peer_exec(peer, pair[1]);
	close(pair[1]);
	peer->in = fdopen(pair[0], "r");
	peer->out = fdopen(dup(pair[0]), "w");
	if (!peer->in || !peer->out)
		bench_fail("gpu-worker: no stream for %s", peer->name);
}

/* Its end, now or because it failed; whether it ended as it should. */
static bool peer_end(struct peer *peer, bool kill_it)
{
	int status;

	if (kill_it)
		kill(peer->pid, SIGKILL);
	fclose(peer->out);
	shutdown(fileno(peer->in), SHUT_RDWR);
	fclose(peer->in);
	waitpid(peer->pid, &status, 0);
	peer->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == ABSENT) {
		fprintf(stderr, "gpu-worker: %s is left out: it is not installed\n", peer->name);
		return true;
	}
	if (status)
		fprintf(stderr, "gpu-worker: %s ended with wait status %#x\n", peer->name, (unsigned)status);
	return !status;
}

/* One that exits by itself does so before it is waited for that long; one that hangs is killed. */
static bool peer_lost(struct peer *peer)
{
	bool ended = feof(peer->in);

	if (!ended)
		fprintf(stderr, "gpu-worker: %s does not answer in time\n", peer->name);
	return peer_end(peer, !ended);
}

static void peer_limit(struct peer *peer, time_t seconds)
{
	struct timeval limit = { .tv_sec = seconds > 0 ? seconds : 1 };

	if (setsockopt(fileno(peer->in), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit))
		bench_fail("gpu-worker: no limit for %s", peer->name);
}

static bool peer_ready(struct peer *peer, uint64_t until_ns)
{
	char line[128];

	peer_limit(peer, ((time_t)until_ns - (time_t)bench_now_ns()) / 1000000000);
	do {
		if (!fgets(line, sizeof line, peer->in))
			return false;
	} while (strcmp(line, "ready\n") != 0);
	peer_limit(peer, ANSWER);
	return true;
}

static bool peer_rounds(struct peer *peer, double *took)
{
	char line[128];

	fprintf(peer->out, "%d\n", ROUNDS);
	fflush(peer->out);
	for (int i = 0; i < ROUNDS; i++) {
		if (!fgets(line, sizeof line, peer->in))
			return false;
		took[i] = atof(line);
	}
	return true;
}

/* ---- the run ---- */

static void pass(int sock, bool counts, bool *failed)
{
	double told[ROUNDS], theirs[ROUNDS], ours[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		uint64_t began = bench_now_ns();

		ask(sock, ONE_ROUND);
		told[i] = (double)(bench_now_ns() - began) / 1e3;
	}
	ask(sock, ROUNDS_ALONE);
	memcpy(ours, alone, sizeof ours);
	for (size_t p = 0; p < PEERS; p++) {
		if (!peers[p].pid)
			continue;
		if (!peer_rounds(&peers[p], theirs)) {
			*failed |= !peer_lost(&peers[p]);
			continue;
		}
		for (int i = 0; i < ROUNDS && counts; i++) {
			bench_round(&peers[p].bench, i, theirs[i], ours[i]);
			bench_round(&peers[p].told, i, theirs[i], told[i]);
		}
	}
}

static void begin(struct peer *peer)
{
	snprintf(peer->bench_name, sizeof peer->bench_name, "gpu-worker-%s", peer->name);
	snprintf(peer->told_name, sizeof peer->told_name, "gpu-worker-told-%s", peer->name);
	bench_begin(&peer->bench, peer->bench_name, "us");
	bench_begin(&peer->told, peer->told_name, "us");
}

static void end(bool *failed)
{
	for (size_t p = 0; p < PEERS; p++)
		if (peers[p].pid)
			bench_end(&peers[p].bench);
	for (size_t p = 0; p < PEERS; p++)
		if (peers[p].pid)
			bench_end(&peers[p].told);
	for (size_t p = 0; p < PEERS; p++)
		if (peers[p].pid)
			*failed |= !peer_end(&peers[p], false);
}

static void worker(void)
{
	uint64_t ready_until = bench_now_ns() + READY * 1000000000ull;
	struct bench_broker broker;
	bool failed = false;
	char ready;
	int sock;

	bench_broker_start(&broker, GPU_KIND);
	if (clients_create_apart(1, SIZE) < 1)
		bench_fail("gpu-worker: no buffer");
	for (size_t p = 0; p < PEERS; p++)
		peer_start(&peers[p]);
	signal(SIGPIPE, SIG_IGN);
	alone = mmap(NULL, ROUNDS * sizeof *alone, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (alone == MAP_FAILED)
		bench_fail("gpu-worker: no shared memory");
	sock = gpu_helper(worker_main);
	gpu_receive(sock, &ready, 1);
	for (size_t p = 0; p < PEERS; p++) {
		begin(&peers[p]);
		if (!peer_ready(&peers[p], ready_until))
			failed |= !peer_lost(&peers[p]);
	}
	for (int i = 0; i < PASSES; i++)
		pass(sock, i > 0, &failed);
	end(&failed);
	close(sock);
	wait(NULL);
	bench_broker_stop(&broker);
	if (failed)
		exit(1);
}

int main(void)
{
	gpu_count();
	gpu_part("gpu-worker", worker, READY + 40);
	return gpu_finish();
}
