/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h - rates of change between looks at a broker, and histories of recent values, for --watch.
 *
 * Owns a history for each rate, and for each device, session and buffer of the last look. Histories begin anew for
 * another broker of the same name. Knows no terminal and no clock: the caller passes the time. A file's counters are
 * claims of its owner: a counter that decreases counts as unchanged.
 */
#ifndef GPUB_SHOW_RATES_H
#define GPUB_SHOW_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read.h"

#define HISTORY_MAX 40 /* number of values that a history keeps */

/* The last values of one quantity. All zeroes: empty. */
struct history {
	double   values[HISTORY_MAX]; /* a ring: value number i is at i % HISTORY_MAX */
	unsigned count;               /* number of all values that were ever added */
};

enum rate { RATE_CREATES, RATE_ACQUIRES, RATE_BYTES, RATES };

struct followed;

/* The rates and histories of one broker. All zeroes at the beginning. */
struct rates {
	uint64_t         pid, start_time; /* pid and start time of the broker */
	uint64_t         counted[RATES];  /* values of the counters at the last look */
	double           looked;          /* time of the last look, in seconds */
	bool             known;           /* `counted` and `looked` are valid */
	struct history   history[RATES];  /* histories of the rates, in units per second */
	struct followed *followed; /* hash table of the histories of devices, sessions and buffers of the last look */
};

/*
 * Adds a look at the time `second` of a monotonic clock, in seconds. Sets "history" in the JSON object of each device
 * (of the memory in use), session (of the memory that its mappings keep) and buffer (of the number of grants): a string
 * of at most `width` levels from "0" to "7". Level 7 is all memory for a device, and the largest value of the history
 * otherwise.
 */
void rates_look(struct rates *rates, struct shown *shown, double second, size_t width);

void rates_free(struct rates *rates);

/* Returns the latest value of a rate, per second; 0 if there is none. */
double rates_now(const struct rates *rates, enum rate rate);

/*
 * Writes the last `width` values as levels to text, the oldest first: "0" for 0, and "1" to "7" in proportion to the
 * largest of these values, or to `most` if that is larger. text has room for width + 1 bytes. Returns text.
 */
char *history_levels(const struct history *history, double most, char *text, size_t width);

#endif
