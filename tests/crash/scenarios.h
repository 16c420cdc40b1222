/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenarios.h - what a victim and an other client do with each other, each from connect to disconnect.
 *
 * A scenario is a function of the driver. It ends early when the victim is gone or stopped, and the other never suffers
 * from that: a step of its that fails or hangs ends the test. Owns the table of scenarios and no process.
 */
#ifndef GPUB_TESTS_CRASH_SCENARIOS_H
#define GPUB_TESTS_CRASH_SCENARIOS_H

#include "victim.h"

struct scenario {
	const char *name;
	const char *fail;    /* the victim's GPUB_HOST_FAIL, or NULL */
	void (*play)(void);  /* up to the victim's disconnect, which the caller does */
	void (*after)(void); /* NULL, or what the other finds when the victim is gone for good */
	/* of the other, so that a victim that was stopped and goes on need not wait; run NULL: none */
	struct order relief;
};

#define SCENARIOS 17

extern const struct scenario scenarios[SCENARIOS];
extern struct broker_process broker;
extern struct puppet other;

/* The other, connected and with a stream. */
void other_start(void);

/* Has the other do a step that may be refused. */
void other_tries(struct order order);

/* Gives back all that the other holds. */
void other_lets_go(void);

/* What the other can always do, whoever is stopped. */
void other_goes_on(void);

#endif
