/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alive.h - the proof that a broker's loop runs no more: a robust mutex in memory that keeper and broker share.
 *
 * The thread of the broker's loop holds the mutex as long as it lives. The kernel releases a robust mutex when that
 * thread ends, however it ends, long before the process is gone where the process has much memory or a thread that
 * hangs in the kernel. So what that thread alone writes is written no more. A thread of the keeper waits for the mutex,
 * from the time on at which the broker is known to hold it: begun earlier, it would take the mutex before the broker.
 * So a broker that dies before that is noticed by its pidfd alone. Owns the mutex, the thread and an eventfd.
 */
#ifndef GPUB_KEEPER_ALIVE_H
#define GPUB_KEEPER_ALIVE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include <event2/event.h>

/*
 * Whether the keeper leaves alive_watch() out, so that the pidfd alone tells of a death: under the thread sanitizer,
 * where no process that is forked beside a thread can start threads.
 */
#ifdef __SANITIZE_THREAD__
#define ALIVE_BY_PIDFD true
#else
#define ALIVE_BY_PIDFD false
#endif

/* The keeper's side. */
struct alive {
	pthread_mutex_t *mutex;    /* in shared memory; NULL: alive_init() has not succeeded */
	struct event    *told;     /* the thread has got the mutex, and ends */
	int              eventfd;  /* by which the thread says so */
	sem_t            begun;    /* the thread posts it once it runs */
	pthread_t        watcher;  /* valid if `watching` */
	bool             watching; /* the thread runs, or has not been joined */
	void (*dead)(void *context);
	void            *context;
};

/*
 * Initialises the mutex, which nobody has used. dead() will be called through the loop when a broker that is watched
 * has released the mutex. Returns 0, or a negative errno with the error message set.
 */
int alive_init(struct alive *alive, struct event_base *base, pthread_mutex_t *mutex, void (*dead)(void *context),
	       void *context);

/* In the broker, on its loop's thread: takes the mutex, for ever. Returns 0 or a negative errno. */
int alive_hold(pthread_mutex_t *mutex);

/*
 * Begins to wait for the mutex, which the broker holds. dead() is called once, and no thread runs then. Returns when
 * the thread runs: a thread that starts takes locks of the allocator, and that of a sanitizer does not release its
 * locks in a child that the keeper forks meanwhile, so the child could never allocate. Returns 0, or a negative
 * errno with the error message set.
 */
int alive_watch(struct alive *alive);

/* Ends the watch of a broker that has ended, without a call of dead(). Does nothing if none is watched. */
void alive_unwatch(struct alive *alive);

/* Closes what a forked child has of it. The mutex stays, and the event base must be the child's own. */
void alive_forget(struct alive *alive);

/* Undoes alive_init(). No broker may hold the mutex any more. */
void alive_deinit(struct alive *alive);

#endif
