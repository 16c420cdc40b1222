/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - how broker and library start a thread: signals are the program's business, never its. Owns nothing. */
#ifndef GPUB_THREAD_H
#define GPUB_THREAD_H

#include <pthread.h>

/* With all signals blocked. -EAGAIN: there can be no more threads; the sentence is set. */
int thread_start(pthread_t *thread, void *(*function)(void *), void *argument);

#endif
