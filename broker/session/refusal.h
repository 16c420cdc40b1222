/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusal.h - refuses a connection that does not become a session.
 *
 * Owns the count of those of which the log was not told yet: whoever is refused may come back as often as it likes.
 */
#ifndef GPUB_REFUSAL_H
#define GPUB_REFUSAL_H

#include <time.h>

struct broker;

struct refusals {
	unsigned count; /* since the log was told */
	time_t   told;  /* seconds, CLOCK_MONOTONIC */
};

/* Tells the peer the error, with error_text(), and the log once a second at most. The descriptor stays the caller's. */
void connection_refuse(struct broker *broker, int fd, int error);

#endif
