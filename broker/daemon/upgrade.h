/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade.h - brokerd goes on as the program that is installed now, in the same process, and nobody notices more than
 * the pause.
 *
 * SIGUSR2 asks for it. A child executes the new program first, which looks whether it could go on (upgrade_check()).
 * Only then the broker is ended, as by a kill, and the keeper executes the new program, with all descriptors and the
 * owner. If the brokers of the new program do not come up, it executes the program of before in its turn. Owns the
 * descriptors of both programs, and the child. Never decides what of the broker goes on: that is the takeover's.
 */
#ifndef GPUB_BROKERD_UPGRADE_H
#define GPUB_BROKERD_UPGRADE_H

#include <stdbool.h>
#include <sys/types.h>

#include "broker/keeper/handover.h"

struct event_base;
struct event;

struct upgrade {
	char         **argv;
	struct handover from;  /* what the program before has passed on; empty: there was none */
	int            own;    /* O_PATH descriptor of this program's file; -1: it cannot be opened */
	int            before; /* of the program before, until a broker of this one is READY; -1: there is none */
	int            next;   /* of the program that is installed now, from the request on; -1: none was made */
	pid_t          trial;  /* the child that executes it; 0: none runs */
	struct event  *late;   /* timer: the child takes too long */
	/* Adds what the next program needs. Returns false, and adds nothing, if this program's keeper has not begun. */
	bool         (*pack)(void *context, struct handover *handover);
	/* Ends the broker; upgrade_exec() follows. Returns 0, or a negative errno with the error message set. */
	int          (*end_broker)(void *context);
	void          *context;
};

/*
 * Takes what the program before this one has passed on. The other members are the caller's, set before. Returns 1, 0 if
 * this is a start like any other, or a negative errno with the error message set.
 */
int upgrade_open(struct upgrade *upgrade);
void upgrade_close(struct upgrade *upgrade);

/* Whether this process has only to tell, by its exit status, whether this program could go on. */
bool upgrade_is_trial(const struct upgrade *upgrade);

/*
 * Checks that this program works with the owner and the ledger that were passed on. Returns 0, or a negative errno with
 * the error message set.
 */
int upgrade_check(const struct upgrade *upgrade);

/* A descriptor that the keeper of the program before had under the key, and has; -1: it had none. */
int upgrade_kept(const struct upgrade *upgrade, uint64_t key);

/* SIGUSR2: tries the program that is installed now. Does nothing while one is tried. */
void upgrade_ask(struct upgrade *upgrade, struct event_base *base);

/* A child has been reaped. Does nothing if it is another one than that of upgrade_ask(). */
void upgrade_reaped(struct upgrade *upgrade, pid_t pid, int status);

/* The broker is over: executes the program that was tried. Returns only if that fails, which the log says. */
void upgrade_exec(struct upgrade *upgrade);

/* Executes the program of before. Returns only if there is none, or if that fails, which the log says. */
void upgrade_back(struct upgrade *upgrade);

/* A broker of this program is READY: it is the one to go back to from now on. */
void upgrade_ready(struct upgrade *upgrade);

#endif
