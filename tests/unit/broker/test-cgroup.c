/* SPDX-License-Identifier: Apache-2.0 */
/* test-cgroup.c - of all groups from a process's own to the top, in both versions, the one with the least left counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/ctl/cgroup.h"

#define GIB (1ull << 30)

static char root[64], list[80];

/* A file below root, and the folders to it. */
static void put(const char *path, const char *text)
{
	char whole[256];
	FILE *file;

	snprintf(whole, sizeof whole, "%s/%s", root, path);
	for (char *slash = whole + strlen(root); (slash = strchr(slash + 1, '/'));) {
		*slash = 0;
		mkdir(whole, 0700);
		*slash = '/';
	}
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static struct cgroup_limit find(enum cgroup_resource resource)
{
	struct cgroup_limit limit;

	cgroup_limit_find(list, root, resource, &limit);
	return limit;
}

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/test-cgroup.XXXXXX");
	if (!mkdtemp(root))
		return -1;
	snprintf(list, sizeof list, "%s/list", root);
	return 0;
}

static int tear_down(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", root);
	return system(command);
}

static void test_finds_none(void **state)
{
	(void)state;
	assert_true(find(CGROUP_MEMORY).limit == UINT64_MAX);
	put("list", "0::/a\n");
	assert_true(find(CGROUP_MEMORY).limit == UINT64_MAX);
	put("a/memory.max", "max\n");
	put("a/memory.current", "5\n");
	assert_true(find(CGROUP_MEMORY).limit == UINT64_MAX);
}

static void test_least_of_a_path(void **state)
{
	struct cgroup_limit limit;
	char path[80];

	(void)state;
	put("list", "0::/a/b/c\n");
	put("a/b/c/memory.max", "8589934592\n");
	put("a/b/c/memory.current", "0\n");
	put("a/b/memory.max", "4294967296\n");
	put("a/b/memory.current", "3221225472\n");
	put("a/b/memory.events", "low 0\noom 2\noom_kill 7\noom_group_kill 9\n");
	put("a/memory.max", "3221225472\n");
	put("a/memory.current", "0\n");
	limit = find(CGROUP_MEMORY);
	snprintf(path, sizeof path, "%s/a/b", root);
	assert_true(limit.limit == 4 * GIB && limit.used == 3 * GIB && limit.killed == 7);
	assert_true(cgroup_left(&limit) == GIB);
	assert_string_equal(limit.path, path);
}

static void test_more_used_than_there_may_be(void **state)
{
	struct cgroup_limit limit;

	(void)state;
	put("list", "0::/\n");
	put("pids.max", "10\n");
	put("pids.current", "12\n");
	limit = find(CGROUP_PROCESSES);
	assert_true(limit.limit == 10 && limit.used == 12 && !cgroup_left(&limit));
}

/* The paths of /proc/self/cgroup are of the machine, and the container has its own group at the top. */
static void test_path_of_the_machine(void **state)
{
	(void)state;
	put("list", "0::/docker/0123\n");
	put("pids.max", "10\n");
	put("pids.current", "1\n");
	assert_true(find(CGROUP_PROCESSES).limit == 10);
}

static void test_first_version(void **state)
{
	struct cgroup_limit limit;

	(void)state;
	put("list", "5:cpu,cpuacct:/x\n4:memory,other:/a\n3:pids:/\n");
	put("memory/a/memory.limit_in_bytes", "1073741824\n");
	put("memory/a/memory.usage_in_bytes", "1\n");
	put("memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
	put("memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("memory/memory.usage_in_bytes", "1\n");
	put("pids/pids.max", "max\n");
	limit = find(CGROUP_MEMORY);
	assert_true(limit.limit == GIB && limit.used == 1 && limit.killed == 3);
	assert_true(find(CGROUP_PROCESSES).limit == UINT64_MAX);
}

/* systemd's hybrid: version 1 has the controllers, version 2 stands beside them. */
static void test_both_versions(void **state)
{
	(void)state;
	put("list", "3:pids:/\n0::/u\n");
	put("pids/pids.max", "100\n");
	put("pids/pids.current", "50\n");
	put("unified/u/pids.max", "30\n");
	put("unified/u/pids.current", "1\n");
	assert_true(find(CGROUP_PROCESSES).limit == 30);
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_finds_none), CASE(test_least_of_a_path), CASE(test_more_used_than_there_may_be),
		CASE(test_path_of_the_machine), CASE(test_first_version), CASE(test_both_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
