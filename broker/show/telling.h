/* SPDX-License-Identifier: Apache-2.0 */
/*
 * telling.h - the state of why_explain(): indexes of the records, the states of processes, the line of text that is
 * being built, and functions that add processes and waits to the line.
 *
 * A line is printable ASCII, whatever a record contains, and text that does not fit is left out. Owns the indexes,
 * the graph and the states of processes.
 */
#ifndef GPUB_SHOW_TELLING_H
#define GPUB_SHOW_TELLING_H

#include "common/handle.h"
#include "libbroker/device/device.h"
#include "look.h"
#include "why-graph.h"
#include "why-question.h"

#define TELL_TEXT_MAX 4096
#define TELL_HOPS_MAX 32 /* largest number of processes that one line follows, from one to the next */
#define TELL_LEAVING  4  /* largest number of draining buffers of a device, and of holders of a buffer, in one line */

#define NUMBER(value) ((unsigned long long)(value))

/* The buffers that take memory of one device. */
struct taken {
	uint64_t                    bytes;                 /* bytes of memory of all live buffers */
	size_t                      count;                 /* number of live buffers */
	const struct status_buffer *largest;               /* the live buffer with most memory; NULL: none */
	size_t                      leaving_count;         /* number of buffers that drain or are being freed */
	/* the first TELL_LEAVING of the buffers that leaving_count counts */
	const struct status_buffer *leaving[TELL_LEAVING];
};

struct telling {
	const struct why    *why;
	struct views         views;
	struct why_graph     graph;
	/* array by the index of a session in the view SESSIONS (why-graph.h): what is known of the session's process */
	struct telling_node *nodes;
	char                 text[TELL_TEXT_MAX]; /* the line that is being built */
	size_t               length;              /* number of bytes in `text`, without the NUL */
	struct why_found     found;
	unsigned             hops; /* number of entries in `followed` */
	uint64_t             followed[TELL_HOPS_MAX]; /* ids of the sessions that the line has followed, in order */
	/* number of steps that are left for all lines; limited, because forged records might take very long */
	size_t               steps;
	/* what takes memory of each device, by the broker's index of the device */
	struct taken         taken[DEVICE_MAX];
};

/*
 * Makes the indexes and the graph of why->records. Returns false if there is no memory; the caller calls telling_end()
 * in either case.
 */
bool telling_begin(struct telling *telling, const struct why *why);
void telling_end(struct telling *telling);

/* Adds formatted text to the line. */
void tell(struct telling *telling, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Passes the line to why->say(), and begins a new line. */
void tell_line(struct telling *telling);

/* adds the time since `since`, in milliseconds since 1970: "12 s: " */
void tell_age(struct telling *telling, uint64_t since);
/* adds the name of a session's process */
void tell_process(struct telling *telling, const struct status_session *session);
/* adds the name of the process that waits; session: its session's id */
void tell_waiter(struct telling *telling, uint64_t session);
void tell_wait(struct telling *telling, const union status_record *wait); /* adds what the wait is for */

/*
 * Adds a command for the reader: the text `before`, the pid, the text `after`. Adds nothing if the broker is
 * dead, or pids of the records are not valid for this reader.
 */
void tell_command(struct telling *telling, const char *before, uint64_t pid, const char *after);

/* Returns what /proc shows of the session's process, which is looked up once; all zeroes if that is not known. */
struct process_seen telling_look(struct telling *telling, const struct status_session *session);

bool telling_named(const struct telling *telling, size_t node); /* true: a line has named this session's process */

/* Return the record of the session with the id, and of the buffer with the generation, or NULL. */
const struct status_session *telling_session(const struct telling *telling, uint64_t id);
const struct status_buffer *telling_buffer(const struct telling *telling, uint64_t generation);

/*
 * Returns what an order to the device waits for if no process owns the device memory, as "the next owner ..."; NULL:
 * one does, or the broker is dead or does not tell.
 */
const char *telling_no_owner(const struct telling *telling);

/* Return the id of the session, and the beginning in milliseconds since 1970, of a TRACKED_WAIT or TRACKED_REQUEST. */
uint64_t wait_session_of(const union status_record *wait);
uint64_t wait_since_of(const union status_record *wait);

#endif
