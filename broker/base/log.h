/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - the log of a program: lines "PROGRAM: ..." on stderr.
 *
 * An event is logged once, by the code that decides it. The log is never given a key, a handle or a ticket. There are
 * the program's own lines, and lines that clients can cause as often as they like, which are limited: LOG_BURST at
 * once, then LOG_RATE a second. No line makes a serving broker wait (invariant 5): if the terminal or pipe has no
 * room, the line is left out, and the log later says how many were. If stderr is systemd's journal, and log_journal()
 * was called, lines go to the journal with their fields (journal.h).
 */
#ifndef GPUB_LOG_H
#define GPUB_LOG_H

#include <stdbool.h>

#include "journal.h"

#define LOG_BURST 20
#define LOG_RATE  10

/*
 * What is logged: failures (QUIET); also what the program does (NORMAL); also sessions' begins and ends, and what
 * clients do (VERBOSE).
 */
enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

#define log_say(...)    log_write(LOG_QUIET, false, __VA_ARGS__)  /* logs the program's own failure or warning */
#define log_note(...)   log_write(LOG_NORMAL, false, __VA_ARGS__) /* logs what the program does */
#define log_line(...)   log_write(LOG_QUIET, true, __VA_ARGS__)   /* logs a failure that a client may cause often */
#define log_detail(...) log_write(LOG_VERBOSE, true, __VA_ARGS__) /* logs that a session begins or ends */

/*
 * Logs a line if the log's level is `least` or more. of_client: clients can cause the line, so the number of such lines
 * is limited and they never wait. A line of the program's own waits up to 1 s for room on stderr while no broker
 * serves.
 */
void log_write(enum log_level least, bool of_client, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Does what log_write() does for a finished text, which goes to the journal with `count` fields. */
void log_fields(enum log_level least, bool of_client, const struct journal_field *fields, unsigned count,
		const char *text);

/* Sends lines to systemd's journal from now on, if stderr is connected to the journal. */
void log_journal(void);

/* Returns true if lines of the level `least` are logged. */
bool log_shows(enum log_level least);

/*
 * Registers told(), which is called for the first line that is left out since the log last said how many were left out;
 * told NULL: nothing is called.
 */
void log_when_left_out(void (*told)(void *context), void *context);

/* Logs at once how many lines were left out, which is otherwise logged before the next line. */
void log_tell_left_out(void);

void log_level_set(enum log_level level); /* sets the log's level, which is LOG_NORMAL at first */

/* Tells the log whether a broker serves from now on. While a broker serves, no line waits. */
void log_serving(bool serving);

#endif
