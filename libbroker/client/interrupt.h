/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - a thread's interrupt function, which gpub_set_interrupt() sets and which may end the thread's waits.
 *
 * A wait that may be interrupted is made in parts of INTERRUPT_MS milliseconds. A part lasts longer if the thread is
 * the reader, which looks at the time only every LOOK_US (receiver.c). Between two parts the thread calls its interrupt
 * function, while it holds no lock. Owns each thread's pointer to its function.
 */
#ifndef GPUB_INTERRUPT_H
#define GPUB_INTERRUPT_H

#include <stdbool.h>
#include <time.h>

#include "gpubroker.h"

#define INTERRUPT_MS 100

/*
 * Returns the time at which the next part of a wait ends. It is the deadline (NULL: no deadline) or, if this thread has
 * an interrupt function and the deadline is later, *part, which is set to INTERRUPT_MS from now.
 */
const struct timespec *interrupt_part(const struct timespec *deadline, struct timespec *part);

/*
 * Calls this thread's interrupt function, if the thread has one. Returns 0, or -EINTR with the error message set if the
 * function interrupts. The caller is not the reader, and holds no lock, because the function may call the library.
 */
int interrupt_ask(void);

/*
 * As interrupt_ask(), but does nothing before the time *next, which it then sets to INTERRUPT_MS from now. For loops
 * that poll. *next is zeros before the first call.
 */
int interrupt_ask_now_and_then(struct timespec *next);

/* Whether this thread has an interrupt function. */
bool interrupt_is_set(void);

/* Sets the error message of an interrupted call. Returns -EINTR. */
int interrupt_refuse(void);

/*
 * A thread's interrupt function (NULL: none) and the argument for it. HOLD_INTERRUPT() takes the function away from the
 * thread until the end of the block.
 */
struct interrupt {
	gpub_interrupt *check;
	void           *context;
};
struct interrupt interrupt_take(void);
void interrupt_restore(const struct interrupt *taken);

#define HOLD_INTERRUPT() \
	__attribute__((cleanup(interrupt_restore), unused)) const struct interrupt interrupt_taken = interrupt_take()

#endif
