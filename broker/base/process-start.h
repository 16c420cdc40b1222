/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process-start.h - when a process started, by /proc: with its number that is its name, which no other process has, whatever the clock
 * is set to. Owns nothing.
 */
#ifndef GPUB_PROCESS_START_H
#define GPUB_PROCESS_START_H

#include <stdint.h>

/* In clock ticks since boot, as in /proc/PID/stat; 0: there is no such process. *state gets its letter if not NULL. */
uint64_t process_start(uint64_t pid, char *state);

#endif
