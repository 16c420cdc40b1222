/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - see thread.h */
#include "thread.h"

#include <signal.h>
#include <string.h>

#include "error.h"

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(thread, NULL, function, argument);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error ? error_set(-error, "a thread cannot start: %s", strerror(error)) : 0;
}
