/* SPDX-License-Identifier: Apache-2.0 */
/* readable.c - see readable.h */
#include "readable.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

bool path_is_there(const char *path)
{
	struct stat st;

	return !stat(path, &st);
}

/* O_NONBLOCK keeps the open of a pipe at the path from waiting for a writer. */
int file_readable(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}
