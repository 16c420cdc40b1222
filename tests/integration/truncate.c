/* SPDX-License-Identifier: Apache-2.0 */
/*
 * truncate.c - a client truncates its broker's memory objects; the broker goes on, for others and to a good end.
 *
 * Any process of the same user can do so on the host device. The broker says so and keeps its accounting. Where memory
 * is exported by descriptors nobody can: they are sealed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

/* Tries it with each that this process has mapped; result: minus how many refused. */
static int truncate_descriptors(off_t size)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	char target[96];
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

		target[length > 0 ? length : 0] = 0;
		if (!strncmp(target, "/memfd:gpubroker.mem/", 21) && ftruncate(atoi(entry->d_name), size) &&
		    errno == EPERM)
			count++;
	}
	if (dir)
		closedir(dir);
	return -count;
}

/* Every object in the directory order.name of /dev/shm gets order.size bytes; result: how many. */
static int do_truncate(const struct order *order)
{
	const struct dirent *entry;
	DIR *dir;
	char path[200];
	int fd, count = 0;

	if (tested_export()->by_descriptor)
		return truncate_descriptors((off_t)order->size);
	snprintf(path, sizeof path, "/dev/shm/%s", order->name);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC);
		count += fd >= 0 && !ftruncate(fd, (off_t)order->size);
		if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
	return count;
}

/* The step with a name that is no literal: its result. */
static int on(struct puppet *puppet, step *run, const char *name, uint64_t value)
{
	struct order order = { .run = run, .value = value, .size = value };

	snprintf(order.name, sizeof order.name, "%s", name);
	puppet_tell(puppet, order);
	return receive(puppet);
}

static int truncate_all(const struct broker_process *broker, struct puppet *attacker, uint64_t size)
{
	char directory[64];

	snprintf(directory, sizeof directory, "gpubroker.%s.mem", broker->instance);
	return on(attacker, do_truncate, directory, size);
}

static bool serves(struct puppet *other, const char *name)
{
	return !on(other, do_create, name, 3 << 20) && !on(other, do_stat, name, 0) &&
	       !on(other, do_acquire, name, 0) && !ask(other, do_write, .value = 7) && !ask(other, do_read) &&
	       other->last.value == 7 && !ask(other, do_return);
}

int main(void)
{
	struct broker_process broker;
	struct puppet attacker, other;
	int status;

	harness_begin("truncate", 60);
	setenv("GPUB_HOST_STRICT", "0", 1); /* where malicious clients are expected; a broker's own default */
	broker_start(&broker, "host");
	puppet_start(&attacker, &broker);
	puppet_start(&other, &broker);

	ask(&attacker, do_create, .name = "small", .size = 65536);
	ask(&attacker, do_create, .name = "large", .size = 40 << 20);
	ask(&attacker, do_acquire, .name = "small");
	if (tested_export()->by_descriptor)
		POINT(truncate_all(&broker, &attacker, 0) == -1, "a client cannot truncate its broker's memory");
	else
		POINT(truncate_all(&broker, &attacker, 0) >= 2, "a client can truncate its broker's memory");
	POINT(serves(&other, "after"), "invariant 5: another client is served after it");
	POINT(!ask(&other, do_stat, .name = "small"), "the truncated buffer is still in the status");
	ask(&attacker, do_return);
	POINT(!ask(&attacker, do_unlink, .name = "small") && !ask(&attacker, do_unlink, .name = "large"),
	      "it is unlinked");
	POINT(tested_export()->by_descriptor || SOON(broker_said(&broker, "truncated or extended")),
	      "the broker says what was done to it");

	truncate_all(&broker, &attacker, 1 << 30);
	truncate_all(&broker, &attacker, 4096);
	POINT(serves(&other, "again"), "invariant 5: so it is after all sizes were changed");
	puppet_kill(&attacker);
	ask(&other, do_trim);
	ask(&other, do_unlink, .name = "after");
	POINT(SOON(!status_buffers(&broker, "small", NULL) && !status_buffers(&broker, "large", NULL) &&
		   !status_buffers(&broker, "after", NULL)),
	      "invariant 3: what was truncated is freed as any other");
	puppet_end(&other);
	status = broker_wait(&broker, 0);
	POINT(!status, "the broker ends with status 0, not of a signal (%#x)", (unsigned)status);
	POINT(broker_said(&broker, "; balanced"), "invariant 10: its accounting balances");
	return harness_end();
}
