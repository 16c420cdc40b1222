/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race.h - two sides that do one thing each at the same moment, millions of times, and a count of what came of it.
 *
 * The way of litmus7: an array of cells, each with all that one round needs. A pass resets them (one side), has both
 * sides read them, so that the lines lie shared in both caches and a store has to wait for its line, runs a round on
 * each (both sides meet, each delays a random moment, each acts), and judges them all (one side again). The first
 * side is this thread, the second another thread or a forked process. Knows nothing of what is raced; prints the TAP.
 */
#ifndef LITMUS_RACE_H
#define LITMUS_RACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CELLS 256u

/* What a round can come to. The first two must both be seen, or the race was none. */
enum outcome { OUTCOME_ONE, OUTCOME_TWO, OUTCOME_OTHER, OUTCOME_FORBIDDEN, OUTCOMES };

struct race {
	const char  *text;
	const char  *seen[OUTCOME_FORBIDDEN]; /* what the outcomes are called; NULL: never happens */
	bool         process;                 /* the second side is a process */
	bool         control;                 /* a wrong version: what is forbidden must be seen */
	unsigned     delay;                   /* most steps of a delay, a power of two less one */
	void         (*reset)(unsigned cell);
	void         (*touch)(unsigned cell);
	void         (*first)(unsigned cell);
	void         (*second)(unsigned cell);
	enum outcome (*judge)(unsigned cell);
};

/* Rounds of each race, or 0: a second or so of each. */
void race_begin(uint64_t rounds, size_t races);

void race_run(const struct race *race);

/* The program's exit status. */
int race_end(void);

/* Zeroed memory that a forked process shares. Ends the program where there is none. */
void *race_shared(size_t size);

/* A random number of the calling side. */
uint32_t race_random(void);

#endif
