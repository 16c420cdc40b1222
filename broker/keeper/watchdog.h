/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watchdog.h - ends a broker whose loop hangs.
 *
 * The broker's loop marks in shared memory when it begins and ends a pass. The keeper looks at the marks in regular
 * intervals. A loop that is in one pass at many looks in a row hangs: the process gets SIGABRT, for a core dump, and
 * two looks later SIGKILL. A look at a process that is stopped, traced or frozen does not count. Looks are counted, and
 * no seconds, so that nothing counts while the machine is suspended or the keeper is stopped as well. Owns a timer.
 */
#ifndef GPUB_KEEPER_WATCHDOG_H
#define GPUB_KEEPER_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <event2/event.h>

#define WATCHDOG_LOOK_MS 1000 /* between looks */
#define WATCHDOG_LOOKS   20   /* in a row in one pass, until a loop hangs */
#define WATCHDOG_GRACE   2    /* looks from SIGABRT to SIGKILL */

/*
 * In shared memory, written by the broker's loop. A broker begins in its first pass, so a start that takes long marks
 * new passes, and one that waits for the owner marks an end. A loop that cannot see its sleep begins a pass by a timer
 * of a few seconds.
 */
struct watchdog_marks {
	_Atomic uint64_t pass;     /* number of the pass */
	_Atomic bool     sleeping; /* the loop waits for events */
};

void watchdog_begin_pass(struct watchdog_marks *marks);
void watchdog_end_pass(struct watchdog_marks *marks);

/* The keeper's side. */
struct watchdog {
	struct watchdog_marks *marks;  /* NULL: watchdog_init() has not succeeded */
	struct event          *look;   /* timer */
	pid_t                  pid;    /* of the broker; 0: there is none */
	uint64_t               pass;   /* at the last look */
	unsigned               same;   /* number of looks in a row at this pass */
	unsigned               looks;  /* so many in a row are a loop that hangs */
	void (*hangs)(void *context);  /* called at SIGABRT */
	void (*looked)(void *context); /* called after each look */
	void                  *context;
};

/* look_ms, looks: WATCHDOG_LOOK_MS and WATCHDOG_LOOKS. Returns 0, or -ENOMEM with the error message set. */
int watchdog_init(struct watchdog *watchdog, struct event_base *base, struct watchdog_marks *marks, unsigned look_ms,
		  unsigned looks);

/* Watches a broker from now on, whose marks have the values of one that begins. pid 0: watches none. */
void watchdog_watch(struct watchdog *watchdog, pid_t pid);

/* Frees the timer. In a forked child, the event base must be the child's own. Does nothing if there is none. */
void watchdog_deinit(struct watchdog *watchdog);

/* Whether a process cannot run because it is stopped, traced or frozen. */
bool watchdog_excuses(pid_t pid);

/* Whether a control group in the text of a /proc/PID/cgroup is frozen. root: where the groups are, "/sys/fs/cgroup". */
bool watchdog_frozen(const char *cgroups, const char *root);

#endif
