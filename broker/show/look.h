/* SPDX-License-Identifier: Apache-2.0 */
/*
 * look.h - what /proc tells of one process, as far as this one may see. Owns nothing; sends it no signal.
 */
#ifndef GPUB_SHOW_LOOK_H
#define GPUB_SHOW_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#define CPUS_TEXT_MAX 256

struct process_seen {
	uint64_t start;     /* process-start.h; 0: there is no such process, or nobody can tell */
	char     state;     /* the letter in /proc/PID/stat; 0: the same */
	bool     headless;  /* that is Z because its main thread has ended, and others of it run */
	bool     contained; /* it is in a container: a pid namespace of its own, or a control group that a program for these made */
	char     cpus[CPUS_TEXT_MAX]; /* the processors on which it may run, "0-3,8"; "": on all, or nobody can tell */
};

void process_look(uint64_t pid, struct process_seen *seen);

#endif
