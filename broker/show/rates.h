/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h - what changes from one look at a broker to the next, and how it went lately: for --watch.
 *
 * Owns a history for each rate, and for each device, session and buffer of the last look. Another broker of the same name begins
 * anew. Knows no terminal and no clock: the caller says when it looked. Figures of a file are anybody's: one that makes no sense
 * counts as no change.
 */
#ifndef GPUB_SHOW_RATES_H
#define GPUB_SHOW_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "read.h"

#define HISTORY_MAX 40 /* looks that are remembered */

/* All zeroes: nothing is known. */
struct history {
	double   values[HISTORY_MAX]; /* a ring */
	unsigned count;               /* of all that were ever added */
};

enum rate { RATE_CREATES, RATE_ACQUIRES, RATE_BYTES, RATES };

struct followed;

/* All zeroes to begin with. */
struct rates {
	uint64_t         pid, start_time; /* of the broker */
	uint64_t         counted[RATES];
	double           looked; /* when, in seconds */
	bool             known;  /* the two above are a look's */
	struct history   history[RATES]; /* by the second */
	struct followed *followed;
};

/*
 * Takes a look, at that second of a clock that only goes on; and gives each device, session and buffer of the status a "history" of the
 * memory that it has in use, that it keeps, and of how many hold it: a string of levels, "0" to "7", width of them at most. A
 * device's 7 is all of its memory, any other's its own largest value.
 */
void rates_look(struct rates *rates, struct shown *shown, double second, size_t width);

void rates_free(struct rates *rates);

/* The last one by the second; 0 where nothing is known. */
double rates_now(const struct rates *rates, enum rate rate);

/*
 * Levels as above, the oldest first; 7 is the largest value of them, or most where that is larger. Returns text, which has room
 * for width and a zero.
 */
char *history_levels(const struct history *history, double most, char *text, size_t width);

#endif
