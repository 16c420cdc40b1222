/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - the function of a thread that may end the thread's waits: gpub_set_interrupt(), one for each thread.
 *
 * A wait that may be interrupted goes on in parts of INTERRUPT_MS. Between two parts, without any lock, it calls the function.
 * Owns the pointer to the function.
 */
#ifndef GPUB_INTERRUPT_H
#define GPUB_INTERRUPT_H

#include <stdbool.h>
#include <time.h>

#include "gpubroker.h"

#define INTERRUPT_MS 100

/* The deadline (NULL: none) or, where this thread has a function, the end of the next part in *part, whichever comes first. */
const struct timespec *interrupt_part(const struct timespec *deadline, struct timespec *part);

/* Calls this thread's function. The caller has no lock and is not the reader. 0, or -EINTR with the error message set. */
int interrupt_ask(void);

/* For device->stream_sync_until(): asks every INTERRUPT_MS. next: zeros at first. Returns as interrupt_ask() does. */
int interrupt_ask_now_and_then(struct timespec *next);

/* Whether this thread has a function. */
bool interrupt_is_set(void);

/* -EINTR, and its message. */
int interrupt_refuse(void);

/* This thread has none until the end of the block. */
struct interrupt {
	gpub_interrupt *check;
	void           *context;
};
struct interrupt interrupt_take(void);
void interrupt_restore(const struct interrupt *taken);

#define HOLD_INTERRUPT() \
	__attribute__((cleanup(interrupt_restore), unused)) const struct interrupt interrupt_taken = interrupt_take()

#endif
