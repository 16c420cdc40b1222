/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child.h */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"

#define AFTER_COMMAND 50 /* exit_code is so many fields behind the command's name in /proc/PID/stat, proc(5) */

#define LATER_MS 50 /* until a process that has ended and could not be reaped is asked for again */

void child_forget(struct child *child)
{
	if (child->event) {
		event_free(child->event);
		event_free(child->later);
		if (child->pidfd >= 0)
			close(child->pidfd);
	}
	child->event = child->later = NULL;
	child->pid = 0;
}

pid_t child_fork(sigset_t *before)
{
	sigset_t all, old;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (before)
		*before = old;
	if (pid)
		sigprocmask(SIG_SETMASK, &old, NULL);
	return pid;
}

static int reap(pid_t pid, int flags, int *status)
{
	pid_t ended;

	do {
		ended = waitpid(pid, status, flags);
	} while (ended < 0 && errno == EINTR);
	if (ended < 0)
		*status = SIGKILL;
	return ended;
}

static const struct timeval pause_later = { .tv_usec = LATER_MS * 1000 };

/* A dead process that is traced cannot be reaped yet: the pidfd can be read all the time, so the timer asks again. */
static void on_end(evutil_socket_t fd, short what, void *argument)
{
	struct child *child = argument;
	int status;

	(void)fd;
	(void)what;
	if (!reap(child->pid, WNOHANG, &status)) {
		event_del(child->event);
		if (event_add(child->later, &pause_later) && child->pidfd >= 0)
			(void)event_add(child->event, NULL);
		return;
	}
	child_forget(child);
	child->ended(child->context, status);
}

int child_watch(struct child *child, struct event_base *base, pid_t pid, void (*ended)(void *context, int status),
		void *context)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (pidfd < 0 && errno != ENOSYS) /* valgrind has no pidfds: the timer asks there */
		return error_set(-errno, "the end of process %d cannot be watched: %m", (int)pid);
	*child = (struct child){ .pid = pid, .pidfd = pidfd, .ended = ended, .context = context };
	child->event = event_new(base, pidfd, EV_READ | EV_PERSIST, on_end, child);
	child->later = evtimer_new(base, on_end, child);
	if (child->event && child->later &&
	    !(pidfd < 0 ? event_add(child->later, &pause_later) : event_add(child->event, NULL)))
		return 0;
	if (child->event)
		event_free(child->event);
	if (child->later)
		event_free(child->later);
	if (pidfd >= 0)
		close(pidfd);
	*child = (struct child){ 0 };
	return error_set(-ENOMEM, "the keeper is out of memory");
}

/* Reads /proc/PID/stat into text. Returns false if that cannot be read. */
static bool read_stat(pid_t pid, char *text, size_t size)
{
	ssize_t got = -1;
	char path[40];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		got = read(fd, text, size - 1);
		close(fd);
	}
	text[got > 0 ? got : 0] = 0;
	return got > 0;
}

int child_ending(pid_t pid)
{
	char text[1024], *field;
	int status;

	if (!read_stat(pid, text, sizeof text))
		return 0;
	field = strrchr(text, ')'); /* the command's name may contain any byte */
	for (unsigned i = 0; field && i < AFTER_COMMAND; i++)
		field = strchr(field + 1, ' ');
	status = field ? atoi(field) : 0;
	return WIFSIGNALED(status) ? status : 0;
}

void child_finish(struct child *child)
{
	int status;

	if (!child->pid)
		return;
	kill(child->pid, SIGKILL);
	reap(child->pid, 0, &status);
	child_forget(child);
}
