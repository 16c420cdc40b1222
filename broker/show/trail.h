/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trail.h - reads the events in the ring of a status file, for broker-ctl events.
 *
 * The file is a claim of its owner, so each event is copied once and checked before use. The cost is limited by the
 * size of the ring. Owns nothing. Never maps the file, waits for the broker, or writes.
 */
#ifndef GPUB_SHOW_TRAIL_H
#define GPUB_SHOW_TRAIL_H

#include <stddef.h>

#include <jansson.h>

#include "broker/status/format.h"

#define TRAIL_VERSION 1 /* version of the keys of trail_json() and their meaning; not raised if keys are added */

struct trail {
	struct status_event events[STATUS_EVENTS]; /* the events that were whole, the oldest first */
	size_t              count;
};

/*
 * Reads the ring of the status file fd into *trail. instance: the broker's name, for error messages. Returns 0, or a
 * negative errno with the error message set: -EAGAIN if the file is not a status file, or not one yet; -EBADMSG if its
 * format is of another version.
 */
int trail_read(struct trail *trail, const char *instance, int fd);

/* Writes the event to text as the log would show it. Returns text. */
const char *trail_text(const struct status_event *event, char text[EVENT_TEXT_MAX]);

/* Returns a new JSON object with all fields of the event that are set. NULL: no memory. */
json_t *trail_json(const struct status_event *event);

#endif
