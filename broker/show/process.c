/* SPDX-License-Identifier: Apache-2.0 */
/* process.c - see process.h */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/status/status.h"

#define TEXT_MAX 16384 /* of a file: of what is longer the beginning is enough */

/* ---- files of a process ---- */

/* What of it can be read, with a zero behind it; "" where nothing can. Returns its length. */
static size_t file_read(uint64_t pid, const char *name, char text[TEXT_MAX])
{
	char path[64];
	size_t length = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof path, "/proc/%llu/%s", (unsigned long long)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		while (length < TEXT_MAX - 1 && (got = read(fd, text + length, TEXT_MAX - 1 - length)) > 0)
			length += (size_t)got;
		close(fd);
	}
	text[length] = 0;
	return length;
}

/* Seconds since 1970 at which a process started that did so at that tick since boot. */
static double started_at(uint64_t ticks)
{
	struct timespec now, up;

	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	return (double)(now.tv_sec - up.tv_sec) + (double)(now.tv_nsec - up.tv_nsec) / 1e9 +
	       (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* It is in a pid namespace of its own, or in a control group of a program that makes containers. */
static bool is_contained(uint64_t pid, char text[TEXT_MAX])
{
	static const char *const makers[] = { "docker", "libpod", "kubepods", "containerd", "crio", "lxc", "garden", "apptainer" };
	const char *numbers;

	file_read(pid, "status", text);
	numbers = strstr(text, "\nNSpid:\t");
	if (numbers && strcspn(numbers + 8, "\t") < strcspn(numbers + 8, "\n"))
		return true;
	file_read(pid, "cgroup", text);
	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
		if (strstr(text, makers[i]))
			return true;
	return false;
}

/* ---- sessions ---- */

static const char *state_name(char letter)
{
	switch (letter) {
	case 'T':
	case 't':
		return "stopped";
	case 'Z':
	case 'X':
		return "zombie";
	default:
		return "running";
	}
}

static void process_add(json_t *session, char text[TEXT_MAX])
{
	uint64_t pid = (uint64_t)json_integer_value(json_object_get(session, "pid"));
	double since = (double)json_integer_value(json_object_get(session, "since"));
	char letter;
	uint64_t start = status_process_start(pid, &letter);

	if (!pid || pid > INT32_MAX)
		return;
	if (!start || started_at(start) > since + 2) {
		/* /proc may hide what is not this user's */
		if (start || (kill((pid_t)pid, 0) && errno == ESRCH))
			json_object_set_new(session, "process", json_string("gone"));
		return;
	}
	json_object_set_new(session, "process", json_string(state_name(letter)));
	json_object_set_new(session, "container", json_boolean(is_contained(pid, text)));
}

/* Whether its pids mean here what they mean to it. Nobody knows of a dead one; then the start times alone must agree. */
static bool broker_is_near(const struct shown *shown)
{
	return shown->state == SHOWN_DEAD || status_process_start(shown->header.pid, NULL) == shown->header.start_time;
}

void processes_add(struct shown *shown)
{
	char *text = shown->state != SHOWN_UNREADABLE && broker_is_near(shown) ? malloc(TEXT_MAX) : NULL;
	json_t *session;
	size_t i;

	if (!text)
		return;
	json_array_foreach (json_object_get(shown->text, "sessions"), i, session)
		if (i < PROCESSES_MAX)
			process_add(session, text);
	free(text);
}
