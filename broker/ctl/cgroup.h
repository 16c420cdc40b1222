/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - how much memory, or how many processes, this process's control group and its parent groups allow.
 *
 * Reads version 2 of the cgroup interface, version 1, and both at once. Owns nothing; changes nothing.
 */
#ifndef GPUB_CTL_CGROUP_H
#define GPUB_CTL_CGROUP_H

#include <stdint.h>

#define CGROUP_PATH_MAX 1024

enum cgroup_resource { CGROUP_MEMORY, CGROUP_PROCESSES };

/* The control group, of this process's group and its parents, that has the least of a resource left. */
struct cgroup_limit {
	uint64_t limit;       /* bytes, or processes and threads; UINT64_MAX: no limit, the other fields are zero */
	uint64_t used;        /* bytes, or processes and threads */
	uint64_t killed;      /* memory: processes of the group that the kernel has killed when the group was full */
	char     path[CGROUP_PATH_MAX]; /* of the directory with the group's files */
};

/* Finds the group with the least left. list: /proc/self/cgroup; root: /sys/fs/cgroup. Unreadable files set no limit. */
void cgroup_limit_find(const char *list, const char *root, enum cgroup_resource resource, struct cgroup_limit *limit);

/* Returns limit minus used, or 0 if more is used than the limit. */
uint64_t cgroup_left(const struct cgroup_limit *limit);

#endif
