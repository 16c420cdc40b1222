/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walks.c - walks through broker and library, for figures.py to count the calls of: a create, a first acquire, an
 * unlink, and the death of another client that holds a lease. Runs under broker-run, without a thread of its own.
 *
 *     walks ROUNDS    prints a line a walk: its name, and its begin and end on CLOCK_MONOTONIC in ns
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <gpubroker.h>

#define SIZE    (4u << 20) /* an allocation of its own, not a range of a shared one */
#define REST_US 100000     /* microseconds: what a call leaves to do is done then */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void need(int error)
{
	if (!error)
		return;
	fprintf(stderr, "walks: %s\n", gpub_strerror_last());
	exit(1);
}

/* with_rest: the walk ends when what the call left to others is done. */
static void walked(const char *name, uint64_t begin, int with_rest)
{
	uint64_t end = now();

	usleep(REST_US);
	printf("%s %" PRIu64 " %" PRIu64 "\n", name, begin, with_rest ? now() : end);
	fflush(stdout);
}

/* The other client. Holds a lease of the buffer until it is killed. */
static int hold(const char *name)
{
	gpub_client *client;
	gpub_lease lease;

	need(gpub_connect(&client, NULL));
	need(gpub_acquire(client, name, GPUB_READ, 10000, &lease));
	if (write(STDOUT_FILENO, "h", 1) != 1)
		return 1;
	for (;;)
		pause();
}

static void death(const char *program, const char *name)
{
	uint64_t begin;
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe(ready) || (pid = fork()) < 0)
		exit(1);
	if (!pid) {
		dup2(ready[1], STDOUT_FILENO);
		execl(program, program, "hold", name, (char *)NULL);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(1);
	close(ready[0]);
	usleep(REST_US);
	begin = now();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	walked("death", begin, 1);
}

static void walk(gpub_client *client, const char *program, int round)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;
	uint64_t begin;
	char name[32];

	snprintf(name, sizeof name, "walk/%d", round);
	spec.size = SIZE;
	begin = now();
	need(gpub_create(client, name, &spec));
	walked("create", begin, 0);
	begin = now();
	need(gpub_acquire(client, name, GPUB_READ, 10000, &lease));
	walked("acquire", begin, 0);
	need(gpub_return(&lease));
	usleep(REST_US);
	death(program, name);
	begin = now();
	need(gpub_unlink(client, name));
	walked("unlink", begin, 0);
}

int main(int argc, char **argv)
{
	gpub_client *client;

	if (argc == 3 && !strcmp(argv[1], "hold"))
		return hold(argv[2]);
	if (argc != 2)
		return 2;
	need(gpub_connect(&client, NULL));
	usleep(REST_US);
	for (int i = 0; i < atoi(argv[1]); i++)
		walk(client, argv[0], i);
	gpub_disconnect(client);
	return 0;
}
