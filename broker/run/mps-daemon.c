/* SPDX-License-Identifier: Apache-2.0 */
/* mps-daemon.c - see mps-daemon.h */
#include "mps-daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"

_Static_assert(sizeof(struct mps_order) <= PIPE_BUF, "an order is written to a pipe in one piece");

static void ends_close(const int ends[2])
{
	close(ends[0]);
	close(ends[1]);
}

static pid_t keeper_fork(const int gate[2], const int answer[2])
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	close(gate[1]);
	close(answer[0]);
	mps_keeper_main(parent, gate[0], answer[1]);
}

int mps_daemon_prepare(struct mps_daemon *daemon)
{
	int gate[2], answer[2], error = 0;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC))
		return error_set(-errno, "MPS cannot be prepared: %m");
	if (pipe2(answer, O_CLOEXEC)) {
		error = error_set(-errno, "MPS cannot be prepared: %m");
		ends_close(gate);
		return error;
	}
	pid = keeper_fork(gate, answer);
	if (pid < 0) {
		error = error_set(-errno, "the keeper of the MPS daemon cannot be forked: %m");
		ends_close(gate);
		ends_close(answer);
		return error;
	}
	close(gate[0]);
	close(answer[1]);
	daemon->keeper = pid;
	daemon->gate = gate[1];
	daemon->answer = answer[0];
	return 0;
}

static void daemon_free(struct mps_daemon *daemon)
{
	if (daemon->answered)
		event_free(daemon->answered);
	if (daemon->gate >= 0)
		close(daemon->gate);
	close(daemon->answer);
	*daemon = (struct mps_daemon){ .done = daemon->done, .context = daemon->context };
}

void mps_daemon_forget(const struct mps_daemon *daemon)
{
	if (!daemon->keeper)
		return;
	if (daemon->gate >= 0)
		close(daemon->gate);
	close(daemon->answer);
}

void mps_daemon_ended(struct mps_daemon *daemon, pid_t pid)
{
	daemon->ended |= pid == daemon->keeper;
}

/* Returns true if the keeper has ended, and then closes its pipes and clears *daemon but for done() and its context. */
static bool has_ended(struct mps_daemon *daemon)
{
	if (!daemon->keeper || !daemon->ended)
		return false;
	daemon_free(daemon);
	return true;
}

static void on_answer(evutil_socket_t fd, short what, void *argument)
{
	struct mps_daemon *daemon = argument;
	char text[MPS_ANSWER_MAX] = "the keeper of the MPS daemon was killed";
	ssize_t length = read(fd, text, sizeof text - 1);

	(void)what;
	if (length > 0)
		text[length] = 0;
	daemon->serves = !*text;
	if (daemon->serves && has_ended(daemon)) /* SIGCHLD of the keeper may have been handled before its answer */
		snprintf(text, sizeof text, "the MPS daemon was ended");
	daemon->done(daemon->context, *text ? -EIO : 0, text);
}

/* Called when the keeper did not get the order: removes the event, so that done() is not called. Returns -EIO. */
static int lose(struct mps_daemon *daemon)
{
	event_free(daemon->answered);
	daemon->answered = NULL;
	return error_set(-EIO, "the keeper of the MPS daemon was killed");
}

int mps_daemon_start(struct mps_daemon *daemon, struct event_base *base, const struct mps_order *order,
		     mps_daemon_done *done, void *context)
{
	daemon->done = done;
	daemon->context = context;
	daemon->answered = event_new(base, daemon->answer, EV_READ, on_answer, daemon);
	if (!daemon->answered || event_add(daemon->answered, NULL))
		return error_set(-ENOMEM, "out of memory");
	if (write(daemon->gate, order, sizeof *order) != sizeof *order)
		return lose(daemon);
	return 0;
}

/* ---- the end ---- */

bool mps_daemon_lost(struct mps_daemon *daemon)
{
	bool served = daemon->serves;

	return served && has_ended(daemon);
}

void mps_daemon_stop(struct mps_daemon *daemon)
{
	if (!daemon->keeper)
		return;
	if (daemon->gate >= 0)
		close(daemon->gate);
	daemon->gate = -1;
	if (!daemon->ended)
		kill(daemon->keeper, SIGTERM);
}

void mps_daemon_wait(struct mps_daemon *daemon)
{
	if (!daemon->keeper)
		return;
	if (!daemon->ended)
		waitpid(daemon->keeper, NULL, 0);
	daemon_free(daemon);
}
