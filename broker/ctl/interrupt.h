/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interrupt.h - SIGINT, SIGTERM and SIGHUP end what takes long, which then undoes what it did.
 *
 * The first one is noted; another one kills the process at once. Owns the handlers from interrupt_watch() on. A signal that the
 * program's parent had it ignore stays ignored.
 */
#ifndef GPUB_CTL_INTERRUPT_H
#define GPUB_CTL_INTERRUPT_H

void interrupt_watch(void);

/* 0, or -EINTR with the error message: one has come. */
int interrupt_check(void);

#endif
