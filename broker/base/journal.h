/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - sends lines of the log, with structured fields, to systemd's journal in its native protocol: one
 * datagram for each line.
 *
 * Used only if stderr is connected to the journal, as $JOURNAL_STREAM tells (systemd.exec(5)). Owns the socket. Never
 * waits. Does not use libsystemd, because sd_journal_send(3) blocks while the journal does not read. A value that
 * contains a newline is sent with its length, so that no part of the value passes for another field.
 */
#ifndef GPUB_JOURNAL_H
#define GPUB_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

struct journal_field {
	const char *name, *text; /* name of the field, and its value as a text; text NULL: the value is `number` */
	uint64_t    number;
	bool        there; /* false: the field is not sent */
};

/*
 * Opens the socket if stderr is connected to the journal. path: address of the journal's socket: JOURNAL_SOCKET, except
 * in tests.
 */
void journal_open(const char *path);
void journal_close(void);

/*
 * Sends a line with its fields. priority: 0 to 7, as for syslog(3). Returns false if there is no journal, the journal
 * has no room, or the line is too long.
 */
bool journal_send(int priority, const struct journal_field *fields, unsigned count, const char *text);

#endif
