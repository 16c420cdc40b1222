/* SPDX-License-Identifier: Apache-2.0 */
/* children.c - see children.h */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/core/control.h"
#include "common/error.h"

static void set_number(const char *name, unsigned value)
{
	char number[16];

	snprintf(number, sizeof number, "%u", value);
	setenv(name, number, 1);
}

static void set_environment(unsigned rank, unsigned count, const struct worker_environment *environment)
{
	setenv("GPUBROKER", environment->address, 1);
	set_number("GPUBROKER_RANK", rank);
	set_number("GPUBROKER_SIZE", count);
	if (environment->connections)
		set_number("CUDA_DEVICE_MAX_CONNECTIONS", environment->connections);
}

void children_take_signals(struct children *children, sigset_t *signals)
{
	struct given_signals *given = &children->given;
	struct sigaction hang_up, defaults = { .sa_handler = SIG_DFL };

	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	/* under nohup(1) the program is to live on */
	if (!sigaction(SIGHUP, NULL, &hang_up) && hang_up.sa_handler != SIG_IGN)
		sigaddset(signals, SIGHUP);
	sigprocmask(SIG_BLOCK, NULL, &given->mask);
	sigaction(SIGPIPE, NULL, &given->pipe);
	/* an ignored SIGCHLD is never received, and leaves no status */
	sigaction(SIGCHLD, &defaults, &given->child);
	control_block(signals);
}

/* The command gets the signal mask and dispositions that the broker was started with, not the broker's own. */
static void restore_signals(const struct given_signals *given)
{
	sigaction(SIGPIPE, &given->pipe, NULL);
	sigaction(SIGCHLD, &given->child, NULL);
	sigprocmask(SIG_SETMASK, &given->mask, NULL);
}

static _Noreturn void child_main(const struct given_signals *given, int gate, char **command)
{
	char go;

	restore_signals(given);
	if (read(gate, &go, 1) != 1)
		_exit(0); /* the broker could not start, and has logged why */
	execvp(command[0], command);
	log_say("cannot run %s: %m", command[0]);
	_exit(errno == ENOENT ? 127 : 126);
}

int children_fork(struct children *children, unsigned count, char **command, const struct worker_environment *environment)
{
	int gate[2];

	children->child = calloc(count, sizeof *children->child);
	if (!children->child || pipe2(gate, O_CLOEXEC))
		return error_set(-ENOMEM, "the workers cannot be prepared: %m");
	children->gate = gate[1];
	for (unsigned rank = 0; rank < count; rank++) {
		pid_t pid = fork();

		if (!pid) {
			close(gate[1]);
			set_environment(rank, count, environment);
			child_main(&children->given, gate[0], command);
		}
		if (pid < 0) {
			close(gate[0]);
			return error_set(-errno, "worker %u of %u cannot be forked: %m", rank, count);
		}
		children->child[rank].pid = pid;
		children->count++;
		children->running++;
	}
	close(gate[0]);
	return 0;
}

static void close_gate(struct children *children)
{
	if (children->gate >= 0)
		close(children->gate);
	children->gate = -1;
}

/* A pipe takes far more bytes than there may be workers, so this cannot block. */
void children_release(struct children *children)
{
	for (unsigned i = 0; i < children->count; i++)
		if (write(children->gate, "", 1) != 1)
			break;
	close_gate(children);
}

static int exit_code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void say_failed(unsigned rank, const struct child *child)
{
	if (WIFSIGNALED(child->status))
		log_say("worker %u (pid %d) was killed by signal %d (%s)", rank, child->pid, WTERMSIG(child->status),
			strsignal(WTERMSIG(child->status)));
	else
		log_say("worker %u (pid %d) exited with status %d", rank, child->pid, WEXITSTATUS(child->status));
}

bool children_reap(struct children *children)
{
	bool failed = false;

	for (unsigned i = 0; i < children->count; i++) {
		struct child *child = &children->child[i];

		if (!child->pid || waitpid(child->pid, &child->status, WNOHANG) != child->pid)
			continue;
		if (exit_code_of(child->status))
			say_failed(i, child);
		child->pid = 0;
		children->running--;
		failed |= exit_code_of(child->status) != 0;
		if (!children->exit_code)
			children->exit_code = exit_code_of(child->status);
	}
	return failed;
}

void children_signal(const struct children *children, int signal)
{
	for (unsigned i = 0; i < children->count; i++)
		if (children->child[i].pid)
			kill(children->child[i].pid, signal);
}

void children_abandon(struct children *children)
{
	close_gate(children);
	children_signal(children, SIGTERM);
	for (unsigned i = 0; i < children->count; i++)
		if (children->child[i].pid)
			waitpid(children->child[i].pid, NULL, 0);
}

void children_free(struct children *children)
{
	close_gate(children);
	free(children->child);
}
