/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.h - where hostile clients are let loose: a broker for several users, a well-behaved victim that never stops
 * working, and what must still be true after each attack.
 *
 * As root everybody is a user of its own: broker, victim, attacker, its accomplice and a bystander; otherwise all are
 * one, and the attacks that need several are left out by name. Every attack is a function of the program, run in a
 * process of the attacker's; the program itself connects to nothing. Owns the broker, the victim, and the page on which
 * all of them write what the others must know. Measures; judges by limits that a busy machine keeps, too.
 */
#ifndef GPUB_TESTS_ARENA_H
#define GPUB_TESTS_ARENA_H

#include <stdatomic.h>

#include "arena-killer.h"
#include "common/ticket.h"
#include "speaker.h"
#include "tests/integration/harness.h"

/* What the broker has, and what it lets one user have: sessions, tickets and greetings as by default. */
#define ARENA_MEMORY     "64M"
#define ARENA_POOL       "16M"
#define ARENA_QUOTA      (40u << 20) /* bytes */
#define ARENA_BUFFERS    1024
#define ARENA_SESSIONS   1024
#define ARENA_GRANTS     4096
#define ARENA_TICKETS    1024
#define ARENA_GREETINGS  1024
#define ARENA_FILES      8192 /* descriptors of the broker */
#define ARENA_TRIP_MS    2000 /* the longest that a round trip of the victim may take, whatever the others do; */
#define ARENA_P99_MS     250  /* nor 99 of 100, where there are a thousand and more */
#define ARENA_ENTRY_MS   5000 /* and that a newcomer may take to connect and work */

/* The victim's buffers, full of its canary: */
#define SECRET   "victim/secret"   /* 0600; mapped all the time */
#define SECRET_2 "victim/secret-2" /* 0600; acquired and closed all the time */
#define SHOWN    "victim/shown"    /* 0604, with a timeline: others may read it; full of SHOWN_BYTE */
#define SHOWN_BYTE 0x5a
#define SECRET_SIZE (1u << 20)

enum user { BROKER_USER, VICTIM, ATTACKER, BYSTANDER, ACCOMPLICE, USERS };

#define STAGE_TICKETS 16
#define SAMPLES      (1u << 17)
#define CANARY_SIZE  16

/* Shared by all processes of the program. */
struct stage {
	uint8_t canary[CANARY_SIZE];

	/* the victim */
	pid_t            victim;
	_Atomic bool     pause, paused, stop;
	_Atomic uint64_t began_us;       /* of the round trip that it is in; 0: in none */
	_Atomic unsigned trips, acquires; /* measured so far, in trip_us and acquire_us */
	uint32_t         trip_us[SAMPLES], acquire_us[SAMPLES];
	_Atomic bool     names_end; /* owners are killed, and memory ends with them: buffers lose their names */
	_Atomic bool     wronged;
	char             wrong[256];

	/* the attack that runs now */
	_Atomic bool ready, go_on, done, failed;
	char         failure[256];
	struct ticket ticket[STAGE_TICKETS];
	_Atomic uint64_t number[4];
	pid_t        pid[4];

	/* arena-killer.h */
	_Atomic unsigned kill;    /* enum arena_mortal: who is to be killed */
	_Atomic bool     killing; /* one may be killed now */
	_Atomic unsigned killed;  /* number of processes */
};

extern struct stage *stage;

/* ---- attacks ---- */

enum attack_flags {
	NEEDS_USERS = 1,    /* several users, so root */
	AS_BROKER_USER = 2, /* it is the broker's own user that attacks */
	HURTS_ITSELF = 4,   /* it touches memory of its own that is freed: the host device reports that, rightly */
	TAKES_SECONDS = 8,  /* long enough that the victim's p99 can be judged, too */
	COUNTS_POOLED = 16  /* during() looks for pooled memory, which is given back when an owner dies */
};

struct attack {
	const char *name, *holds; /* what is tried; what must hold */
	void (*prepare)(void);    /* as the victim's user, before: in a process that ends */
	void (*run)(void);        /* as the attacker */
	bool (*during)(void);     /* in the program, when run() said hold(): true: as it should be */
	bool (*after)(void);      /* in the program, when the attacker is gone, before the status is compared */
	unsigned flags;
};

/* In run() and prepare(): what must be; else the attack has failed, and says so. */
#define WANT(condition)                                                       \
	do {                                                                  \
		if (!(condition))                                             \
			attack_failed(__FILE__, __LINE__, #condition);        \
	} while (0)
_Noreturn void attack_failed(const char *file, int line, const char *what);

/* In run(): this far; during() looks now. Returns when it has. */
void hold(void);

/* In run(): all that was wanted is done, for one that ends in a way of its own. */
void attack_done(void);

/* Whether there are several users. */
bool arena_has_users(void);
uid_t arena_uid(enum user user);

/* Forks a process of that user, which runs it and exits; it dies with its parent. */
pid_t arena_fork(enum user user, void (*run)(void));

/* The same, waited for: whether it came to its end. */
bool arena_run(enum user user, void (*run)(void));

/* ---- what to look at from during() and after() ---- */

extern struct broker_process arena_broker;

/* How much a counter grew since the attack began. */
int64_t counted(const char *counter);

/* What that user is charged with now, by the resource's name in the status. */
int64_t charged(enum user user, const char *resource);

/* Whether a newcomer of that user connects and works, within its time. */
bool newcomer_works(enum user user);

/* ---- the program ---- */

/*
 * Set before: what the broker may have, where that is not the above. The text is quotas and board of brokerd.conf(5).
 */
extern unsigned    arena_files;
extern const char *arena_config;

void arena_begin(const char *name, unsigned seconds);
int  arena_end(void);

/*
 * From now on that process is killed every 20 to 100 ms while an attack runs. All must hold as before, but where the
 * owner dies and memory does not come by descriptors: that memory ends with its owner. Then the attacker, whose buffers
 * lose their names, may fail, and during() and after() are not called; the victim makes its buffers anew and checks
 * what it maps.
 */
void arena_dies(enum arena_mortal who);

/* Whether a point of that attack has the text in its name. */
bool arena_has(const struct attack *attack, const char *text);

/* One point. */
void arena_attack(const struct attack *attack);

/* The last one, of the broker's user and without the status: it is gone. */
void arena_attack_status_file(const struct attack *attack);

/* The victim's acquires from now on: forgets those before; then the share'th thousandth of them, in microseconds. */
void     arena_measure(void);
uint32_t arena_measured(unsigned share, unsigned *count);

uint64_t now_us(void);

#endif
