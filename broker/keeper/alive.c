/* SPDX-License-Identifier: Apache-2.0 */
/* alive.c - see alive.h */
#include "alive.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/error.h"
#include "common/thread.h"

/* The last holder has died with it, and nothing that it protected needs a repair. */
static int take(pthread_mutex_t *mutex)
{
	int error = pthread_mutex_lock(mutex);

	return error == EOWNERDEAD ? pthread_mutex_consistent(mutex) : error;
}

int alive_hold(pthread_mutex_t *mutex)
{
	return -take(mutex);
}

static void *watch(void *argument)
{
	struct alive *alive = argument;
	const uint64_t one = 1;

	sem_post(&alive->begun);
	if (!take(alive->mutex))
		pthread_mutex_unlock(alive->mutex);
	(void)!write(alive->eventfd, &one, sizeof one);
	return NULL;
}

static void on_told(evutil_socket_t fd, short what, void *argument)
{
	struct alive *alive = argument;

	(void)fd;
	(void)what;
	if (!alive->watching)
		return;
	alive_unwatch(alive);
	alive->dead(alive->context);
}

static int mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t robust;
	int error;

	pthread_mutexattr_init(&robust);
	pthread_mutexattr_setpshared(&robust, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
	error = pthread_mutex_init(mutex, &robust);
	pthread_mutexattr_destroy(&robust);
	return error ? error_set(-error, "no mutex that keeper and broker share: %s", strerror(error)) : 0;
}

int alive_init(struct alive *alive, struct event_base *base, pthread_mutex_t *mutex, void (*dead)(void *context),
	       void *context)
{
	int error;

	*alive = (struct alive){ .dead = dead, .context = context };
	sem_init(&alive->begun, 0, 0);
	alive->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (alive->eventfd < 0)
		return error_set(-errno, "the keeper has no descriptor left: %m");
	alive->told = event_new(base, alive->eventfd, EV_READ | EV_PERSIST, on_told, alive);
	error = alive->told && !event_add(alive->told, NULL) ? mutex_init(mutex) :
							       error_set(-ENOMEM, "the keeper is out of memory");
	if (error)
		alive_forget(alive);
	else
		alive->mutex = mutex;
	return error;
}

int alive_watch(struct alive *alive)
{
	int error = thread_start(&alive->watcher, watch, alive);

	if (error)
		return error;
	alive->watching = true;
	while (sem_wait(&alive->begun)) /* an interrupt by a signal */
		;
	return 0;
}

void alive_unwatch(struct alive *alive)
{
	uint64_t told;

	if (!alive->watching)
		return;
	pthread_join(alive->watcher, NULL);
	alive->watching = false;
	(void)!read(alive->eventfd, &told, sizeof told);
}

void alive_forget(struct alive *alive)
{
	if (alive->told)
		event_free(alive->told);
	close(alive->eventfd);
	*alive = (struct alive){ 0 };
}

void alive_deinit(struct alive *alive)
{
	if (!alive->mutex)
		return;
	alive_unwatch(alive);
	pthread_mutex_destroy(alive->mutex);
	alive_forget(alive);
}
