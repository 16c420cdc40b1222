/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upgrade.h - brokerd executes the program that is installed now in its own place, and clients notice no more than a
 * pause.
 *
 * SIGUSR2 asks for it. A child executes the new program first, which looks whether it could go on (upgrade_check()).
 * Only then the broker is ended, as by a kill, and the keeper executes the new program, with all descriptors and the
 * owner. If the brokers of the new program do not come up, that executes the previous program in its turn. Owns the
 * descriptors of all these programs, and the child. Never decides what of the broker goes on: that is the takeover's.
 */
#ifndef GPUB_BROKERD_UPGRADE_H
#define GPUB_BROKERD_UPGRADE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "broker/keeper/handover.h"

struct event_base;
struct event;

#define UPGRADE_YES 86 /* exit status of a trial that could go on; a program that knows nothing of it exits otherwise */

struct upgrade {
	char         **argv;
	struct handover from;  /* what the previous program has passed on; empty: there was none */
	char           path[PATH_MAX]; /* of this program's file at its start; empty: it is not known */
	int            before; /* of the previous program's file, until a broker is READY; -1: there is none */
	int            next;   /* of the file that the trial executes, or has executed; -1: there was no trial */
	pid_t          trial;  /* the child that executes it; 0: none runs */
	struct event  *late;   /* timer: ends a trial after TRIAL_SECONDS */
	bool           asked;  /* there was a SIGUSR2, and no trial since */
	bool           ready;  /* a broker is READY, as far as is known */
	bool           ending; /* the broker is being ended; upgrade_exec() follows */
	/* Adds what the next program needs. Returns false, and adds nothing, if this program's keeper has not begun. */
	bool         (*pack)(void *context, struct handover *handover);
	/*
	 * Ends the broker; upgrade_exec() follows. Returns 0; -EAGAIN: no broker is READY now; or another negative
	 * errno. The error message is set.
	 */
	int          (*end_broker)(void *context);
	void          *context;
	struct event_base *base;
};

/*
 * Takes what the previous program has passed on. Needs argv, pack, end_broker and context. Returns 1, 0 if nothing was
 * passed on, or a negative errno with the error message set.
 */
int upgrade_open(struct upgrade *upgrade);
void upgrade_close(struct upgrade *upgrade);

/* Whether this process has only to tell whether this program could go on: it exits with UPGRADE_YES if so. */
bool upgrade_is_trial(const struct upgrade *upgrade);

/*
 * Checks that this program works with the owner and the ledger that were passed on, and that the socket and the board
 * are there. Returns 0, or a negative errno with the error message set.
 */
int upgrade_check(const struct upgrade *upgrade);

/* Returns a descriptor that the previous program's keeper had under the key, as this one's has; -1: it had none. */
int upgrade_kept(const struct upgrade *upgrade, uint64_t key);

/* SIGUSR2 came. The trial begins at once, or when the one under way has ended or a broker is READY. */
void upgrade_ask(struct upgrade *upgrade, struct event_base *base);

/* A broker is READY. */
void upgrade_ready(struct upgrade *upgrade);

/* A child has been reaped. Does nothing if it is not the trial. */
void upgrade_reaped(struct upgrade *upgrade, pid_t pid, int status);

/* Ends the trial that runs. No other one begins. Called before the event base is freed. */
void upgrade_stop(struct upgrade *upgrade);

/* The broker is over: executes the program that was tried. Returns only if that fails, which the log says. */
void upgrade_exec(struct upgrade *upgrade);

/*
 * Executes the previous program, with all that was passed on. Called before any of that is closed. Returns only if
 * there is none, or if that fails, which the log says.
 */
void upgrade_back(struct upgrade *upgrade);

#endif
