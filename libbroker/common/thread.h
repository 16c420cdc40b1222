/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - how broker and library start a thread without signals, and keep a program's thread from being cancelled
 * during a call. Owns nothing.
 */
#ifndef GPUB_THREAD_H
#define GPUB_THREAD_H

#include <pthread.h>

/* Starts a thread with all signals blocked. -EAGAIN: no more threads are possible; the error message is set. */
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
