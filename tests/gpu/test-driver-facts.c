/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-driver-facts.c - holds by experiment what gpubroker takes for granted of the CUDA driver.
 *
 * Each point is a row of the facts that the design stands on (docs/facts.md), tried
 * with the raw CUDA calls; where the row decides what our device does, the device is tried as well. If a
 * driver changes one of them, this says which, before a user finds out.
 *
 * The main process never touches CUDA. Each group of points runs in a process of its own, which forks the
 * second role before its first CUDA call and talks to it over a socketpair. A group that hangs is killed with
 * all that it started; the whole program takes less than a minute.
 * Its groups are in facts-ipc.c, facts-namespaces.c, facts-order.c, facts-processes.c and facts-vmm.c, and what they
 * share is in facts.h.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

/* ---- the program ---- */

static const struct group {
	const char *name;
	void (*run)(void);
	int points;
} groups[] = {
	{ "IPC", ipc_group, 12 },
	{ "namespaces", namespaces_group, 3 },
	{ "stream order", order_group, 8 },
	{ "descriptors", vmm_group, 11 },
	{ "read-only memory", fault_group, 2 },
	{ "death", death_group, 1 },
	{ "fork", fork_group, 3 },
	{ "two devices", peer_group, 1 },
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static void probe(int fd)
{
	struct device_setup setup = { .owner = false };
	int                 count = device_cuda && !device_cuda->start(&setup) ? device_cuda->count() : 0;

	(void)!write(fd, &count, sizeof(count));
}

static int devices(void)
{
	pid_t         pid;
	int           count = 0, fd = role_start(probe, &pid);
	struct pollfd wait = { .fd = fd, .events = POLLIN };

	if (poll(&wait, 1, GROUP_SECONDS * 1000) <= 0 || read(fd, &count, sizeof(count)) != sizeof(count))
		count = 0;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	return count;
}

/* A process group of its own, so that its roles end with it. */
static pid_t group_start(const struct group *group, int *fd)
{
	int   pair[2];
	pid_t parent = getpid(), pid;

	NEED(pipe(pair));
	pid = fork();
	need(pid >= 0, "fork");
	if (pid == 0) {
		setpgid(0, 0);
		die_with_parent(parent);
		signal(SIGPIPE, SIG_IGN);
		alarm(GROUP_SECONDS + 5);
		close(pair[0]);
		report_fd = pair[1];
		group->run();
		_exit(0);
	}
	setpgid(pid, pid);
	close(pair[1]);
	*fd = pair[0];
	return pid;
}

/* Numbers one line of a group; returns whether it was a point. */
static bool line_print(char *line, int number)
{
	bool bad = !strncmp(line, "not ok ", 7), good = !strncmp(line, "ok ", 3);

	if (!bad && !good) {
		printf("%s\n", line);
		return false;
	}
	printf("%s %d - %s\n", bad ? "not ok" : "ok", number, line + (bad ? 7 : 3));
	return true;
}

/* Reads lines until the group's last point, its end or the deadline; returns how many points came. */
static int group_read(const struct group *group, int fd, int number, double deadline)
{
	char   text[4096];
	size_t have = 0;
	int    points = 0;

	while (points < group->points) {
		struct pollfd wait = { .fd = fd, .events = POLLIN };
		double        left = deadline - now();
		ssize_t       got = -1;
		char         *end;

		if (left > 0 && poll(&wait, 1, (int)(left * 1000) + 1) > 0)
			got = read(fd, text + have, sizeof(text) - have);
		if (got <= 0)
			break;
		have += (size_t)got;
		while ((end = memchr(text, '\n', have))) {
			*end++ = '\0';
			points += line_print(text, number + points);
			have -= (size_t)(end - text);
			memmove(text, end, have);
		}
	}
	return points;
}

static int group_run(const struct group *group, int number, double deadline)
{
	int   fd, points;
	pid_t pid = group_start(group, &fd);

	points = group_read(group, fd, number, deadline);
	for (int i = points; i < group->points; i++)
		printf("not ok %d - %s: the group ended or hung before this point\n", number + i, group->name);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	fflush(stdout);
	return points;
}

int main(void)
{
	double end = now() + TOTAL_SECONDS;
	int    number = 1, total = 0;

	alarm(TOTAL_SECONDS + 10);
	for (size_t i = 0; i < GROUPS; i++)
		total += groups[i].points;
	if (devices() == 0) {
		printf("Bail out! no CUDA device, or one that does not work\n");
		return 1;
	}
	printf("1..%d\n", total);
	fflush(stdout);
	for (size_t i = 0; i < GROUPS; i++) {
		double mine = now() + GROUP_SECONDS;

		group_run(&groups[i], number, mine < end ? mine : end);
		number += groups[i].points;
	}
	return 0;
}
