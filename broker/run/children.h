/* SPDX-License-Identifier: Apache-2.0 */
/*
 * children.h - the workers that broker-run forks, holds back until all is ready, and waits for.
 *
 * Workers are forked before the device is touched (docs/running.md, "Fork") and wait before exec(2) until they are
 * released. Owns the workers' pids, and signals no other process. Never touches the workers' memory or sockets.
 */
#ifndef GPUB_RUN_CHILDREN_H
#define GPUB_RUN_CHILDREN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct worker {
	pid_t pid;    /* pid of the child; 0: children_judge() has counted its end, or children_abandon() reaped it */
	int   status; /* the child's status as waitpid(2) returns it; valid once `ended` is set */
	bool  ended;  /* the process was reaped */
};

/* Signal mask and actions that broker-run was started with. The workers' command gets them back. */
struct given_signals {
	sigset_t         mask;
	struct sigaction pipe, child; /* actions of SIGPIPE and SIGCHLD that this process began with */
};

#define CHILDREN_TEXT_MAX 160

/* largest number of bytes of all environment variables that children_set() adds */
#define CHILDREN_SETTINGS_MAX    8000
/* largest number of bytes of all environment variables of a worker, with its own: rank, size and device */
#define CHILDREN_ENVIRONMENT_MAX 8192

struct children {
	struct worker  *child;
	/*
	 * environment variables for the workers, in memory shared with the children, who read it when they are released
	 */
	struct settings *settings;
	unsigned        count;     /* number of children forked */
	unsigned        running;   /* number of children that children_judge() has not counted as ended */
	/* number of all workers of the job; with --join some are no children of this process */
	unsigned        size;
	/* pipe to the children: each byte lets one child run the command, closing the pipe lets all exit */
	int             gate;
	int             exit_code; /* exit code of the first child that failed; 0: none has failed */
	unsigned        failed;    /* number of children that failed, without those that children_end_others() ended */
	unsigned        first;     /* rank of the first child that failed; valid if failed is not 0 */
	bool            ending;    /* this process has sent SIGTERM: an end by it is not reported as a failure */
	struct timespec released;  /* when the children were released, or, before that, forked, by CLOCK_MONOTONIC */
	/* text about the first failure, as logged: "worker 2 (pid 8) ended with status 2 after 3.0 s" */
	char            first_text[CHILDREN_TEXT_MAX];
	struct given_signals given;
};

/*
 * Sets *signals to the signals that are to be read from a signalfd(2), and blocks them. Saves the mask, and the
 * actions of SIGPIPE and SIGCHLD, in children->given; then ignores SIGPIPE and sets SIGCHLD to its default.
 */
void children_take_signals(struct children *children, sigset_t *signals);

/*
 * Forks count children of a job of size workers. When released, each runs command with GPUBROKER_RANK, GPUBROKER_SIZE
 * and GPUBROKER_DEVICE in its environment. Call children_take_signals() first. Returns 0 or negative errno with the
 * error message; after an error children_abandon() ends those that were forked. children_free() follows in either case.
 */
int children_fork(struct children *children, unsigned count, unsigned size, char **command);

/*
 * Adds an environment variable for the command of every worker. Returns 0, or -E2BIG with the error message if the
 * variables do not fit.
 */
int children_set(struct children *children, const char *name, const char *value);

/*
 * Writes the environment variables of the worker with the rank into text: "NAME=VALUE" strings, each ended by a NUL.
 * Returns the number of bytes written.
 */
size_t children_environment(const struct children *children, unsigned rank, char text[CHILDREN_ENVIRONMENT_MAX]);

/*
 * Puts the variables in a text that children_environment() has written into this process's environment, which points
 * into text from then on. used: number of bytes in text.
 */
void children_environment_put(char *text, size_t used);

/* Sets GPUBROKER_DEVICE for the worker with the rank. Called before the worker is released. */
void children_set_device(struct children *children, unsigned rank, unsigned device);

/* Lets all children run the command. */
void children_release(struct children *children);

/* Notes the end of a process that the caller has reaped. Returns false if the process is no worker. */
bool children_ended(struct children *children, pid_t pid, int status);

/*
 * Counts the workers for which children_ended() was called since the last call, and logs a line for each that failed.
 * If several failed since, the one with the lowest rank counts as the first, because the kernel keeps no order. Returns
 * true if the job's first failure is among these workers.
 */
bool children_judge(struct children *children);

/* Sends SIGTERM to all running children, because the first worker has failed, and logs that. */
void children_end_others(struct children *children);

/*
 * Called at the end: if several workers failed, logs which failed first, because that may have caused the other
 * failures.
 */
void children_say_first(const struct children *children);

/*
 * Sends a signal to the children that still run. group_has_it: true: not to children in this process's process group,
 * which have got the signal already.
 */
void children_signal(const struct children *children, int signal, bool group_has_it);

/* Sends SIGTERM to all children. Those that have not been released end, too. */
void children_end(struct children *children);

/*
 * Does children_end(), and waits without limit until the children have ended. For a broker that cannot start or has
 * failed before they were released.
 */
void children_abandon(struct children *children);

/* In another process that broker-run has forked: closes and unmaps what only broker-run and the workers may have. */
void children_forget(struct children *children);

void children_free(struct children *children);

#endif
