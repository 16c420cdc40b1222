/* SPDX-License-Identifier: Apache-2.0 */
/* whole.c - see whole.h */
#include "whole.h"

#include <errno.h>
#include <unistd.h>

#include "common/error.h"
#include "interrupt.h"

int whole_read(int fd, void *bytes, size_t size, uint64_t from)
{
	for (size_t at = 0; at < size;) {
		ssize_t got = pread(fd, (char *)bytes + at, size - at, (off_t)(from + at));

		if (got < 0 && errno != EINTR)
			return error_set(-errno, "it cannot be read: %m");
		if (interrupt_check())
			return -EINTR;
		if (!got)
			return error_set(-EIO, "it became shorter while it was read: %llu bytes are left",
					 (unsigned long long)(from + at));
		at += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

int whole_write(int fd, const void *bytes, size_t size)
{
	for (size_t at = 0; at < size;) {
		ssize_t put = write(fd, (const char *)bytes + at, size - at);

		if (put < 0 && errno != EINTR)
			return error_set(-errno, "it cannot be written: %m");
		if (interrupt_check()) /* checked also after a part was written */
			return -EINTR;
		at += put > 0 ? (size_t)put : 0;
	}
	return 0;
}
