/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - how much this process's control group, and those above it, let it have.
 *
 * Version 2 of the interface, version 1, and both at once. Owns nothing; changes nothing.
 */
#ifndef GPUB_CTL_CGROUP_H
#define GPUB_CTL_CGROUP_H

#include <stdint.h>

#define CGROUP_PATH_MAX 1024

enum cgroup_resource { CGROUP_MEMORY, CGROUP_PROCESSES };

/* The group, of all that count, in which the least is left. */
struct cgroup_limit {
	uint64_t limit, used; /* bytes, or processes and threads; limit UINT64_MAX: there is none, and the rest is not set */
	uint64_t killed;      /* memory: processes of it that the kernel has killed for want of it */
	char     path[CGROUP_PATH_MAX]; /* of its files */
};

/* list: /proc/self/cgroup; root: /sys/fs/cgroup. Where nothing can be read there is no limit. */
void cgroup_limit_find(const char *list, const char *root, enum cgroup_resource resource, struct cgroup_limit *limit);

/* What is left of it; 0 where more is used than there may be. */
uint64_t cgroup_left(const struct cgroup_limit *limit);

#endif
