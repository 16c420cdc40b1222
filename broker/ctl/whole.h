/* SPDX-License-Identifier: Apache-2.0 */
/* whole.h - reads and writes of files that are whole, or fail. One that a signal interrupts goes on, but for those of interrupt.h. Owns nothing. */
#ifndef GPUB_CTL_WHOLE_H
#define GPUB_CTL_WHOLE_H

#include <stddef.h>
#include <stdint.h>

/* That many bytes from that place of the file. Negative errno with the error message; -EIO: it is shorter; -EINTR. */
int whole_read(int fd, void *bytes, size_t size, uint64_t from);

/* Behind what was written before. */
int whole_write(int fd, const void *bytes, size_t size);

#endif
