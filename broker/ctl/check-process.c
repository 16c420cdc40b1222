/* SPDX-License-Identifier: Apache-2.0 */
/* check-process.c - see checks.h: what this process may use: container, control groups, limits, shared memory. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "checks.h"
#include "common/size.h"
#include "common/wire.h"
#include "report.h"

#define FIRST_PID_NAMESPACE 4026531836u /* inode of the machine's first pid namespace on every Linux (proc_ns.h) */

void check_software(struct exam *exam)
{
	(void)exam;
	ok("this is gpubroker " PACKAGE_VERSION ", protocol version %d with revisions %d to %d, with libsodium %s",
	   WIRE_VERSION, WIRE_REVISION_OLDEST, WIRE_REVISION, sodium_version_string());
}

void check_container(struct exam *exam)
{
	struct stat st;

	(void)exam;
	if (stat("/proc/self/ns/pid", &st))
		warn("mount -t proc proc /proc", "the namespaces of this process cannot be read: is /proc mounted?");
	else if (st.st_ino == FIRST_PID_NAMESPACE)
		ok("this process is in the machine's own pid namespace: in no container, or in one with --pid=host");
	else
		ok("this process is in a pid namespace of its own (a container): it can use a broker that is in there, "
		   "too, or outside of it");
}

/* ---- control groups ---- */

#define GROUPS    "/sys/fs/cgroup" /* where control groups of version 2 have their directories */
#define GROUP_MAX 600              /* size of the path of a group, including the NUL */

/* Limits of control groups. A check warns if less than `least` is left of a limit. */
static const struct group_limit {
	const char        *limit, *used; /* names of the group's files with the limit and with what is used of it */
	unsigned long long least;
	const char        *why, *remedy;
} group_limits[] = {
	{ "memory.max", "memory.current", 512ull << 20,
	  "a process with CUDA takes some hundred MiB, host devices' memory is charged to a group, and the kernel "
	  "kills a process when it is used up",
	  "systemctl set-property UNIT MemoryMax=8G (a container: --memory=8g)" },
	{ "pids.max", "pids.current", 32,
	  "each worker is a process, and CUDA and the library start some threads in it, which fails when it is used up",
	  "systemctl set-property UNIT TasksMax=4096 (a container: --pids-limit=4096)" },
};

/* Sets *number to the number in a file of the group. Returns false if the file has none, or "max". */
static bool group_number(const char *group, const char *file, unsigned long long *number)
{
	char path[GROUP_MAX + 40];
	FILE *stream;
	bool is_read;

	snprintf(path, sizeof path, "%s/%s", group, file);
	stream = fopen(path, "re");
	is_read = stream && fscanf(stream, "%llu", number) == 1;
	if (stream)
		fclose(stream);
	return is_read;
}

/* Reports a limit of the group if it is nearly used up, and then returns true. */
static bool group_is_short(const char *group, const struct group_limit *row)
{
	unsigned long long limit, used;

	if (!group_number(group, row->limit, &limit) || !group_number(group, row->used, &used) ||
	    limit >= used + row->least)
		return false;
	warn(row->remedy, "the control group %s has %s %llu, and %llu left: %s", group, row->limit, limit,
	     limit > used ? limit - used : 0, row->why);
	return true;
}

/* Writes the path of this process's control group. In a container this may be a group that does not exist there. */
static void group_find(char group[GROUP_MAX])
{
	FILE *stream = fopen("/proc/self/cgroup", "re");
	char line[GROUP_MAX - sizeof GROUPS];

	strcpy(group, GROUPS);
	while (stream && fgets(line, sizeof line, stream))
		if (!strncmp(line, "0::/", 4) && line[4] != '\n')
			snprintf(group, GROUP_MAX, GROUPS "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
	if (stream)
		fclose(stream);
}

/* Looks at this process's control group and at the groups above it, whose limits apply, too. */
void check_cgroups(struct exam *exam)
{
	char group[GROUP_MAX];
	bool is_short = false;

	(void)exam;
	for (group_find(group); strlen(group) >= strlen(GROUPS); *strrchr(group, '/') = 0)
		for (size_t i = 0; i < sizeof group_limits / sizeof *group_limits; i++)
			is_short |= group_is_short(group, &group_limits[i]);
	if (!is_short)
		ok("no control group of this process is short of memory or processes");
}

/* ---- shared memory ---- */

#define SHARED_MEMORY      (64ull << 20) /* bytes of /dev/shm for the status file and the board */
#define SHARED_MEMORY_HOST (1ull << 30)  /* bytes of /dev/shm for these and the memory of a host device */

void check_shared_memory(struct exam *exam)
{
	char text[SIZE_TEXT_MAX];
	struct statvfs fs;
	uint64_t left;

	if (statvfs("/dev/shm", &fs)) {
		fail("mount -t tmpfs tmpfs /dev/shm",
		     "/dev/shm cannot be used: %s; brokers have their status there, and host devices' memory",
		     strerror(errno));
		return;
	}
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left >= (exam->host ? SHARED_MEMORY_HOST : SHARED_MEMORY))
		ok("/dev/shm has %s left", size_format(left, text));
	else
		warn("mount -o remount,size=8G /dev/shm (a container: --shm-size=8g)",
		     "/dev/shm has only %s left, for brokers' status and host devices' memory: a write that finds no "
		     "room there kills a process by SIGBUS", size_format(left, text));
}

/* ---- limits of the process ---- */

/*
 * Limits of this process. A check warns if a soft limit is less than `least`, or `least_host` with a broker of host
 * devices.
 */
static const struct own_limit {
	__rlimit_resource_t resource;
	const char         *name;
	rlim_t              least, least_host;
	const char         *why, *remedy;
} own_limits[] = {
	{ RLIMIT_NOFILE, "descriptors", 64, 64, "CUDA takes up to 43, and the library one for each timeline",
	  "ulimit -n 1024" },
	{ RLIMIT_MEMLOCK, "bytes of locked memory", 65536, 65536, "keys may be swapped out",
	  "ulimit -l 1024, or memlock in /etc/security/limits.conf" },
	{ RLIMIT_AS, "bytes of addresses", RLIM_INFINITY, 4ull << 30,
	  "CUDA reserves more than all devices and the host have, and host devices map their memory",
	  "ulimit -v unlimited" },
};

void check_limits(struct exam *exam)
{
	struct rlimit limit;
	bool is_enough = true;

	for (size_t i = 0; i < sizeof own_limits / sizeof *own_limits; i++) {
		const struct own_limit *row = &own_limits[i];

		if (getrlimit(row->resource, &limit) || limit.rlim_cur >= (exam->host ? row->least_host : row->least))
			continue;
		is_enough = false;
		warn(row->remedy, "this process may have only %llu %s: %s", (unsigned long long)limit.rlim_cur,
		     row->name, row->why);
	}
	if (is_enough)
		ok("this process may have enough descriptors, locked memory and addresses");
}
