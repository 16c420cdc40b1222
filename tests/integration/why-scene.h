/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why-scene.h - for the tests of broker-status --why: a broker with three clients that have ranks, and what is said of
 * them.
 *
 * How long something has lasted differs from run to run and is cut off; all else is compared. Owns the broker and the
 * clients.
 */
#ifndef GPUB_TESTS_WHY_SCENE_H
#define GPUB_TESTS_WHY_SCENE_H

#include "harness.h"

extern struct broker_process broker;
extern struct puppet a, b, c;
extern char answer[8192];

/* The exit status; what was said is in answer. */
int why(const char *about);

/* Whether that is the exit status, and the answer to a letter. */
bool says(int code, const char *about, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A client of that rank, with a stream. */
void start(struct puppet *puppet, unsigned rank);

/* Three of them, each with a lease of each of three buffers with timelines; each has signalled once on its own. */
void begin(void);
void end(void);

/* There are that many requests that wait in the broker. */
bool waits_are(int64_t count);

step do_drain;

#endif
