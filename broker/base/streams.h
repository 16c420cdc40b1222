/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - the descriptors 0 to 2 of a program: makes sure that they are open at its start, and that output on
 * stdout is written at its end.
 *
 * The kernel gives the lowest free descriptor to the next file that is opened. If 2 is free, a client's socket or
 * shared memory may get number 2, and each line of the log would be written to it. Owns the descriptors that it
 * opens, for the life of the process; never replaces a descriptor that is open.
 */
#ifndef GPUB_STREAMS_H
#define GPUB_STREAMS_H

/*
 * Opens /dev/null at each descriptor of 0 to 2 that is closed. Call it first in main(), before anything else opens a
 * descriptor. Writing to a 1 or 2 that was opened so, and reading from such a 0, still fails with EBADF as on a closed
 * one, so that lost output is noticed. Commands that the program runs inherit them. Returns 0 or a negative errno with
 * the error message set.
 */
int streams_fill(void);

/* Flushes stdout. Returns 0, or -EIO with the error message set if any output could not be written. */
int streams_flush(void);

#endif
