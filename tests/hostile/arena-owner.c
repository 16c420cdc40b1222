/* SPDX-License-Identifier: Apache-2.0 */
/* arena-owner.c - see arena-owner.h */
#include "arena-owner.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "arena.h"

#define PAUSE_MIN_US 20000
#define PAUSE_MAX_US 100000
#define IDLE_US      1000

static pid_t killer;

static void kill_one(void)
{
	static pid_t last;
	pid_t owner = owner_of(arena_broker.pid);

	/* one that has been killed is the broker's child until the broker has seen its end */
	if (owner <= 0 || owner == last || kill(owner, SIGKILL))
		return;
	last = owner;
	atomic_fetch_add(&stage->killed, 1);
}

static _Noreturn void kill_for_ever(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		bool kills;

		atomic_store(&stage->killing, true);
		kills = atomic_load(&stage->kill);
		if (kills)
			kill_one();
		atomic_store(&stage->killing, false);
		usleep(kills ? PAUSE_MIN_US + (unsigned)rand() % (PAUSE_MAX_US - PAUSE_MIN_US) : IDLE_US);
	}
}

void arena_owner_kill(void)
{
	if (!killer) {
		fflush(NULL);
		killer = fork();
		if (!killer)
			kill_for_ever();
		if (killer < 0)
			bail_out("no process");
	}
	atomic_store(&stage->kill, true);
}

void arena_owner_spare(void)
{
	atomic_store(&stage->kill, false);
	while (atomic_load(&stage->killing))
		usleep(100);
}
