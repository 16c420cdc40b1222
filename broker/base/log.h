/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - what a program logs while it runs: one line on stderr, "PROGRAM: ...".
 *
 * Logged once, where it is decided. Never given a key, a handle or a ticket. There are the program's own lines, and lines
 * that clients cause, as often as they like: of these LOG_BURST at once, then LOG_RATE a second. Neither can keep a serving
 * broker waiting (invariant 5): a line for which a terminal or pipe has no room is left out, and counted in the next one. Where
 * stderr is systemd's journal, and log_journal() was called, a line goes there with its fields (journal.h).
 */
#ifndef GPUB_LOG_H
#define GPUB_LOG_H

#include <stdbool.h>

#include "journal.h"

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

/* The same of a text that has fields for the journal. */
void log_fields(enum log_level least, bool of_client, const struct journal_field *fields, unsigned count, const char *text);

/* Has lines sent to systemd's journal, with fields, where stderr is connected to it. */
void log_journal(void);

/* Whether lines of that level are logged. */
bool log_shows(enum log_level least);

/* told() is called when a line is left out, the first since one said so; NULL: nobody. */
void log_when_left_out(void (*told)(void *context), void *context);

/* Says how many lines were left out, without waiting for the next line. */
void log_tell_left_out(void);

void log_level_set(enum log_level level); /* LOG_NORMAL until then */

/* A broker serves from now on, or does not any more. */
void log_serving(bool serving);

#endif
