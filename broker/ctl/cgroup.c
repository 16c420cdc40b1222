/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.c - see cgroup.h */
#include "cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of the files of each resource; index 0: version 1 of the cgroup interface, 1: version 2. */
static const struct {
	const char *controller; /* name in version 1 */
	const char *limit[2], *used[2], *events[2];
} files[] = {
	[CGROUP_MEMORY] = { "memory",
			    { "memory.limit_in_bytes", "memory.max" },
			    { "memory.usage_in_bytes", "memory.current" },
			    { "memory.oom_control", "memory.events" } },
	[CGROUP_PROCESSES] = { "pids", { "pids.max", "pids.max" }, { "pids.current", "pids.current" }, { NULL, NULL } },
};

#define NO_LIMIT (UINT64_MAX >> 2) /* larger numbers mean no limit: version 1 then writes nearly 2^63 */

uint64_t cgroup_left(const struct cgroup_limit *limit)
{
	return limit->limit > limit->used ? limit->limit - limit->used : 0;
}

static FILE *open_in(const char *group, const char *file)
{
	char path[CGROUP_PATH_MAX + 64];

	snprintf(path, sizeof path, "%s/%s", group, file);
	return fopen(path, "re");
}

/* Reads a number from a file of a group. "max" and numbers above NO_LIMIT become UINT64_MAX. False: it has none. */
static bool number_in(const char *group, const char *file, uint64_t *number)
{
	FILE *stream = open_in(group, file);
	char text[32] = "";
	bool read = stream && fgets(text, sizeof text, stream);

	if (stream)
		fclose(stream);
	if (!read)
		return false;
	*number = strncmp(text, "max", 3) ? strtoull(text, NULL, 10) : UINT64_MAX;
	if (*number > NO_LIMIT)
		*number = UINT64_MAX;
	return true;
}

static uint64_t killed_in(const char *group, const char *file)
{
	FILE *stream = open_in(group, file);
	unsigned long long killed = 0;
	char line[80];

	while (stream && fgets(line, sizeof line, stream))
		sscanf(line, "oom_kill %llu", &killed);
	if (stream)
		fclose(stream);
	return killed;
}

/* Sets *least to the limit of one group, if the group has less left than *least. second: version 2. */
static void look_at(const char *group, enum cgroup_resource resource, bool second, struct cgroup_limit *least)
{
	struct cgroup_limit here = { 0 };

	if (!number_in(group, files[resource].limit[second], &here.limit) || here.limit == UINT64_MAX ||
	    !number_in(group, files[resource].used[second], &here.used))
		return;
	if (least->limit != UINT64_MAX && cgroup_left(least) <= cgroup_left(&here))
		return;
	if (files[resource].events[second])
		here.killed = killed_in(group, files[resource].events[second]);
	snprintf(here.path, sizeof here.path, "%s", group);
	*least = here;
}

/*
 * Looks at the group and all its parents up to the top of the hierarchy, because a group's limit also applies to the
 * groups below. Skips groups that do not exist: in a container, top may be the container's own group, while the path in
 * /proc/self/cgroup is the machine's.
 */
static void look_upward(const char *top, const char *group, enum cgroup_resource resource, bool second,
			struct cgroup_limit *least)
{
	char path[CGROUP_PATH_MAX];
	size_t shortest = strlen(top);
	char *slash;

	snprintf(path, sizeof path, "%s%s", top, strcmp(group, "/") ? group : "");
	for (;;) {
		look_at(path, resource, second, least);
		slash = strrchr(path, '/');
		if (!slash || (size_t)(slash - path) < shortest)
			return;
		*slash = 0;
	}
}

/* Whether the controller is in a list such as "cpu,cpuacct". */
static bool is_among(const char *controllers, const char *controller)
{
	size_t length = strlen(controller);

	for (; *controllers; controllers += strcspn(controllers, ","), controllers += *controllers == ',')
		if (!strncmp(controllers, controller, length) && (!controllers[length] || controllers[length] == ','))
			return true;
	return false;
}

/* Looks at the groups of one line of /proc/self/cgroup: "0::/a/b" in version 2, "4:memory:/a/b" in version 1. */
static void take_line(char *line, const char *root, enum cgroup_resource resource, struct cgroup_limit *least)
{
	char top[CGROUP_PATH_MAX];
	char *controllers = strchr(line, ':'), *group = controllers ? strchr(++controllers, ':') : NULL;

	if (!group)
		return;
	*group++ = 0;
	group[strcspn(group, "\n")] = 0;
	if (!*controllers) {
		look_upward(root, group, resource, true, least);
		snprintf(top, sizeof top, "%s/unified", root);
		look_upward(top, group, resource, true, least);
	} else if (is_among(controllers, files[resource].controller)) {
		snprintf(top, sizeof top, "%s/%s", root, files[resource].controller);
		look_upward(top, group, resource, false, least);
	}
}

void cgroup_limit_find(const char *list, const char *root, enum cgroup_resource resource, struct cgroup_limit *limit)
{
	struct cgroup_limit least = { .limit = UINT64_MAX };
	FILE *stream = fopen(list, "re");
	char *line = NULL;
	size_t size = 0;

	while (stream && getline(&line, &size, stream) > 0)
		take_line(line, root, resource, &least);
	free(line);
	if (stream)
		fclose(stream);
	*limit = least;
}
