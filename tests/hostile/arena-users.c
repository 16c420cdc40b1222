/* SPDX-License-Identifier: Apache-2.0 */
/* arena-users.c - see arena-users.h */
#include "arena-users.h"

#include <errno.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static bool several_users;
static uid_t uids[USERS];

bool arena_has_users(void)
{
	return several_users;
}

uid_t arena_uid(enum user user)
{
	return uids[user];
}

/* As a login would leave it; dumpable again, so that what one user may do to its own processes is allowed here, too. */
static void become(enum user user)
{
	if (!several_users)
		return;
	if (setgroups(0, NULL) || setresgid(uids[user], uids[user], uids[user]) ||
	    setresuid(uids[user], uids[user], uids[user]))
		_exit(125);
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user takes it away */
}

pid_t arena_fork(enum user user, void (*run)(void))
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		bail_out("no process: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	become(user);
	run();
	_exit(0);
}

bool arena_ended(pid_t pid, int *status)
{
	return waitpid(pid, status, WNOHANG) == pid;
}

/* Waits that long; what has not ended is killed then. */
bool arena_wait_for(pid_t pid, int *status, unsigned seconds)
{
	for (unsigned look = 0; look < seconds * 500; look++) {
		if (arena_ended(pid, status))
			return true;
		usleep(2000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, status, 0);
	return false;
}

bool arena_run(enum user user, void (*run)(void))
{
	int status = 0;

	return arena_wait_for(arena_fork(user, run), &status, ATTACK_SECONDS) && !status;
}

void arena_users_choose(void)
{
	several_users = !geteuid();
	for (int i = 0; i < USERS; i++)
		uids[i] = several_users ? 4000u + (unsigned)i : geteuid();
}
