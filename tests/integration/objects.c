/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.c - the harness's look at a broker's owner, and its count of memory objects: files, descriptors, or
 * allocations of a GPU.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/exports.h"
#include "harness.h"

static int64_t allocations(const struct broker_process *broker)
{
	json_t *text = status_json(broker);
	const json_t *counters = json_object_get(text, "counters");
	int64_t count = json_integer_value(json_object_get(counters, "allocations_made")) -
			json_integer_value(json_object_get(counters, "allocations_freed"));

	json_decref(text);
	return count;
}

const struct export *tested_export(void)
{
	const char *name = getenv("GPUBROKER_EXPORT");

	return export_of(name ? export_find(name) : 0);
}

void process_line(pid_t pid, const char *what, char *line, int size)
{
	char path[40];
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
	file = fopen(path, "re");
	if (!file || !fgets(line, size, file))
		line[0] = 0;
	if (file)
		fclose(file);
}

/*
 * Returns the youngest child of that name, as proc_pid_comm(5) has it; 0: there is none. The one before it may still be
 * ending when it serves.
 */
static pid_t child_named(pid_t parent, const char *name)
{
	char path[64], its_name[32];
	pid_t child, found = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1) {
		process_line(child, "comm", its_name, sizeof its_name);
		its_name[strcspn(its_name, "\n")] = 0;
		found = strcmp(its_name, name) ? found : child;
	}
	if (file)
		fclose(file);
	return found;
}

pid_t owner_of(pid_t broker)
{
	return child_named(broker, "gpubroker-owner");
}

pid_t server_of(pid_t broker)
{
	return child_named(broker, "gpubroker-serve");
}

static bool is_stopped(pid_t pid)
{
	char line[512], *end;

	process_line(pid, "stat", line, sizeof line);
	end = strrchr(line, ')');
	return end && !strncmp(end, ") T", 3);
}

void broker_pause(const struct broker_process *broker)
{
	pid_t serving = server_of(broker->pid);

	if (!serving || kill(serving, SIGSTOP) || !SOON(is_stopped(serving)))
		bail_out("the broker of process %d cannot be stopped", (int)broker->pid);
}

void broker_resume(const struct broker_process *broker)
{
	kill(server_of(broker->pid), SIGCONT);
}

/*
 * The owner has two descriptors of a memfd, and one of what it has released. A broker of a release without an owner has
 * them itself. -1: this cannot be known.
 */
static int64_t memfds(const struct broker_process *broker)
{
	pid_t owner = owner_of(broker->pid);
	char path[64], target[512][96] = { 0 };
	const struct dirent *entry;
	unsigned found = 0, i;
	int64_t twice = 0;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/fd", owner ? owner : broker->pid);
	dir = opendir(path);
	while (dir && found < 512 && (entry = readdir(dir))) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target[found], sizeof target[found] - 1);

		target[found][length > 0 ? length : 0] = 0;
		if (strncmp(target[found], "/memfd:gpubroker.mem/", 21) != 0)
			continue;
		for (i = 0; i < found && strcmp(target[i], target[found]); i++)
			;
		twice += i < found;
		found += i == found;
	}
	if (!dir)
		return kill(broker->pid, 0) ? 0 : -1;
	closedir(dir);
	return twice;
}

int64_t memory_objects(const struct broker_process *broker)
{
	char path[80];
	DIR *dir;
	const struct dirent *entry;
	int64_t count = 0;

	if (on_cuda())
		return allocations(broker);
	if (tested_export()->by_descriptor)
		return memfds(broker);
	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s.mem", broker->instance);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}
