/* SPDX-License-Identifier: Apache-2.0 */
/* check-process.c - see checks.h: what this process may use: container, control group, limits, shared memory. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cgroup.h"
#include "checks.h"
#include "common/size.h"
#include "report.h"

/* what a process of the library, or a broker, needs at least; with less a check warns */
#define CLIENT_DESCRIPTORS 64            /* open descriptors */
#define KEY_MEMORY         65536         /* bytes of locked memory, which keep keys out of swap */
#define SHARED_MEMORY      (64ull << 20) /* bytes of /dev/shm for the status file and the board */
#define SHARED_MEMORY_HOST (1ull << 30)  /* bytes of /dev/shm for these and the memory of a host device */
#define PROCESS_MEMORY     (512ull << 20) /* bytes of host memory for a process with CUDA */
#define PROCESS_THREADS    32            /* threads that CUDA and the library may start in a process */
#define ADDRESS_SPACE_HOST (4ull << 30)  /* addresses for the mappings of host devices */

#define FIRST_PID_NAMESPACE 4026531836u /* inode of the machine's first pid namespace on every Linux (proc_ns.h) */

#define NUMBER(value) ((unsigned long long)(value))

void check_software(struct exam *exam)
{
	(void)exam;
	ok("this is gpubroker " PACKAGE_VERSION ", protocol version %d, with libsodium %s", WIRE_VERSION,
	   sodium_version_string());
}

/* ---- container and control group ---- */

/* Returns the inode of a process's pid namespace, or 0 if it cannot be read. pid 0: this process. */
static ino_t pid_namespace(pid_t pid)
{
	char path[40] = "/proc/self/ns/pid";
	struct stat st;

	if (pid)
		snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
	return stat(path, &st) ? 0 : st.st_ino;
}

/*
 * Checks whether the broker can see this process: a broker sees only the processes of its own pid namespace and of
 * namespaces inside that. The namespace of another user's broker cannot be read.
 */
void check_container(struct exam *exam)
{
	ino_t own = pid_namespace(0), its = exam->broker ? pid_namespace(exam->broker) : 0;

	if (its && its != own)
		fail("the broker (pid %d) is in a container, and this process is outside of it: the broker could not see it end, and "
		     "refuses it",
		     exam->broker);
	else if (own == FIRST_PID_NAMESPACE)
		ok("this process is in the machine's own pid namespace: in no container, or in one with --pid=host");
	else if (exam->client)
		ok("this process is in a pid namespace of its own (a container): the broker is %s", exam->broker ? "in there, too" : "outside of it");
	else
		ok("this process is in a pid namespace of its own (a container): it can use a broker that is in there, too, or outside of it");
}

void check_cgroup_memory(struct exam *exam)
{
	uint64_t need = exam->host ? SHARED_MEMORY_HOST : PROCESS_MEMORY;
	char limit[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX];
	struct cgroup_limit found;

	cgroup_limit_find("/proc/self/cgroup", "/sys/fs/cgroup", CGROUP_MEMORY, &found);
	if (found.limit == UINT64_MAX) {
		ok("no control group limits this process's memory");
		return;
	}
	size_format(found.limit, limit);
	size_format(cgroup_left(&found), left);
	if (found.killed)
		warn("the kernel has killed %llu process%s of the control group %s, which may have %s of memory, because it was used up",
		     NUMBER(found.killed), found.killed == 1 ? "" : "es", found.path, limit);
	else if (cgroup_left(&found) < need)
		warn("the control group %s may have %s of memory, and has %s left: %s, and the kernel kills a process when it is used up",
		     found.path, limit, left,
		     exam->host ? "host devices' memory is charged to it" : "each process with CUDA takes some hundred MiB of it");
	else
		ok("the control group may have %s of memory, and has %s left", limit, left);
}

void check_cgroup_processes(struct exam *exam)
{
	struct cgroup_limit found;

	(void)exam;
	cgroup_limit_find("/proc/self/cgroup", "/sys/fs/cgroup", CGROUP_PROCESSES, &found);
	if (found.limit == UINT64_MAX)
		ok("no control group limits how many processes and threads there are");
	else if (cgroup_left(&found) < PROCESS_THREADS)
		warn("the control group %s may have %llu processes and threads, and has %llu: workers, CUDA and the library start some, "
		     "and fail where they cannot",
		     found.path, NUMBER(found.limit), NUMBER(found.used));
	else
		ok("the control group may have %llu processes and threads, and has %llu", NUMBER(found.limit), NUMBER(found.used));
}

/* ---- shared memory ---- */

void check_shared_memory(struct exam *exam)
{
	uint64_t need = exam->host ? SHARED_MEMORY_HOST : SHARED_MEMORY, left;
	char size[SIZE_TEXT_MAX], text[SIZE_TEXT_MAX];
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs)) {
		report_remedy("mount -t tmpfs tmpfs /dev/shm");
		fail("/dev/shm cannot be used: %s; brokers have their status there, and host devices' memory", strerror(errno));
		return;
	}
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	size_format((uint64_t)fs.f_blocks * fs.f_frsize, size);
	size_format(left, text);
	if (left >= need)
		ok("/dev/shm has %s, and %s left", size, text);
	else
		warn("/dev/shm has only %s left, of %s: a write that finds no room there kills a process by SIGBUS%s", text, size,
		     exam->host ? ", and host devices' memory is there" : "");
}

/* ---- limits ---- */

bool limit_of(const char *process, const char *name, uint64_t *limit)
{
	char path[40], line[200], soft[24];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof path, "/proc/%s/limits", process);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof line, file))
		found = !strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), "%23s", soft) == 1;
	if (file)
		fclose(file);
	if (found)
		*limit = strcmp(soft, "unlimited") ? strtoull(soft, NULL, 10) : UINT64_MAX;
	return found;
}

static bool own_limit(const char *name, uint64_t *limit)
{
	if (limit_of("self", name, limit))
		return true;
	report_remedy("mount -t proc proc /proc");
	warn("this process's limits cannot be read: is /proc mounted?");
	return false;
}

void check_descriptors(struct exam *exam)
{
	uint64_t files;

	(void)exam;
	if (!own_limit("Max open files", &files))
		return;
	if (files >= CLIENT_DESCRIPTORS)
		ok("this process may have %llu descriptors", NUMBER(files));
	else
		warn("this process may have only %llu descriptors: CUDA takes up to 43, and the library one for each timeline",
		     NUMBER(files));
}

void check_locked_memory(struct exam *exam)
{
	char locked[SIZE_TEXT_MAX];
	uint64_t memory;

	(void)exam;
	if (!own_limit("Max locked memory", &memory))
		return;
	if (memory >= KEY_MEMORY)
		ok("this process may lock memory: keys stay out of swap");
	else
		warn("this process may lock only %s of memory, so keys may be swapped out", size_format(memory, locked));
}

/* Checks the limit of addresses: when CUDA starts, it reserves addresses for the memory of all devices and the host. */
void check_address_space(struct exam *exam)
{
	char text[SIZE_TEXT_MAX];
	uint64_t space;

	if (!own_limit("Max address space", &space))
		return;
	if (space == UINT64_MAX)
		ok("this process's address space is not limited");
	else if (exam->host && space >= ADDRESS_SPACE_HOST)
		ok("this process may use %s of addresses", size_format(space, text));
	else
		warn("this process may use only %s of addresses: %s", size_format(space, text),
		     exam->host ? "host devices map their memory, and guard pages around it" :
				  "CUDA reserves more than all devices and the host have, and does not start without");
}
