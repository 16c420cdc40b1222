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

/* How much is told: failures alone; what the program does beside; who comes and goes beside. */
enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

void log_level_set(enum log_level level); /* LOG_NORMAL until then */

/* As log_say(), but for LOG_QUIET: what the program does. */
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* As log_line(), for LOG_VERBOSE alone: who comes and goes. */
void log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A broker serves from now on, or does not any more. */
void log_serving(bool serving);

#endif
