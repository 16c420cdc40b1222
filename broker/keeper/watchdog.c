/* SPDX-License-Identifier: Apache-2.0 */
/* watchdog.c - see watchdog.h */
#include "watchdog.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/process-start.h"
#include "common/error.h"

#define TEXT_MAX 4096 /* bytes of a file in /proc or of a control group, with its NUL */
#define CGROUPS  "/sys/fs/cgroup"

/* ---- the broker's side ---- */

void watchdog_begin_pass(struct watchdog_marks *marks)
{
	atomic_fetch_add_explicit(&marks->pass, 1, memory_order_relaxed);
	atomic_store_explicit(&marks->sleeping, false, memory_order_relaxed);
}

void watchdog_end_pass(struct watchdog_marks *marks)
{
	atomic_store_explicit(&marks->sleeping, true, memory_order_relaxed);
}

/* ---- what excuses a process ---- */

/* Reads the beginning of a file. Returns false if it cannot be read; text is empty then. */
static bool read_text(const char *path, char text[TEXT_MAX])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = -1;

	if (fd >= 0) {
		got = read(fd, text, TEXT_MAX - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	return got > 0;
}

static bool reads(const char *root, const char *folder, const char *group, const char *file, char text[TEXT_MAX])
{
	char path[TEXT_MAX];
	int length = snprintf(path, sizeof path, "%s%s%s/%s", root, folder, group, file);

	return length > 0 && (size_t)length < sizeof path && read_text(path, text);
}

/* Whether a group is frozen. A controller of version 2 has no name. */
static bool group_frozen(const char *controllers, const char *group, const char *root)
{
	char text[TEXT_MAX];

	if (!*controllers)
		return (reads(root, "", group, "cgroup.events", text) ||
			reads(root, "/unified", group, "cgroup.events", text)) &&
		       strstr(text, "frozen 1");
	return !strcmp(controllers, "freezer") && reads(root, "/freezer", group, "freezer.state", text) &&
	       strncmp(text, "THAWED", strlen("THAWED")) != 0;
}

bool watchdog_frozen(const char *cgroups, const char *root)
{
	char text[TEXT_MAX], *line, *controllers, *group, *next = NULL;

	snprintf(text, sizeof text, "%s", cgroups);
	/* NUMBER:CONTROLLERS:GROUP */
	for (line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
		controllers = strchr(line, ':');
		group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*group++ = 0;
		if (group_frozen(controllers + 1, group, root))
			return true;
	}
	return false;
}

static bool is_traced(const char *proc)
{
	static const char key[] = "\nTracerPid:";
	char text[TEXT_MAX], *field = NULL;

	if (reads(proc, "", "", "status", text))
		field = strstr(text, key);
	return field && atoi(field + strlen(key));
}

bool watchdog_excuses(pid_t pid)
{
	char proc[32], text[TEXT_MAX], state = 0;

	if (process_start((uint64_t)pid, &state) && (state == 'T' || state == 't'))
		return true;
	snprintf(proc, sizeof proc, "/proc/%d", (int)pid);
	return is_traced(proc) || (reads(proc, "", "", "cgroup", text) && watchdog_frozen(text, CGROUPS));
}

/* ---- the keeper's side ---- */

/* Whether the loop is in the pass of the last look. Remembers the pass. */
static bool is_in_same_pass(struct watchdog *watchdog)
{
	uint64_t pass = atomic_load_explicit(&watchdog->marks->pass, memory_order_relaxed);
	bool same = pass == watchdog->pass && !atomic_load_explicit(&watchdog->marks->sleeping, memory_order_relaxed);

	watchdog->pass = pass;
	return same;
}

static void look(struct watchdog *watchdog)
{
	if (!is_in_same_pass(watchdog)) {
		watchdog->same = 0;
		return;
	}
	if (watchdog_excuses(watchdog->pid))
		return;
	watchdog->same++;
	if (watchdog->same == watchdog->looks) {
		watchdog->hangs(watchdog->context);
		kill(watchdog->pid, SIGABRT);
	} else if (watchdog->same >= watchdog->looks + WATCHDOG_GRACE)
		kill(watchdog->pid, SIGKILL);
}

static void on_look(evutil_socket_t fd, short what, void *argument)
{
	struct watchdog *watchdog = argument;

	(void)fd;
	(void)what;
	if (watchdog->pid)
		look(watchdog);
	watchdog->looked(watchdog->context);
}

int watchdog_init(struct watchdog *watchdog, struct event_base *base, struct watchdog_marks *marks, unsigned look_ms,
		  unsigned looks)
{
	struct timeval interval = { .tv_sec = look_ms / 1000, .tv_usec = look_ms % 1000 * 1000 };

	watchdog->looks = looks;
	watchdog->look = event_new(base, -1, EV_PERSIST, on_look, watchdog);
	if (!watchdog->look || event_add(watchdog->look, &interval)) {
		watchdog_deinit(watchdog);
		return error_set(-ENOMEM, "the keeper is out of memory");
	}
	watchdog->marks = marks;
	return 0;
}

void watchdog_watch(struct watchdog *watchdog, pid_t pid)
{
	watchdog->pid = pid;
	watchdog->same = 0;
	watchdog->pass = 0;
}

void watchdog_deinit(struct watchdog *watchdog)
{
	if (watchdog->look)
		event_free(watchdog->look);
	*watchdog = (struct watchdog){ 0 };
}
