/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - the function that may end a thread's waits: gpub_set_interrupt() sets it, for the calling thread.
 *
 * A wait that may be interrupted is made in parts of INTERRUPT_MS. Between two parts, without any lock, the thread
 * calls its function. Owns the pointer to the function.
 */
#ifndef GPUB_INTERRUPT_H
#define GPUB_INTERRUPT_H

#include <stdbool.h>
#include <time.h>

#include "gpubroker.h"

#define INTERRUPT_MS 100

/*
 * Returns when the next part of a wait ends: at the deadline (NULL: none) or, if this thread has a function and the
 * deadline is later, INTERRUPT_MS from now, which is stored in *part.
 */
const struct timespec *interrupt_part(const struct timespec *deadline, struct timespec *part);

/* Calls this thread's function, if any. The caller has no lock and is not the reader. 0, or -EINTR with its message. */
int interrupt_ask(void);

/* As interrupt_ask(), but calls the function only once in INTERRUPT_MS: for loops that poll. *next: zeros at first. */
int interrupt_ask_now_and_then(struct timespec *next);

/* Whether this thread has a function. */
bool interrupt_is_set(void);

/* Sets the error message of an interrupted call. Returns -EINTR. */
int interrupt_refuse(void);

/* A thread's function (NULL: none) and its argument. HOLD_INTERRUPT() takes them away until the end of the block. */
struct interrupt {
	gpub_interrupt *check;
	void           *context;
};
struct interrupt interrupt_take(void);
void interrupt_restore(const struct interrupt *taken);

#define HOLD_INTERRUPT() \
	__attribute__((cleanup(interrupt_restore), unused)) const struct interrupt interrupt_taken = interrupt_take()

#endif
