/* SPDX-License-Identifier: Apache-2.0 */
/* children.c - see children.h */
#include "children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/core/control.h"
#include "broker/core/signals.h"
#include "common/error.h"

struct settings {
	size_t   used;                        /* number of bytes of `text` that are in use */
	char     text[CHILDREN_SETTINGS_MAX]; /* "NAME=VALUE" strings one after another, each ended by a NUL */
	unsigned device[];                    /* GPUBROKER_DEVICE of each worker, by rank */
};

static size_t settings_size(unsigned count)
{
	return sizeof(struct settings) + count * sizeof(unsigned);
}

int children_set(struct children *children, const char *name, const char *value)
{
	struct settings *settings = children->settings;
	size_t room = sizeof settings->text - settings->used, size = strlen(name) + 1 + strlen(value) + 1;

	if (size > room)
		return error_set(-E2BIG, "the workers' environment is too large: %s does not fit; shorten its value",
				 name);
	snprintf(settings->text + settings->used, room, "%s=%s", name, value);
	settings->used += size;
	return 0;
}

void children_set_device(struct children *children, unsigned rank, unsigned device)
{
	children->settings->device[rank] = device;
}

size_t children_environment(const struct children *children, unsigned rank, char text[CHILDREN_ENVIRONMENT_MAX])
{
	const struct settings *settings = children->settings;
	size_t used = (size_t)snprintf(text, CHILDREN_ENVIRONMENT_MAX,
				       "GPUBROKER_RANK=%u%cGPUBROKER_SIZE=%u%cGPUBROKER_DEVICE=%u", rank, 0,
				       children->size, 0, settings->device[rank]) +
		      1;

	memcpy(text + used, settings->text, settings->used);
	return used + settings->used;
}

void children_environment_put(char *text, size_t used)
{
	for (size_t at = 0; at < used; at += strlen(text + at) + 1)
		putenv(text + at);
}

void children_take_signals(struct children *children, sigset_t *signals)
{
	struct given_signals *given = &children->given;
	struct sigaction hang_up, defaults = { .sa_handler = SIG_DFL };

	signals_used(signals);
	/* a SIGHUP that is ignored, as nohup(1) has it, stays ignored by the broker and the workers */
	if (!sigaction(SIGHUP, NULL, &hang_up) && hang_up.sa_handler == SIG_IGN)
		sigdelset(signals, SIGHUP);
	sigprocmask(SIG_BLOCK, NULL, &given->mask);
	sigaction(SIGPIPE, NULL, &given->pipe);
	/* an ignored SIGCHLD, which may be inherited, would not be received, and children would leave no status */
	sigaction(SIGCHLD, &defaults, &given->child);
	control_block(signals);
}

/* Restores the actions of SIGPIPE and SIGCHLD that broker-run was started with, for the command. */
static void restore_dispositions(const struct given_signals *given)
{
	sigaction(SIGPIPE, &given->pipe, NULL);
	sigaction(SIGCHLD, &given->child, NULL);
}

static _Noreturn void child_main(const struct children *children, unsigned rank, int gate, char **command)
{
	static char environment[CHILDREN_ENVIRONMENT_MAX];
	char go;

	restore_dispositions(&children->given);
	signals_hold_back(&children->given.mask);
	if (read(gate, &go, 1) != 1)
		_exit(0); /* the pipe `gate` was closed: the broker could not start, as it has logged, or was killed */
	signals_let_in(&children->given.mask);
	children_environment_put(environment, children_environment(children, rank, environment));
	execvp(command[0], command);
	log_say("cannot run %s: %m", command[0]);
	_exit(errno == ENOENT ? 127 : 126);
}

int children_fork(struct children *children, unsigned count, unsigned size, char **command)
{
	int gate[2];

	children->settings = mmap(NULL, settings_size(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (children->settings == MAP_FAILED)
		children->settings = NULL;
	children->size = size;
	children->child = calloc(count, sizeof *children->child);
	if (!children->settings || !children->child || pipe2(gate, O_CLOEXEC))
		return error_set(-ENOMEM, "the workers cannot be prepared: %m");
	children->gate = gate[1];
	for (unsigned rank = 0; rank < count; rank++) {
		pid_t pid = fork();

		if (!pid) {
			close(gate[1]);
			child_main(children, rank, gate[0], command);
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
	clock_gettime(CLOCK_MONOTONIC, &children->released);
	return 0;
}

static void close_gate(struct children *children)
{
	if (children->gate >= 0)
		close(children->gate);
	children->gate = -1;
}

/*
 * Writes a byte for each child into the gate, which cannot block, because a pipe's buffer holds far more bytes than
 * there may be workers.
 */
void children_release(struct children *children)
{
	clock_gettime(CLOCK_MONOTONIC, &children->released);
	for (unsigned i = 0; i < children->count; i++)
		if (write(children->gate, "", 1) != 1)
			break;
	close_gate(children);
}

static int exit_code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- what is logged of workers that fail ---- */

/* Formats the time since children->released: "3.1 s", "12 min 5 s", "3 h 12 min". Returns text. */
static const char *age_text(const struct children *children, char text[32])
{
	struct timespec now;
	unsigned long tenths, seconds;

	clock_gettime(CLOCK_MONOTONIC, &now);
	tenths = (unsigned long)((now.tv_sec - children->released.tv_sec) * 10 +
				 (now.tv_nsec - children->released.tv_nsec) / 100000000);
	seconds = tenths / 10;
	if (seconds < 60)
		snprintf(text, 32, "%lu.%lu s", seconds, tenths % 10);
	else if (seconds < 3600)
		snprintf(text, 32, "%lu min %lu s", seconds / 60, seconds % 60);
	else
		snprintf(text, 32, "%lu h %lu min", seconds / 3600, seconds / 60 % 60);
	return text;
}

/* Formats a signal: "SIGSEGV", or "signal 34" for a real-time signal, which has no name. Returns text. */
static const char *signal_name(int number, char text[32])
{
	const char *name = sigabbrev_np(number);

	if (name)
		snprintf(text, 32, "SIG%s", name);
	else
		snprintf(text, 32, "signal %d", number);
	return text;
}

/* Returns true if this process's SIGTERM has ended the child. Another process's SIGTERM looks the same. */
static bool ended_by_us(const struct children *children, int status)
{
	return children->ending && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
}

static void describe_end(const struct children *children, unsigned rank, char text[CHILDREN_TEXT_MAX])
{
	const struct worker *child = &children->child[rank];
	char age[32], name[32];
	int status = child->status;

	age_text(children, age);
	if (!WIFSIGNALED(status))
		snprintf(text, CHILDREN_TEXT_MAX, "worker %u (pid %d) ended with status %d after %s", rank, child->pid,
			 WEXITSTATUS(status), age);
	else if (ended_by_us(children, status))
		snprintf(text, CHILDREN_TEXT_MAX, "worker %u (pid %d) was ended by broker-run after %s", rank,
			 child->pid, age);
	else
		snprintf(text, CHILDREN_TEXT_MAX, "worker %u (pid %d) was killed by %s%s after %s", rank, child->pid,
			 signal_name(WTERMSIG(status), name), WCOREDUMP(status) ? " (core dumped)" : "", age);
}

/* Logs that a worker has failed. If it is the first worker that failed, notes its rank and text, and returns true. */
static bool failed(struct children *children, unsigned rank)
{
	char text[CHILDREN_TEXT_MAX];
	int status = children->child[rank].status;

	describe_end(children, rank, text);
	log_say("%s%s", text,
		WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ?
			"; if nobody sent that, the machine or its cgroup was out of memory: see dmesg(1)" : "");
	if (ended_by_us(children, status) || children->failed++)
		return false;
	children->exit_code = exit_code_of(status);
	children->first = rank;
	strcpy(children->first_text, text);
	return true;
}

void children_end_others(struct children *children)
{
	if (!children->running)
		return;
	log_say("worker %u failed first: ending the other %u (--kill-on-failure)", children->first, children->running);
	children->ending = true;
	children_signal(children, SIGTERM, false);
}

void children_say_first(const struct children *children)
{
	if (children->failed > 1)
		log_say("%u of %u workers failed, the first of them: %s", children->failed, children->count,
			children->first_text);
}

/* ---- workers that end, and signals to workers ---- */

bool children_ended(struct children *children, pid_t pid, int status)
{
	for (unsigned rank = 0; rank < children->count; rank++)
		if (children->child[rank].pid == pid) {
			children->child[rank].status = status;
			children->child[rank].ended = true;
			return true;
		}
	return false;
}

bool children_judge(struct children *children)
{
	bool first = false;

	for (unsigned rank = 0; rank < children->count; rank++) {
		struct worker *child = &children->child[rank];

		if (!child->pid || !child->ended)
			continue;
		children->running--;
		if (exit_code_of(child->status))
			first |= failed(children, rank);
		child->pid = 0;
	}
	return first;
}

void children_signal(const struct children *children, int signal, bool group_has_it)
{
	for (unsigned i = 0; i < children->count; i++)
		if (children->child[i].pid && !(group_has_it && getpgid(children->child[i].pid) == getpgrp()))
			kill(children->child[i].pid, signal);
}

void children_end(struct children *children)
{
	close_gate(children);
	children->ending = true;
	children_signal(children, SIGTERM, false);
}

void children_abandon(struct children *children)
{
	children_end(children);
	for (unsigned i = 0; i < children->count; i++)
		if (children->child[i].pid) {
			waitpid(children->child[i].pid, NULL, 0);
			children->child[i].pid = 0;
		}
	children->running = 0;
}

void children_forget(struct children *children)
{
	close_gate(children);
	if (children->settings)
		munmap(children->settings, settings_size(children->size));
	children->settings = NULL;
}

void children_free(struct children *children)
{
	children_forget(children);
	free(children->child);
}
