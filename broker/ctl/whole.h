/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - complete reads and writes, which only a signal of interrupt.h interrupts. Owns nothing. */
#ifndef GPUB_CTL_WHOLE_H
#define GPUB_CTL_WHOLE_H

#include <stddef.h>
#include <stdint.h>

/* Reads size bytes at the offset `from`. 0 or negative errno; -EIO: the file is shorter; -EINTR: interrupt.h. */
int whole_read(int fd, void *bytes, size_t size, uint64_t from);

/* Writes size bytes at the file's current position. Returns 0 or negative errno with the error message, as -EINTR. */
int whole_write(int fd, const void *bytes, size_t size);

#endif
