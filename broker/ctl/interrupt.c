/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - see interrupt.h */
#include "interrupt.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "common/error.h"

static volatile sig_atomic_t received;

static void note(int number)
{
	received = number;
}

static void watch(int number)
{
	struct sigaction action = { .sa_handler = note, .sa_flags = SA_RESETHAND }, before;

	sigemptyset(&action.sa_mask);
	if (!sigaction(number, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(number, &action, NULL);
}

void interrupt_watch(void)
{
	watch(SIGINT);
	watch(SIGTERM);
	watch(SIGHUP);
}

int interrupt_check(void)
{
	if (!received)
		return 0;
	return error_set(-EINTR, "%s ended it",
			 received == SIGINT ? "SIGINT" : received == SIGTERM ? "SIGTERM" : "SIGHUP");
}
