/* SPDX-License-Identifier: Apache-2.0 */
/*
 * streams.h - the descriptors 0 to 2 of a program: they are open at its start, and its output is written at its end.
 *
 * The kernel gives the lowest free descriptor to what is opened next. If 2 is free, that may be a client's socket or a page of
 * shared memory, and each line of the log would go there. Owns what it opens for the life of the process; never replaces a
 * descriptor that is open.
 */
#ifndef GPUB_STREAMS_H
#define GPUB_STREAMS_H

/*
 * Opens /dev/null at each of 0 to 2 that is closed: the first call in main(), before anything else opens a descriptor. Output
 * to it still fails with EBADF, as on a closed one, so that lost output is noticed; so does input. The commands that a
 * program runs inherit them. Negative errno with the error message.
 */
int streams_fill(void);

/* Writes what was printed on stdout. -EIO with the error message. */
int streams_flush(void);

#endif
