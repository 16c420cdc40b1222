/* SPDX-License-Identifier: Apache-2.0 */
/* reopen.c - see reopen.h */
#include "reopen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int reopen(int fd, int access)
{
	char path[40];
	int opened;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	opened = open(path, access | O_CLOEXEC);
	if (opened < 0)
		return -errno;
	return opened;
}
