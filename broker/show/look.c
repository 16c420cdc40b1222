/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - see look.h */
#include "look.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/process-start.h"

/* largest number of bytes of a file that are kept, with the NUL; the beginning of a longer file is enough */
#define TEXT_MAX 16384
#define PATH_SIZE 64

static const char *path_of(uint64_t pid, const char *name, char path[PATH_SIZE])
{
	snprintf(path, PATH_SIZE, "/proc/%llu/%s", (unsigned long long)pid, name);
	return path;
}

/* Reads the beginning of /proc/PID/NAME to text, with a NUL; "" if the file cannot be read. */
static void file_read(uint64_t pid, const char *name, char text[TEXT_MAX])
{
	char path[PATH_SIZE];
	size_t length = 0;
	ssize_t got;
	int fd = open(path_of(pid, name, path), O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		while (length < TEXT_MAX - 1 && (got = read(fd, text + length, TEXT_MAX - 1 - length)) > 0)
			length += (size_t)got;
		close(fd);
	}
	text[length] = 0;
}

/* Returns the text after `word` in the text of /proc/PID/status; NULL: the word is missing. */
static const char *status_find(const char *status, const char *word)
{
	const char *line = strstr(status, word);

	return line ? line + strlen(word) : NULL;
}

/*
 * Sets cpus to the list of processors in `status`; "" if the process may run on all processors that are online.
 * Compares the affinity and not the list, because the list may have processors that do not exist.
 */
static void find_cpus(uint64_t pid, const char *status, char cpus[CPUS_TEXT_MAX])
{
	const char *list = status_find(status, "\nCpus_allowed_list:\t");
	cpu_set_t allowed;

	*cpus = 0;
	if (!list || sched_getaffinity((pid_t)pid, sizeof allowed, &allowed) ||
	    CPU_COUNT(&allowed) >= sysconf(_SC_NPROCESSORS_ONLN))
		return;
	snprintf(cpus, CPUS_TEXT_MAX, "%.*s", (int)strcspn(list, "\n"), list);
}

static bool is_contained(uint64_t pid, const char *status)
{
	static const char *const makers[] = { "docker", "libpod", "kubepods", "containerd",
					      "crio",	"lxc",	  "garden",   "apptainer" };
	char text[TEXT_MAX];
	const char *numbers;

	numbers = status_find(status, "\nNSpid:\t");
	if (numbers && strcspn(numbers, "\t") < strcspn(numbers, "\n"))
		return true;
	file_read(pid, "cgroup", text);
	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
		if (strstr(text, makers[i]))
			return true;
	return false;
}

/*
 * Returns true if /proc/PID/task has more than one thread. A main thread that has ended is listed there until all have
 * ended.
 */
static bool has_other_threads(uint64_t pid)
{
	char path[PATH_SIZE];
	DIR *dir = opendir(path_of(pid, "task", path));
	unsigned threads = 0;
	struct dirent *entry;

	while (dir && threads < 2 && (entry = readdir(dir)))
		threads += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return threads > 1;
}

void process_look(uint64_t pid, struct process_seen *seen)
{
	char status[TEXT_MAX];

	*seen = (struct process_seen){ 0 };
	seen->start = process_start(pid, &seen->state);
	if (!seen->start)
		return;
	seen->headless = seen->state == 'Z' && has_other_threads(pid);
	file_read(pid, "status", status);
	seen->contained = is_contained(pid, status);
	find_cpus(pid, status, seen->cpus);
}
