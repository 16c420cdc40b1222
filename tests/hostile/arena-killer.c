/* SPDX-License-Identifier: Apache-2.0 */
/* arena-killer.c - see arena-killer.h */
#include "arena-killer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "arena.h"

#define PAUSE_MIN_US 20000
#define PAUSE_MAX_US 100000
#define IDLE_US      1000

static pid_t killer;

static void kill_one(enum arena_mortal mortal)
{
	static pid_t last;
	pid_t pid = mortal == ARENA_OWNER ? owner_of(arena_broker.pid) : server_of(arena_broker.pid);

	/* one that has been killed is the keeper's child until the keeper has seen its end */
	if (pid <= 0 || pid == last || kill(pid, SIGKILL))
		return;
	last = pid;
	atomic_fetch_add(&stage->killed, 1);
}

static _Noreturn void kill_for_ever(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		enum arena_mortal mortal;

		atomic_store(&stage->killing, true);
		mortal = atomic_load(&stage->kill);
		if (mortal)
			kill_one(mortal);
		atomic_store(&stage->killing, false);
		usleep(mortal ? PAUSE_MIN_US + (unsigned)rand() % (PAUSE_MAX_US - PAUSE_MIN_US) : IDLE_US);
	}
}

void arena_kill(enum arena_mortal mortal)
{
	if (!killer) {
		fflush(NULL);
		killer = fork();
		if (!killer)
			kill_for_ever();
		if (killer < 0)
			bail_out("no process");
	}
	atomic_store(&stage->kill, mortal);
}

void arena_spare(void)
{
	atomic_store(&stage->kill, ARENA_NOBODY);
	while (atomic_load(&stage->killing))
		usleep(100);
}

void arena_killer_end(void)
{
	if (killer > 0) {
		kill(killer, SIGKILL);
		waitpid(killer, NULL, 0);
	}
	killer = 0;
}
