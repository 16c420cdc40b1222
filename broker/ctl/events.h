/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - broker-ctl events: prints the events of a broker (show/trail.h), oldest first, each as a line or as a JSON
 * object.
 *
 * Reads the broker's status file, so it works also if the broker is stopped or was killed. With --follow it reads the
 * file again and again. Owns the events read last. Never connects to a broker.
 */
#ifndef GPUB_CTL_EVENTS_H
#define GPUB_CTL_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Which events of which broker are printed, and how. */
struct events_wanted {
	/* name of the broker; NULL: the only broker there is, or the one of several that listens at the address */
	const char *instance;
	const char *address;  /* address of the broker; NULL: the address that gpub_connect() takes by default */
	uint64_t    since_ms; /* only events of the last since_ms milliseconds; 0: all */
	const char *buffer, *kind; /* only events of buffers with this name pattern, and of this kind; NULL: any */
	unsigned    pid;  /* only events about the process with this pid; 0: any */
	uint32_t    user; /* only events about this user; GPUB_ANY_USER: any */
	bool        json, follow;
};

/*
 * Prints the events; with wanted->follow goes on until a failure. Returns 0 or negative errno with the error message.
 */
int ctl_events(const struct events_wanted *wanted);

#endif
