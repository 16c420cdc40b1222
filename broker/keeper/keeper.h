/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.h - the first process of a program, which starts the broker, and starts the next one when a broker dies.
 *
 * The keeper forks each broker. Thus a broker inherits the descriptors that those before it had kept, and the table
 * of them. From then on both share a line (line.h) and a small mapping with a mutex (alive.h) and the marks of the
 * loop (watchdog.h). When a broker is dead the keeper reads its line to the end, and only then forks the next one. The
 * keeper forks the owner, too, so an owner outlives brokers. What follows an end is decided in policy.h.
 *
 * Has no device, reads no client's message, knows no name, decides nothing about memory. A broker that sends what is
 * no request is ended by SIGKILL, which counts as its crash. Forks on one thread, that of keeper_init() and the loop.
 * Owns its children. The program around it keeps three rules:
 * - It starts no device in this process.
 * - The thread that forks lives as long as the program: the children end with that thread.
 * - It reaps no child that it does not know: waitpid(-1) is not for it.
 */
#ifndef GPUB_KEEPER_KEEPER_H
#define GPUB_KEEPER_KEEPER_H

#include <pthread.h>
#include <stdint.h>

#include "alive.h"
#include "handover.h"
#include "kept.h"
#include "owners.h"
#include "policy.h"
#include "watchdog.h"

struct keeper_counts {
	unsigned cold_starts;
	unsigned packets;       /* number of brokers that were ended because of what they sent */
	unsigned hung;          /* number of brokers that the watchdog ended */
	unsigned lost;          /* number of PUTs that had no effect, for want of memory or descriptors */
};

/* What a broker begins with. The line is the broker's, and closed at its end; all else belongs to the keeper's copy. */
struct keeper_end {
	int                    line;   /* for line_open() */
	unsigned               number; /* of this broker; the first is 1 */
	struct kept           *kept;   /* what the brokers before it left; empty at a cold start */
	struct watchdog_marks *marks;  /* of the loop */
	const _Atomic unsigned *stops; /* number of calls of keeper_stop() */
	unsigned               stops_seen; /* by keeper_asks_for_end() */
	enum policy_how        last;   /* how the last broker ended */
	bool                   cold;   /* the program has had brokers, and this one begins with nothing */
	struct keeper_counts   counts; /* of the keeper until now */
	uint64_t               death_ns; /* CLOCK_MONOTONIC when the last broker's end was noticed; 0: there was none */
	struct {
		pid_t    pid;    /* 0: none runs */
		unsigned number; /* number of owners that have begun; 0: there was none, and status is not valid */
		int      status; /* how the last one ended, if none runs; line_owner_ended() tells of one that runs */
	} owner;
};

/* What the keeper runs. */
struct keeper_program {
	const char *name; /* of the broker's process: 15 bytes at most */
	/*
	 * The broker: runs in a process of its own, on the thread that the keeper knows to be alive, and returns the
	 * exit status of the program. The event base of the keeper does not exist in this process; the broker makes its
	 * own. It must neither use nor free the events that the program has added to the keeper's base. All other
	 * descriptors and memory of the program are inherited, with its signal mask.
	 */
	int (*broker)(void *context, struct keeper_end *end);
	/*
	 * Called before the fork of a broker that begins with nothing, but the first one: makes what it needs. Returns
	 * 0, or a negative errno with the error message set, and then it is called again. NULL: needs nothing.
	 */
	int (*cold)(void *context);
	/* Called in the process of a forked owner: lets go of memory that no owner may have. NULL: there is none. */
	void (*owner)(void *context);
	/*
	 * Called when no other broker starts, before what is kept is closed: takes out what the program needs. NULL: it
	 * needs nothing.
	 */
	void (*ending)(void *context, struct kept *kept);
	/*
	 * Called through the loop when broker and owner have ended and no other one will start: with the status with
	 * which the program is to exit.
	 */
	void (*ended)(void *context, int status);
	/*
	 * Called when the broker that keeper_upgrade() has ended is over: executes the next version of the program with
	 * what keeper_pack() adds. If it returns, the next broker starts here. NULL: keeper_upgrade() is not called.
	 */
	void (*upgrade)(void *context);
	/*
	 * Called before a cold start, or the end of a keeper_init() that fails, closes what is kept, while no broker
	 * of this program has been READY yet: executes the previous program. Returns if there is none. NULL: there is
	 * never one.
	 */
	void (*back)(void *context);
	void (*ready)(void *context); /* called when a broker is READY. NULL: nobody wants to know */
	const struct handover *from;  /* what keeper_pack() added in the program before; NULL: there was none */
	bool     reaps;   /* keeper_reap_others() is called, also when a child of the keeper has ended */
	/*
	 * Called by keeper_reap_others() for each process that it has reaped, with its status of wait(2). Must not call
	 * that function. NULL: the program knows none of them.
	 */
	void (*reaped)(void *context, pid_t pid, int status);
	void    *context;
	unsigned look_ms; /* of the watchdog: 0 is WATCHDOG_LOOK_MS */
	unsigned looks;   /* of the watchdog: 0 is WATCHDOG_LOOKS */
};

/* In memory that keeper and broker share. */
struct keeper_shared {
	pthread_mutex_t       alive;
	struct watchdog_marks marks;
	_Atomic unsigned      stops; /* number of calls of keeper_stop() */
};

struct keeper_broker;

struct keeper {
	struct event_base    *base;
	struct keeper_program program;
	struct keeper_shared *shared; /* NULL: keeper_init() has not succeeded */
	struct kept           kept;
	struct owners         owners;
	struct alive          alive;
	struct watchdog       watchdog;
	struct policy         policy;
	struct keeper_broker *broker; /* NULL: none runs */
	struct keeper_broker *dying;  /* list of processes that end, and have not been reaped */
	struct event         *later;  /* timer: forks a broker again, or ends an owner that does not end */
	struct keeper_counts  counts;
	uint64_t              death_ns; /* CLOCK_MONOTONIC at the notice of a death; 0: a broker was READY since then */
	unsigned              number;   /* number of brokers that have begun */
	bool                  cold;     /* the next broker begins with nothing */
	bool                  begun;    /* keeper_init() has succeeded */
	bool                  served;   /* a broker of this program was READY */
	bool                  upgrading; /* upgrade() follows the broker's end */
	bool                  stopping; /* keeper_stop() was called */
	bool                  ending;   /* no other broker starts; ended() follows the owner's end */
	int                   status;   /* for ended(); valid if `ending` */
};

/*
 * Forks the first broker. Raises the limit of open files to the hard limit, for this process and those that it forks:
 * each descriptor of a broker is one of the keeper, too. *program is copied. Returns 0, or a negative errno with the
 * error message set: nothing is left then. The loop of the base does the rest. From then on the log never waits
 * (log_serving()).
 */
int keeper_init(struct keeper *keeper, struct event_base *base, const struct keeper_program *program);

/* Sends the broker a signal. Does nothing if none runs. */
void keeper_signal(const struct keeper *keeper, int signal);

/*
 * Reaps children that the keeper has not forked, as process 1 of a container and a subreaper get them, but those of
 * libraries' threads. Called after SIGCHLD.
 */
void keeper_reap_others(const struct keeper *keeper);

/*
 * Asks the broker to end by SIGTERM, again at each call; ended() follows when it has. A broker that is killed meanwhile
 * has a successor, which is asked, too; one that crashes has none.
 */
void keeper_stop(struct keeper *keeper);

/*
 * Ends the broker by SIGKILL; upgrade() follows when it is over. Returns 0; -EAGAIN: no broker is READY; -ESHUTDOWN:
 * the program is to end. With the error message set.
 */
int keeper_upgrade(struct keeper *keeper);

/* Adds what the keeper of the next program (keeper_program.from) needs. The descriptors stay the keeper's. */
void keeper_pack(struct keeper *keeper, struct handover *handover);

/*
 * In the broker, after a SIGTERM: returns whether the keeper has asked for the end since the last call. The sender of
 * the signal does not say so, because a SIGTERM that a terminal or a service manager has sent to all processes, and
 * that is pending, swallows the keeper's.
 */
bool keeper_asks_for_end(struct keeper_end *end);

/*
 * Ends broker and owner by SIGKILL if they run, waits for that, and frees all. Does not wait for brokers that have been
 * over for some time: their last closes may take long.
 */
void keeper_deinit(struct keeper *keeper);

#endif
