/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - complete reads and writes, which only a signal of interrupt.h interrupts. Owns nothing. */
#ifndef GPUB_CTL_WHOLE_H
#define GPUB_CTL_WHOLE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads `size` bytes of the file, from the offset `from` on. Returns 0 or negative errno with the error message; -EIO:
 * the file is shorter; -EINTR: by a signal of interrupt.h.
 */
int whole_read(int fd, void *bytes, size_t size, uint64_t from);

/*
 * Writes `size` bytes at the file's current position. Returns 0 or negative errno with the error message; -EINTR: by a
 * signal of interrupt.h.
 */
int whole_write(int fd, const void *bytes, size_t size);

#endif
