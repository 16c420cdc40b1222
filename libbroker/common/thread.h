/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread.h - starts threads that have all signals blocked, and keeps a program's thread from being cancelled during a
 * call of the library. Owns nothing.
 */
#ifndef GPUB_THREAD_H
#define GPUB_THREAD_H

#include <pthread.h>

/*
 * Stack size of a thread, without the space for thread-local variables. Smaller than the usual ulimit -s of 8 MiB,
 * which mlockall(2) would lock for each thread. On the host device, the broker's threads use 24 KiB of stack and the
 * library's threads 12 KiB. The size is larger because the CUDA driver does not document its need, and because the
 * host device runs the user's kernels on such a thread.
 */
#define THREAD_STACK (1u << 20) /* bytes */

/*
 * Starts a thread with all signals blocked. Returns 0, or a negative errno with the error message set. -EAGAIN: a limit
 * allows no more threads, and the error message says which limit to raise.
 */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

/* Disables cancellation of the calling thread. Returns the state before, for thread_restore_cancellation(). */
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
 * Keeps the calling thread from being cancelled from here to the end of the block. A cancelled thread would leave
 * locks locked, and list entries on a stack that no longer exists. Needed in each public function that may reach a
 * cancellation point, also one in the driver.
 */
#define HOLD_CANCELLATION()                                                  \
	__attribute__((cleanup(thread_restore_cancellation), unused)) const int \
		cancellation_before = thread_hold_cancellation()

#endif
