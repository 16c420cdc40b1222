/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - how broker and library start a thread without signals, and keep a program's thread from being cancelled
 * during a call. Owns nothing.
 */
#ifndef GPUB_THREAD_H
#define GPUB_THREAD_H

#include <pthread.h>

/*
 * The stack of a thread, without what thread-local variables need. Not ulimit -s: that is 8 MiB as a rule, which
 * mlockall(2) locks for each thread. On the host device threads of the broker use 24 KiB of it and those of the
 * library 12 KiB, but the driver does not say what it needs, and host devices run kernels of the user's on such a
 * thread.
 */
#define THREAD_STACK (1u << 20) /* bytes */

/*
 * Starts a thread with all signals blocked. -EAGAIN: no more threads are possible; the error message says which limit
 * to raise.
 */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

static inline int thread_hold_cancellation(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void thread_restore_cancellation(const int *before)
{
	pthread_setcancelstate(*before, NULL);
}

/*
 * From here to the end of the block the calling thread is not cancelled: a cancelled thread would leave locks taken, and
 * waiters on a stack that is gone. In each public function that may reach a cancellation point, also one in the driver.
 */
#define HOLD_CANCELLATION()                                                  \
	__attribute__((cleanup(thread_restore_cancellation), unused)) const int \
		cancellation_before = thread_hold_cancellation()

#endif
