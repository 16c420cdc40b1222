/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-kills.h - what the parts of the program broker-kills share.
 *
 *     broker-kills.c          the processes: director, workers, killer
 *     broker-kills-victim.c   processes that are killed or cut off, and tools that are run
 *     broker-kills-note.c     the memory that all processes share: calls, failures, times, kills
 *     broker-kills-hand.c     a hand: one thread that calls the library, with its client, stream and host memory
 *     broker-kills-own.c      deeds on buffers that no other hand changes: each result is exact
 *     broker-kills-offers.c   deeds of one hand, the host, with up to three others, its guests: each result is exact
 *     broker-kills-arena.c    deeds on names for which all hands compete
 *     broker-kills-history.c  whether the results of those calls can have come from one order of the calls
 */
#ifndef GPUB_TESTS_BROKER_KILLS_H
#define GPUB_TESTS_BROKER_KILLS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "gpubroker.h"

#define WORKERS     8
#define THREADED    2 /* workers that have THREADS threads and one client for all of them; the others have one thread */
#define THREADS     3
#define HANDS       (WORKERS + THREADED * (THREADS - 1))
#define OWNS        5             /* buffers of each hand at most */
#define SMALL       60000u        /* bytes: shares an allocation with others */
#define LARGE       (4u << 20)    /* bytes: a whole number of granules on each kind of device */
#define GUESTS      3
#define ARENAS      2
#define ARENA_NAMES 3
#define HISTORY     8192u         /* calls of an arena in a round at most */
#define UNDER_MAX   65536u        /* calls that were under way at a kill */
#define PAGES_KEPT  8             /* pages of timelines that a process has mapped after a disconnect at most */
#define PATIENCE_MS 60000         /* a wait that takes longer has failed */

/* The kinds of call that are counted and timed. true: such a call may wait for another process. */
#define KINDS(X)                                                                                                       \
	X(ACQUIRE, "acquire", false) X(ACQUIRE_WAIT, "acquire, waits", true) X(ACQUIRE_MANY, "acquire_many", false)    \
	X(RENEW, "renew", false) X(RETURN, "return", false) X(TRIM, "trim", false) X(CREATE, "create", false)          \
	X(UNLINK, "unlink", false) X(DRAIN, "drain", true) X(RENAME, "rename", false) X(RESIZE, "resize", false)       \
	X(SEAL, "seal", false) X(CHMOD, "chmod", false) X(CHOWN, "chown", false) X(ISSUE, "ticket_issue", false)       \
	X(REDEEM, "redeem", false) X(SIGNAL, "signal_on", false) X(WAIT_ON, "wait_on", false)                          \
	X(TIMELINE, "timeline", false) X(TIMELINE_WAIT, "timeline_wait", true) X(NEWER, "wait_newer", true)            \
	X(STAT, "stat", false) X(LIST, "list", false) X(CONNECT, "connect", false) X(DISCONNECT, "disconnect", false)  \
	X(COPY, "copy, sync", true) X(LOCAL, "local", false) X(TOOL, "broker-ctl", true)

#define KIND_ENUM(name, text, waits) CALL_##name,
enum call { KINDS(KIND_ENUM) CALLS };

/* ---- the shared memory ---- */

/* What one call on an arena's names was answered. Times are ns of CLOCK_MONOTONIC. */
enum deed { DID_CREATE, DID_UNLINK, DID_RENAME, DID_FIND, DID_MISS, DID_OLD, DID_STALE };
struct event {
	uint8_t  deed;
	uint8_t  name, to; /* indices of names; `to` in a rename only */
	bool     replace;  /* a rename with GPUB_REPLACE */
	int32_t  result;   /* of a create, an unlink and a rename */
	uint64_t size;     /* that was created or found; all buffers of a round have different ones */
	/* DID_FIND: that was found. DID_OLD: the name has no newer one. DID_STALE: the name has another one, or none */
	uint64_t generation;
	uint64_t from, until;
};
struct history {
	_Atomic uint32_t count, ids;
	struct event events[HISTORY];
};

enum offer_kind {
	OFFER_ONCE,     /* guests compete for a ticket that is good once */
	OFFER_MANY,     /* guests redeem a ticket that is good many times */
	OFFER_LATER,    /* guests wait for a name before it is created */
	OFFER_DRAIN,    /* guests hold a buffer that is drained */
	OFFER_TIMELINE, /* guests read behind signals, and wait for one that never comes: the writer disconnects */
	OFFER_NEWER,    /* guests wait for a newer generation */
	OFFER_SEAL,     /* guests can write a buffer that is to be sealed */
	OFFER_VICTIM,   /* guests wait for a signal of a process that is killed */
	OFFER_KINDS
};
/* What a host offers its guests. The guests change the atomic members alone; others are constant for them. */
struct offer {
	_Atomic uint32_t state;   /* see broker-kills-offers.c */
	_Atomic uint32_t step;    /* how far the host is */
	_Atomic uint32_t arrived; /* number of guests that are ready for the host's next step */
	_Atomic uint32_t finished; /* number of guests that have finished */
	_Atomic uint32_t winners; /* OFFER_ONCE: number of guests that got the buffer */
	/* OFFER_DRAIN: number of guests that have begun to return their lease; OFFER_SEAL: see seal_at_last() */
	_Atomic uint32_t letting;
	uint32_t kind, flags;     /* of the buffer */
	char     name[GPUB_NAME_MAX + 1], ticket[GPUB_TICKET_MAX];
	uint64_t size, stamp, generation, last; /* last: the timeline's last value */
	void    *at;              /* address in the host's process */
	bool     evicts;          /* OFFER_VICTIM: the victim is cut off before it is killed */
};

/* What a victim's creator and the victim tell each other. */
struct victim {
	_Atomic uint32_t ready;
	uint64_t last;
};

struct kills {
	uint64_t seed, begin, end; /* end: when the last round ends */
	uint64_t steps;            /* of each hand in all, or 0: until `end` */
	uint32_t same_address;     /* GPUB_SAME_ADDRESS, or 0: no buffer has it */
	_Atomic uint32_t stop;     /* nothing new is begun; after a failure that makes more calls useless, 2 */
	_Atomic uint32_t barrier[4]; /* number of hands that have come there, in all rounds */
	_Atomic uint32_t released, round;
	_Atomic uint64_t round_end; /* when the hands end their round, if they do not count steps */
	_Atomic uint64_t calls[CALLS], longest[CALLS], failures, bytes, wrong, deeds, checked;
	_Atomic uint32_t kill_count, pages_kept;
	_Atomic uint32_t played[OFFER_KINDS]; /* number of offers that had guests and ended well */
	_Atomic uint64_t last_kill;
	_Atomic uint32_t under_count;
	struct { uint32_t call; uint64_t ns; } under[UNDER_MAX];
	struct offer offers[HANDS];
	struct victim victims[HANDS];
	struct history histories[ARENAS];
};

extern struct kills *kills;

/* ---- broker-kills-note.c ---- */

/* Maps the file. create: makes it first. Exits with 2 on failure. */
void note_open(const char *path, bool create);

uint64_t note_now(void);

/* Counts a call that began then and has just ended. */
void note_call(enum call call, uint64_t began);

/* Counts and prints a failure. Ends the run if there are many. */
void note_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Waits until the number is at least `least`. Returns whether it is. Returns false after PATIENCE_MS, which is a
 * failure, or when the run ends.
 */
bool note_await(_Atomic uint32_t *number, uint32_t least, const char *what);
void note_add(_Atomic uint32_t *number, uint32_t more);

/* Prints what was counted. Returns the exit status. */
int note_verdict(void);

#define CALL(kind, expression)                                                                                         \
	({                                                                                                             \
		uint64_t began_ = note_now();                                                                          \
		int result_ = (expression);                                                                            \
		note_call(CALL_##kind, began_);                                                                        \
		result_;                                                                                               \
	})

/* Makes the call, and returns whether it returned what is wanted. Else that is a failure. */
#define WANT(kind, wanted, expression)                                                                                 \
	({                                                                                                             \
		int got_ = CALL(kind, expression), wanted_ = (wanted);                                                 \
		if (got_ != wanted_)                                                                                   \
			note_failure("%s:%d: %s: expected %d, got %d: %s", __FILE_NAME__, __LINE__, #expression,       \
				     wanted_, got_, got_ ? gpub_strerror_last() : "");                                 \
		got_ == wanted_;                                                                                       \
	})

/* Whether it holds. Else that is a failure, with a text. */
#define HOLDS(condition, ...)                                                                                          \
	({                                                                                                             \
		bool holds_ = (condition);                                                                             \
		if (!holds_)                                                                                           \
			note_failure(__VA_ARGS__);                                                                     \
		holds_;                                                                                                \
	})

/* ---- broker-kills-hand.c ---- */

/* A buffer that only this hand changes. */
struct own {
	char     name[GPUB_NAME_MAX + 1];
	bool     there, sealed;
	bool     changed; /* was renamed or resized */
	bool     ended;   /* the session that wrote the timeline has ended */
	uint32_t flags, mode;
	uint64_t size, reserve, written; /* written: bytes that have the pattern; the others are zero */
	uint64_t stamp;                  /* names buffer, generation and fill: decides the pattern */
	uint64_t timeline, generation;
	unsigned growths;
	gpub_layout layout;
	gpub_lease old;                  /* a returned lease; old.client is NULL if there is none */
	uint64_t old_generation, old_deed; /* what old's buffer had; hand.deeds at its return */
};

struct hand {
	unsigned number, worker;
	bool     alone;       /* this thread alone uses the client */
	bool     closer;      /* the client has GPUB_BACKGROUND_CLOSE */
	gpub_client **client; /* of the worker */
	void    *stream;
	uint64_t random, serial, steps;
	uint64_t deeds;         /* number of deeds on own buffers, those of a host that waits for guests among them */
	uint8_t *host, *wanted; /* LARGE bytes each */
	int      descriptors;   /* number of open ones while there is no client */
	unsigned pages;         /* number of mapped ones of timelines after the last disconnect */
	struct own owns[OWNS];
};

uint64_t hand_random(struct hand *hand, uint64_t below);
bool hand_one_in(struct hand *hand, uint64_t count);

/* A new name of this hand, which begins with "h<number>/". */
void hand_name(struct hand *hand, const char *what, char *name);

/* The stamp of a buffer's bytes. */
uint64_t hand_stamp(const char *name, uint64_t generation, uint64_t fill);

/* Connects and makes the stream; false on failure. The reverse checks that nothing is left of the connection. */
bool hand_connect(struct hand *hand);
void hand_disconnect(struct hand *hand);

bool hand_write(struct hand *hand, const gpub_lease *lease, uint64_t from, uint64_t size, uint64_t stamp);
/* Checks bytes: up to `written` the stamp's, behind them zero. */
bool hand_check(struct hand *hand, const gpub_lease *lease, uint64_t written, uint64_t stamp, const char *name);
/* Checks bytes: each is the stamp's or zero, since a write may be under way. */
bool hand_check_either(struct hand *hand, const gpub_lease *lease, uint64_t stamp, const char *name);
bool hand_sync(struct hand *hand);
/* Returns the lease in one of the two ways. */
bool hand_return(struct hand *hand, gpub_lease *lease);
/* Closes what no lease holds. */
bool hand_trim(struct hand *hand);
/* Whether a call, any of several, is answered that no buffer has the name. */
bool hand_misses(struct hand *hand, const char *name);
/* Whether an interrupt ends a wait that has no end, so that the broker forgets it. */
bool hand_interrupted(struct hand *hand);

/* ---- the deeds ---- */

void own_deed(struct hand *hand);
void own_end(struct hand *hand);           /* unlinks all */
void own_forget_ephemeral(struct hand *hand); /* the client has ended */

/* Opens an offer and sees it through, or is the guest of another hand that has one. */
void offers_host(struct hand *hand);
bool offers_visit(struct hand *hand);

void arena_deed(struct hand *hand);
void arena_end(struct hand *hand);         /* of one hand, while the others wait: unlinks all */

/* Checks an arena's history, which is at rest, and empties it. */
void history_check(unsigned arena);

/* ---- broker-kills-victim.c ---- */

/*
 * Starts a process with a client of its own that creates the buffer with these flags, writes it, signals its timeline
 * up to `last`, and waits for its end. Returns its pid, or -1. kills->victims[hand] says when it is ready.
 */
pid_t victim_start(struct hand *hand, const char *name, unsigned flags, uint64_t last);
/* The victim's main(): the arguments behind the word. */
int victim_main(char **arguments);
/* Kills the victim and waits for its end. */
void victim_end(pid_t pid);
/* Cuts its session off; it lives on. */
bool victim_evict(pid_t pid);
/* Runs the shell's script, where $BROKER_CTL is broker-ctl and $1 the argument. Returns whether it succeeded. */
bool tool_run(const char *script, const char *argument);

#endif
