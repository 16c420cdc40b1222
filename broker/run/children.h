/* SPDX-License-Identifier: Apache-2.0 */
/*
 * children.h - the workers that broker-run forks, holds back until all is ready, and waits for.
 *
 * They are forked before the device is touched (design.md, "Fork") and wait before exec(2) until they are released.
 * Owns their pids; signals nothing else. Never touches their memory or sockets.
 */
#ifndef GPUB_RUN_CHILDREN_H
#define GPUB_RUN_CHILDREN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct child {
	pid_t pid;    /* 0: it has ended, and was counted */
	int   status; /* as waitpid(2) gives it, if the child has ended */
	bool  ended;
};

/* What broker-run was started with, and what the command gets. */
struct given_signals {
	sigset_t         mask;
	struct sigaction pipe, child;
};

#define CHILDREN_TEXT_MAX 160

#define CHILDREN_SETTINGS_MAX    8000 /* bytes of all settings together */
#define CHILDREN_ENVIRONMENT_MAX 8192 /* with what each worker has for itself */

struct children {
	struct child   *child;
	struct settings *settings; /* shared with the children, who read them when they are released */
	unsigned        count, running; /* forked; of those, not ended */
	unsigned        size;      /* all workers: with --join some are no children of this process */
	int             gate;      /* closed: the children exit; a byte each: they run the command */
	int             exit_code; /* of the first that failed; 0: none has failed */
	unsigned        failed;    /* how many, without those that children_end_others() ended */
	unsigned        first;     /* the rank of the first of them */
	bool            ending;    /* children_end_others() was called */
	struct timespec released;  /* CLOCK_MONOTONIC */
	char            first_text[CHILDREN_TEXT_MAX]; /* "worker 2 (pid 812) ended with status 2 after 3.1 s" */
	struct given_signals given;
};

/* Blocks the signals that signals_used() lists, for signalfd(2), and keeps what was given for the command. */
void children_take_signals(struct children *children, sigset_t *signals);

/*
 * After children_take_signals(). Forks count children of size workers, which will run command, with GPUBROKER_RANK and
 * GPUBROKER_SIZE in their environment.
 */
int children_fork(struct children *children, unsigned count, unsigned size, char **command);

/*
 * Every worker's environment gets this, when it is released: until then what a worker needs may not be known. -E2BIG, with the
 * error message: it does not fit.
 */
int children_set(struct children *children, const char *name, const char *value);

/*
 * What the worker of that rank finds in its environment: "NAME=VALUE" after "NAME=VALUE", each with its zero. Returns how many bytes they
 * are.
 */
size_t children_environment(const struct children *children, unsigned rank, char text[CHILDREN_ENVIRONMENT_MAX]);

/* Puts such a text, which must stay, into the environment of this process. */
void children_environment_put(char *text, size_t used);

/* The worker's own device: GPUBROKER_DEVICE in its environment. */
void children_set_device(struct children *children, unsigned rank, unsigned device);

/* They run the command. */
void children_release(struct children *children);

/* The caller has reaped that process. False: it is no worker. */
bool children_ended(struct children *children, pid_t pid, int status);

/*
 * Counts the workers for which children_ended() was called, and logs a line for each that failed. Of those that it
 * finds together the one with the lowest rank counts as the first: the kernel keeps no order. True: the first worker
 * has failed.
 */
bool children_judge(struct children *children);

/* The first has failed: ends the others, and logs why. The lines of those that end by it say so. */
void children_end_others(struct children *children);

/* All have ended. Where several failed, a last line repeats which was the first: what followed may have come of it. */
void children_say_first(const struct children *children);

/* Sends a signal to the workers that still run. group_has_it: leaves out those in this process's group. */
void children_signal(const struct children *children, int signal, bool group_has_it);

/* Ends and reaps all: for when the broker cannot start. */
void children_abandon(struct children *children);

void children_free(struct children *children);

#endif
