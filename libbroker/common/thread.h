/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - how broker and library start a thread, and keep a program's thread from being cancelled in the midst of a call:
 * signals and cancellation are the program's business, never its threads'. Owns nothing.
 */
#ifndef GPUB_THREAD_H
#define GPUB_THREAD_H

#include <pthread.h>

/* With all signals blocked. -EAGAIN: there can be no more threads; the sentence is set. */
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
 * From here to the end of the block the calling thread is not cancelled: whoever is would leave locks taken, and waiters on a
 * stack that is gone. In each public function that may reach a cancellation point, its own or the driver's.
 */
#define HOLD_CANCELLATION()                                                  \
	__attribute__((cleanup(thread_restore_cancellation), unused)) const int \
		cancellation_before = thread_hold_cancellation()

#endif
