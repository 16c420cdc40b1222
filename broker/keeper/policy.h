/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h - what follows the end of a broker: the next one, a cold start, or the end of the program.
 *
 * A broker is READY when it has taken over what the last one left. One that fails before, because of what it inherited
 * or how it was built, would fail for ever. So three failures in a row lead to a cold start, in which brokers begin
 * with nothing, and three more to the program's end. While the program is to end, only a broker that SIGKILL has ended
 * has a successor, which then ends in its turn. A broker that crashes soon after READY, over and over, is started again
 * all the time, after longer and longer pauses: what it keeps for its clients is worth more than an end.
 *
 * Pure: owns its numbers alone, makes no call, reads no clock.
 */
#ifndef GPUB_KEEPER_POLICY_H
#define GPUB_KEEPER_POLICY_H

#include <stdbool.h>

#define POLICY_FAILURES 3   /* in a row without READY, before a cold start, and before the end after one */
#define POLICY_KILLS    100 /* SIGKILLs in a row without READY that count as one failure */
#define POLICY_QUICK_MS 10000 /* a broker that was READY and lives no longer has crashed soon */
#define POLICY_QUICK    10    /* such crashes in a row without a pause before the next broker */
#define POLICY_PAUSE_MS 100   /* the first pause; it doubles */
#define POLICY_PAUSE_MAX_MS 10000

/* How the last broker ended, for the next one. The status file has the numbers, so they never change. */
enum policy_how {
	POLICY_FIRST,    /* there was none */
	POLICY_KILLED,   /* by SIGKILL: nothing that the broker did has ended it */
	POLICY_CRASHED,  /* at what it was doing */
	POLICY_WATCHDOG, /* the watchdog ended it, because its loop did not go on */
	POLICY_UPGRADED, /* its keeper ended it, to go on with another version of the program */
};

/* Why a broker ended. */
enum policy_cause {
	POLICY_ITSELF, /* as its status says */
	POLICY_HUNG,   /* the watchdog ended it */
	POLICY_PACKET, /* the keeper ended it, because it sent what is no request */
};

struct policy_end {
	int               status;   /* of wait(2) */
	enum policy_cause cause;
	bool              stopping; /* the program was asked to end */
	unsigned          lived_ms; /* since its start */
};

enum policy_step {
	POLICY_NEXT, /* the next broker starts with what is kept */
	POLICY_COLD, /* the next broker starts with nothing */
	POLICY_END   /* the program ends */
};

struct policy_decision {
	enum policy_step step;
	int              status; /* exit status of the program; valid if step is POLICY_END */
	unsigned         pause_ms; /* until the next broker starts; 0: at once */
};

/* All zeroes at first. */
struct policy {
	unsigned        failures; /* in a row without READY */
	unsigned        kills;    /* SIGKILLs in a row without READY, less those that were counted as a failure */
	unsigned        quick;    /* brokers in a row that were READY and have crashed after a short life */
	bool            cold;     /* the brokers since a cold start have not been READY */
	bool            ready;    /* the broker has said READY */
	enum policy_how how;
};

void policy_ready(struct policy *policy); /* the broker has said READY */

/* A broker has ended. */
struct policy_decision policy_decide(struct policy *policy, const struct policy_end *end);

#endif
