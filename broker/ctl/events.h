/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - broker-ctl events: prints what happened in a broker, oldest first, a line or an object each (show/trail.h).
 *
 * Reads the status file, so it works for a broker that is stopped or was killed, too, and asks nothing of one that runs. With
 * --follow it looks again and again, and owns what it read last. Never connects to a broker.
 */
#ifndef GPUB_CTL_EVENTS_H
#define GPUB_CTL_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Whose, which and how. */
struct events_wanted {
	const char *instance; /* NULL: the one at the address, or the only one */
	const char *address;  /* NULL: wherever gpub_connect() looks */
	uint64_t    since_ms; /* 0: all */
	const char *buffer, *kind; /* NULL: any */
	unsigned    pid; /* 0: any */
	uint32_t    user; /* GPUB_ANY_USER: any */
	bool        json, follow;
};

/* Negative errno, with the error message set. */
int ctl_events(const struct events_wanted *wanted);

#endif
