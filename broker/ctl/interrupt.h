/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - lets SIGINT, SIGTERM and SIGHUP end a long operation, which then undoes what it did.
 *
 * The first SIGINT, the first SIGTERM and the first SIGHUP are noted; the second signal of a kind kills the process at
 * once. Owns the handlers from interrupt_watch() on. A signal that was ignored when the program started stays ignored.
 */
#ifndef GPUB_CTL_INTERRUPT_H
#define GPUB_CTL_INTERRUPT_H

/* Installs the handlers of SIGINT, SIGTERM and SIGHUP. */
void interrupt_watch(void);

/* Returns 0, or -EINTR with the error message if one of the signals was received. A long operation calls it often. */
int interrupt_check(void);

#endif
