/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what a broker tells people while it runs: one line on stderr, "PROGRAM: ...".
 *
 * Logged once, where it is decided. Never given a key, a handle or a ticket. Two kinds: the program's own
 * lines, and those that clients bring about. Neither can keep a serving broker waiting (invariant 5): a line
 * for which a terminal or pipe has no room is left out, and counted in the next that is written.
 */
#ifndef GPUB_LOG_H
#define GPUB_LOG_H

#include <stdbool.h>

/* What clients may bring about, as often as they like: LOG_BURST at once, then LOG_RATE a second. */
#define LOG_BURST 20
#define LOG_RATE  10
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The program's own lines, however many. Waits up to a second for room while no broker serves. */
void log_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A broker serves from now on, or does not any more. */
void log_serving(bool serving);

#endif
