/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper-harness.h - a keeper in the test's process, whose brokers are a function of the test.
 *
 * Test and brokers speak through memory that they share. Each test begins with a keeper that has not begun, and ends
 * with as many descriptors as before and without a child.
 */
#ifndef GPUB_TESTS_KEEPER_HARNESS_H
#define GPUB_TESTS_KEEPER_HARNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <event2/event.h>

#include "broker/keeper/keeper.h"
#include "broker/keeper/line.h"
#include "common/now.h"

#define KEYS 640

struct shared {
	_Atomic int      failed;     /* line of the first CHECK() that failed in a broker */
	_Atomic unsigned began;      /* number of the last broker */
	_Atomic unsigned ready;      /* number of the last broker that went on */
	_Atomic pid_t    pid;        /* of the last broker */
	_Atomic unsigned last;       /* enum policy_how that the last broker was told */
	_Atomic bool     cold;       /* the last broker was told this */
	_Atomic uint64_t word[4];    /* as the test likes */
	_Atomic uint64_t have[KEYS]; /* version of the descriptor that is kept under a key; 0: none */
	struct {
		_Atomic unsigned key;
		_Atomic uint64_t version;
	} op[16];                    /* the changes of `have` that are being sent */
	_Atomic unsigned ops;        /* their number */
};

extern struct keeper keeper;
extern struct event_base *base;
extern struct shared *shared;
extern struct line line;           /* of the broker; for its base, which is broker_base */
extern struct event_base *broker_base;
extern unsigned descriptors_before; /* number of this process's descriptors when the test began */
extern int ended;                  /* status of ended(); -1: it was not called */
extern unsigned look_ms, looks_most; /* the watchdog's; 0: as in a program */

int harness_setup(void **state);
int harness_teardown(void **state);

/* Begins the keeper. */
void harness_start(int (*broker)(void *context, struct keeper_end *end));

/* In a broker: notes what it was told, and opens its line. */
void harness_begin(const struct keeper_end *end);

/* In a broker: says READY, and waits for signals for ever. */
_Noreturn void harness_serve(void);

/* In a broker: fails the test unless it is true. */
#define CHECK(condition) harness_check((condition), __LINE__)
void harness_check(bool condition, int where);

/* A pass of the loop; it waits a few milliseconds at most. */
void harness_pass(void);

/* Runs the loop until the condition is true, for 20 s at most. Is the condition. */
#define SOON(condition)                                                                                              \
	({                                                                                                           \
		uint64_t until_ = now_ms(CLOCK_MONOTONIC) + 20000;                                                   \
		while (!(condition) && !shared->failed && now_ms(CLOCK_MONOTONIC) < until_)                          \
			harness_pass();                                                                              \
		(bool)(condition);                                                                                   \
	})

/* Waits until a broker has set shared->word[index], for 20 s at most. The keeper reads and notices nothing then. */
void harness_wait_without_loop(unsigned index);

/* Makes a descriptor that says what it is, and asks a descriptor for that. */
int harness_file(uint64_t key, uint64_t version);
bool harness_is(int fd, uint64_t key, uint64_t version);

unsigned harness_descriptors(void); /* returns the number of this process's descriptors */

#endif
