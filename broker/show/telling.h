/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telling.h - an answer of why.h while it is made: the records in order, what /proc says of the processes, the line that is being put
 * together, and the words for a process and for what it waits for.
 *
 * A line is printable ASCII, whatever stands in a record, and has an end: what does not fit is left out. Owns what it looks up.
 */
#ifndef GPUB_SHOW_TELLING_H
#define GPUB_SHOW_TELLING_H

#include "common/handle.h"
#include "libbroker/device/device.h"
#include "look.h"
#include "why-graph.h"
#include "why-question.h"

#define TELL_TEXT_MAX 4096
#define TELL_HOPS_MAX 32 /* from process to process in one line */
#define TELL_LEAVING  4  /* buffers of one device, holders of one buffer in one line */

#define NUMBER(value) ((unsigned long long)(value))

/* What a device's memory is taken by. */
struct taken {
	uint64_t                    bytes;
	size_t                      count;
	const struct status_buffer *largest;
	size_t                      leaving_count;
	const struct status_buffer *leaving[TELL_LEAVING]; /* the first ones that drain */
};

struct telling {
	const struct why    *why;
	struct views         views;
	struct why_graph     graph;
	struct telling_node *nodes; /* of each session */
	char                 text[TELL_TEXT_MAX];
	size_t               length;
	struct why_found     found;
	unsigned             hops;
	uint64_t             followed[TELL_HOPS_MAX]; /* sessions */
	size_t               steps; /* that are left for all lines together: records may be made so that there is no end */
	struct taken         taken[DEVICE_MAX];
};

/* False: no memory; telling_end() is fine then, too. */
bool telling_begin(struct telling *telling, const struct why *why);
void telling_end(struct telling *telling);

/* Adds to the line. */
void tell(struct telling *telling, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Says the line, and begins the next one. */
void tell_line(struct telling *telling);

void tell_age(struct telling *telling, uint64_t since);
void tell_process(struct telling *telling, const struct status_session *session);
void tell_waiter(struct telling *telling, uint64_t session);
void tell_wait(struct telling *telling, const union status_record *wait);

/* A command with a process's number, between before and after; nothing where that number means nothing here. */
void tell_command(struct telling *telling, const char *before, uint64_t pid, const char *after);

/* What /proc says of it; zeros where nobody can tell. */
struct process_seen telling_look(struct telling *telling, const struct status_session *session);

bool telling_named(const struct telling *telling, size_t node); /* some line names it */

/* What there is by that number, or NULL. */
const struct status_session *telling_session(const struct telling *telling, uint64_t id);
const struct status_buffer *telling_buffer(const struct telling *telling, uint64_t generation);

/* Of a TRACKED_WAIT or a TRACKED_REQUEST. */
uint64_t wait_session_of(const union status_record *wait);
uint64_t wait_since_of(const union status_record *wait);

#endif
