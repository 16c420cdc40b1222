/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - gets the state of a process from /proc, as far as this user may see it. Owns nothing; sends no signal. */
#ifndef GPUB_SHOW_LOOK_H
#define GPUB_SHOW_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#define CPUS_TEXT_MAX 256

struct process_seen {
	/* start time (process-start.h); 0: there is no such process, or a hidden one, and all members are 0 */
	uint64_t start;
	char     state;     /* letter of the state in /proc/PID/stat, such as 'R' */
	bool     headless;  /* state is 'Z' because the main thread has ended, but other threads run */
	/* the process is in a container: it has its own pid namespace, or a container's control group */
	bool     contained;
	char     cpus[CPUS_TEXT_MAX]; /* processors on which the process may run, as "0-3,8"; "": all, or not known */
};

/* Sets *seen to what /proc shows of the process now. */
void process_look(uint64_t pid, struct process_seen *seen);

#endif
