/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process-start.h - the start time of a process, from /proc. The pid and the start time together identify a process,
 * even if the pid is reused or the system's clock is set. Owns nothing.
 */
#ifndef GPUB_PROCESS_START_H
#define GPUB_PROCESS_START_H

#include <stdint.h>

/*
 * Returns the start time in clock ticks since boot, as in /proc/PID/stat; 0: the process does not exist, or /proc
 * cannot be read. If the result is not 0 and state is not NULL, sets *state to the letter of the process's state, such
 * as 'R'.
 */
uint64_t process_start(uint64_t pid, char *state);

#endif
