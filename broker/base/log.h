/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what a program logs while it runs: one line on stderr, "PROGRAM: ...".
 *
 * Logged once, where it is decided. Never given a key, a handle or a ticket. There are the program's own lines, and lines
 * that clients cause, as often as they like: of these LOG_BURST at once, then LOG_RATE a second. Neither can keep a serving
 * broker waiting (invariant 5): a line for which a terminal or pipe has no room is left out, and counted in the next one.
 */
#ifndef GPUB_LOG_H
#define GPUB_LOG_H

#include <stdbool.h>

#define LOG_BURST 20
#define LOG_RATE  10

/* How much is logged: failures; also what the program does; also which sessions begin and end. */
enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

#define log_say(...)    log_write(LOG_QUIET, false, __VA_ARGS__)  /* a failure of the program's own */
#define log_note(...)   log_write(LOG_NORMAL, false, __VA_ARGS__) /* what the program does */
#define log_line(...)   log_write(LOG_QUIET, true, __VA_ARGS__)   /* a failure that a client caused */
#define log_detail(...) log_write(LOG_VERBOSE, true, __VA_ARGS__) /* who comes and goes */

/* Logs the line from the level least on. The program's own waits up to a second for room while no broker serves. */
void log_write(enum log_level least, bool of_client, const char *format, ...) __attribute__((format(printf, 3, 4)));

void log_level_set(enum log_level level); /* LOG_NORMAL until then */

/* A broker serves from now on, or does not any more. */
void log_serving(bool serving);

#endif
