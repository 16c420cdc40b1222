/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts-namespaces.c - the facts of legacy IPC between containers: an exporter and an importer with namespaces of their
 * own.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "facts.h"

#define CONTAINER (CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

/* The number that the role has in its own pid namespace; 0: whichever comes. */
static pid_t wanted_number;

/* Its first child will be process 1 of the new pid namespace. */
static int container_make(void)
{
	return unshare(CONTAINER | (geteuid() ? CLONE_NEWUSER : 0));
}

static int mounts_make(void)
{
	return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("proc", "/proc", "proc", 0, NULL) ||
	       mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
}

/* The next process of this namespace gets the number. */
static int number_choose(pid_t number)
{
	int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	int failed = fd < 0 || dprintf(fd, "%d", number - 1) < 0;

	if (fd >= 0)
		close(fd);
	return failed;
}

static void child_run(role *run, int fd)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(fd);
		_exit(0);
	}
	close(fd);
	waitpid(pid, NULL, 0);
}

/* Process 1 of the container, which starts the role. */
static void init(int fd)
{
	if (mounts_make() || (wanted_number && number_choose(wanted_number)))
		return;
	child_run(exporter, fd);
}

static void contained(int fd)
{
	if (!container_make())
		child_run(init, fd);
}

static bool containers_are_allowed(void)
{
	pid_t pid = fork();
	int   status = -1;

	if (pid == 0)
		_exit(container_make() != 0);
	waitpid(pid, &status, 0);
	return !status;
}

/* Opens what the owner exports, and reads it. */
static cudaError_t import(int owner, int importer, uint32_t *value)
{
	struct answer memory = ask_allocate(owner, GRANULE, 0x66);
	struct answer opened = ask(importer, (struct request){ .operation = OP_OPEN, .handle = memory.handle });

	*value = opened.result ? 0 : ask_read(importer, opened.ptr);
	return opened.result;
}

/* The roles are forked before the first call of CUDA here, that for an error's name among them. */
void namespaces_group(void)
{
	static const char *const titles[] = {
		"an importer in a container opens an export of outside, and reads it",
		"one whose own number is the owner's is taken for the owner",
		"an owner in a container, and an importer outside of it: the same works"
	};
	int         owner, inside, namesake, inside_owner, outside;
	pid_t       owner_pid, pid;
	uint32_t    value;
	cudaError_t result;

	if (!containers_are_allowed()) {
		for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
			point_skip(titles[i], "this user may not make namespaces");
		return;
	}
	owner = role_start(exporter, &owner_pid);
	inside = role_start(contained, &pid);
	wanted_number = owner_pid;
	namesake = role_start(contained, &pid);
	wanted_number = 0;
	inside_owner = role_start(contained, &pid);
	outside = role_start(exporter, &pid);

	result = import(owner, inside, &value);
	point(!result && value == 0x66666666, titles[0], "%s, read %x", cudaGetErrorName(result), value);
	result = import(owner, namesake, &value);
	point(result == cudaErrorDeviceUninitialized, titles[1], "%s", cudaGetErrorName(result));
	result = import(inside_owner, outside, &value);
	point(!result && value == 0x66666666, titles[2], "%s, read %x", cudaGetErrorName(result), value);
}
