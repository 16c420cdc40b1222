/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join.c - the start and the end of a job of two processes on one machine: mpirun with broker-run --join, against
 * mpirun alone.
 *
 * The processes do nothing, so the difference is what the broker costs a machine: broker-run becomes the broker, the
 * other joins it, and it ends when both have. Two lines, of the whole and of the difference, for the host device and,
 * where the driver lists one, for CUDA, where the broker's own start of CUDA is in it; the processes of a job that uses
 * CUDA start it at the same time.
 */
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS  15
#define WARM_UP 2

extern char **environ;

/* Milliseconds. */
static double run_command(const char *const *arguments)
{
	uint64_t began = bench_now_ns();
	pid_t    pid;
	int      status;

	if (posix_spawnp(&pid, arguments[0], NULL, NULL, (char *const *)arguments, environ))
		bench_fail("%s does not start", arguments[0]);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		bench_fail("%s ended with wait status %#x", arguments[0], (unsigned)status);
	return (double)(bench_now_ns() - began) / 1e6;
}

static void measure(const char *name, const char *name_more, const char *device)
{
	const char       *build = getenv("top_builddir");
	char              run[4096];
	const char *const plain[] = { "mpirun", "--oversubscribe", "-n", "2", "true", NULL };
	const char *const joined[] = { "mpirun", "--oversubscribe", "-n", "2", run, "--quiet",
				       "--join", "--device", device, "--", "true", NULL };
	struct bench      bench, more;

	snprintf(run, sizeof run, "%s/broker/broker-run", build ? build : ".");
	bench_begin(&bench, name, "ms");
	bench_begin(&more, name_more, "ms");
	for (int round = -WARM_UP; round < ROUNDS; round++) {
		double peer = run_command(plain), ours = run_command(joined);

		bench_round(&bench, round, peer, ours);
		if (round >= 0)
			bench_sample(&more, BENCH_OURS, ours - peer);
	}
	bench_end(&bench);
	bench_end(&more);
}

int main(void)
{
	struct stat there;

	setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
	setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
	measure("join-start", "join-start-more", "host");
	if (stat("/proc/driver/nvidia/gpus", &there) == 0)
		measure("join-start-cuda", "join-start-cuda-more", "cuda");
	return 0;
}
