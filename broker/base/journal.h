/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal.h - lines of the log with fields of their own, for systemd's journal: its native protocol, a datagram a line.
 *
 * Only where stderr is connected to the journal, which $JOURNAL_STREAM says (systemd.exec(5)). Owns the socket. Never waits, and
 * needs no library of systemd's. A value with a line's end, which could be taken for another field, is sent with its length.
 */
#ifndef GPUB_JOURNAL_H
#define GPUB_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

struct journal_field {
	const char *name, *text; /* text NULL: the number */
	uint64_t    number;
	bool        there; /* else it is left out */
};

/* Opens it where stderr is the journal's. path: JOURNAL_SOCKET; tests have another one. */
void journal_open(const char *path);
void journal_close(void);

/* priority: as in syslog(3), which reads as a digit. False: there is no journal, or it did not take the line. */
bool journal_send(int priority, const struct journal_field *fields, unsigned count, const char *text);

#endif
