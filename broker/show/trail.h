/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trail.h - what happened in a broker, as the ring of its status file says: for broker-ctl events.
 *
 * The file is a claim of whoever owns it: each event is copied once and checked before use. What it costs is bounded by the ring.
 * Owns nothing. Never maps the file, waits for its broker, or writes.
 */
#ifndef GPUB_SHOW_TRAIL_H
#define GPUB_SHOW_TRAIL_H

#include <stddef.h>

#include <jansson.h>

#include "broker/status/format.h"

#define TRAIL_VERSION 1 /* of the keys of trail_json() and what they mean; new keys do not count */

struct trail {
	struct status_event events[STATUS_EVENTS]; /* those that are whole, oldest first */
	size_t              count;
};

/* Reads the ring of that file; instance: for the error message. -EAGAIN: it is no status file, or not yet; -EBADMSG: of another version. */
int trail_read(struct trail *trail, const char *instance, int fd);

/* As the log would say it. text: as event_text() has it. */
const char *trail_text(const struct status_event *event, char text[EVENT_TEXT_MAX]);

/* A new object, with all that is known. NULL: there is no memory. */
json_t *trail_json(const struct status_event *event);

#endif
