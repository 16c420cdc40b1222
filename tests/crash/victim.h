/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim.h - a puppet that may die, stop or end at any moment, which its driver notices.
 *
 * There is one at a time. Nothing here hangs: a victim that does neither answer nor die nor stop ends the test. Owns
 * the process, and the child that it may leave stopped.
 */
#ifndef GPUB_TESTS_CRASH_VICTIM_H
#define GPUB_TESTS_CRASH_VICTIM_H

#include "tests/integration/harness.h"

enum fate {
	VICTIM_LIVES,
	VICTIM_STOPPED,
	VICTIM_CHILD_STOPPED, /* it lives, and waits for a child that is stopped */
	VICTIM_KILLED,
	VICTIM_EXITED, /* at a crash point, with CRASH_EXIT */
	VICTIM_ENDED,  /* by itself, as it should */
	VICTIM_FAILED  /* by itself, as it should not */
};

/*
 * True: the owner may be killed, and memory ends with it, so buffers may lose their names. Then a step may have another
 * result than the expected one.
 */
extern bool names_may_go;
extern bool name_was_lost; /* a step of the play had such a result */

/* Whether this result in place of the expected one comes from the loss of a name, and notes that. */
bool name_is_lost(int result, int expected);

/* Called every now and then while a step of the victim is awaited. NULL: nothing is done. */
extern void (*victim_relief)(void);

extern struct puppet victim;
extern pid_t victim_child; /* set with VICTIM_CHILD_STOPPED */

/* Once, after the broker's start: from then on a child's death or stop is noticed at once. */
void victim_prepare(void);

/* Forks one that does not connect yet, with GPUB_CRASH and GPUB_HOST_FAIL as given (NULL: without). */
void victim_start(const struct broker_process *broker, const char *crash, const char *fail);

enum fate victim_fate(void);

/* Whether it, or a child of it, came to a crash point that did something. */
bool victim_was_caught(void);

/*
 * The victim does a step, whose result must be the expected one. False: it did not finish it, for it is dead or stopped
 * or its child is; or a name was lost.
 */
bool victim_does(int expected, struct order order);

/* The same in two halves, for a step that blocks. */
bool victim_begins(struct order order);
bool victim_finishes(int expected);

/* Whether the step that it began has its result, or it is not alive. */
bool victim_answered(void);

/* Lets one that is stopped go on, to the end of the step that it is in. */
void victim_continue(void);

/* Has one that lives disconnect and end. One that is stopped, or its child, stays. */
void victim_end(void);

/* Kills what is left of it: the victim, and, where kill_child says so, its stopped child. */
void victim_kill(bool kill_child);

/* Stops the dead victim's pid, which until then names nobody else. */
void victim_bury(void);

/* A step: forks a child that ends at once, and waits for it. Its result is what became of the child. */
step do_fork;

#endif
