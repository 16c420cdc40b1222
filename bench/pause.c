/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pause.c - how long a call waits that is under way when the broker's process is killed: from the SIGKILL to its
 * answer, for 64 clients that ask all the time, among 4,000 and among 40,000 buffers. gpu-pause is the same program,
 * with buffers on a CUDA device.
 */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"

#ifdef GPU_PAUSE
#define DEVICE "cuda"
#define PREFIX "gpu-"
#else
#define DEVICE "host"
#define PREFIX ""
#endif

#define CLIENTS   64
#define KILLS     25
#define PAUSE_MS  150 /* between kills */
#define READY_MS  10000

static char folder[] = "/tmp/bench-pause-XXXXXX";
static pid_t brokerd;

/* Shared by all. */
static struct shared {
	_Atomic uint64_t killed[KILLS]; /* CLOCK_MONOTONIC; 0: not yet */
	_Atomic bool     asking, over;
} *shared;

/* ---- the broker ---- */

static void config_write(unsigned buffers)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof path, "%s/conf", folder);
	file = fopen(path, "we");
	if (!file || fprintf(file,
			     "socket = \"%s/socket\"\ninstance = \"pause-%d\"\n"
			     "device = \"" DEVICE "\"\nlog = \"quiet\"\n"
			     "board { buffers = %u mappings = %u }\n"
			     "quota \"default\" { buffers = %u mappings = %u grants = %u }\n"
			     "quota \"root\" { buffers = %u mappings = %u grants = %u }\n",
			     folder, (int)getpid(), buffers + 100, buffers + 100, buffers + 100, buffers + 100,
			     buffers + 100, buffers + 100, buffers + 100, buffers + 100) < 0 ||
	    fclose(file))
		bench_fail("%s cannot be written", path);
}

static void brokerd_start(unsigned buffers)
{
	const char *top = getenv("top_builddir");
	char program[4096], conf[64], address[80];

	config_write(buffers);
	snprintf(program, sizeof program, "%s/broker/brokerd", top ? top : ".");
	snprintf(conf, sizeof conf, "%s/conf", folder);
	snprintf(address, sizeof address, "unix:%s/socket", folder);
	setenv("GPUBROKER", address, 1);
	brokerd = fork();
	if (!brokerd) {
		execl(program, program, "--config", conf, NULL);
		_exit(127);
	}
	for (int ms = 0; ms < READY_MS && access(address + 5, F_OK); ms++)
		usleep(1000);
}

/* ---- the clients ---- */

static void kill_again_and_again(void)
{
	pid_t last = 0, now;

	while (!shared->asking)
		usleep(1000);
	for (int i = 0; i < KILLS; i++) {
		usleep(PAUSE_MS * 1000);
		while (!(now = bench_child(brokerd, "gpubroker-serve")) || now == last)
			usleep(1000);
		shared->killed[i] = bench_now_ns();
		kill(now, SIGKILL);
		last = now;
	}
	usleep(PAUSE_MS * 1000);
	shared->over = true;
}

/* In a process that is no child of this one, because clients_run() waits for as many children as it has forked. */
static void killer_start(void)
{
	pid_t pid = fork();

	if (!pid) {
		if (!fork())
			kill_again_and_again();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* Takes a sample of a call if a kill came while it was under way. */
static void look(struct bench *bench, uint64_t began, uint64_t ended)
{
	for (int i = 0; i < KILLS && shared->killed[i]; i++)
		if (began <= shared->killed[i] && shared->killed[i] <= ended)
			bench_sample(bench, BENCH_OURS, (double)(ended - shared->killed[i]) / 1e6);
}

static void client_main(unsigned number, void *context)
{
	char name[CLIENTS_NAME];
	gpub_client *client;
	gpub_info info = { .struct_size = sizeof info };

	bench_must(gpub_connect(&client, NULL));
	clients_name(name, number);
	clients_meet();
	shared->asking = true;
	while (!shared->over) {
		uint64_t began = bench_now_ns();

		bench_must(gpub_stat(client, name, &info));
		look(context, began, bench_now_ns());
	}
	clients_meet();
	gpub_disconnect(client);
}

static void measure(unsigned buffers, const char *name)
{
	struct bench bench;
	int status;

	memset(shared, 0, sizeof *shared);
	bench_begin(&bench, name, "ms");
	bench_device(DEVICE);
	brokerd_start(buffers);
	if (clients_create_apart(buffers, 64) < buffers)
		bench_fail("the broker has no room for %u buffers", buffers);
	killer_start();
	clients_run(CLIENTS, client_main, &bench);
	kill(brokerd, SIGTERM);
	if (waitpid(brokerd, &status, 0) != brokerd || status)
		bench_fail("brokerd ended with wait status %#x", (unsigned)status);
	bench_end(&bench);
}

static void folder_remove(void)
{
	char path[64];

	snprintf(path, sizeof path, "%s/conf", folder);
	unlink(path);
	rmdir(folder);
}

int main(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || !mkdtemp(folder))
		bench_fail("no memory, or no folder in /tmp");
	measure(4000, PREFIX "pause-4000");
	measure(40000, PREFIX "pause-40000");
	folder_remove();
	return 0;
}
