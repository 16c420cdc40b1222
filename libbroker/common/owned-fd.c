/* SPDX-License-Identifier: Apache-2.0 */
/* owned-fd.c - see owned-fd.h */
#include "owned-fd.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 3 /* calls of fstat(2), which may fail for a moment for lack of memory */

/* Stores the status of fd's file in *st. False: fd is not open, or fstat(2) failed TRIES times. */
static bool identify(int fd, struct stat *st)
{
	int error = -EBADF;

	for (int tries = 0; fd >= 0 && tries < TRIES; tries++) {
		error = fstat(fd, st) ? -errno : 0;
		if (!error || error == -EBADF)
			break;
	}
	return !error;
}

/* Stores owned->fd last, so that a child forked at any moment finds either no descriptor or a complete *owned. */
void owned_fd_take(struct owned_fd *owned, int fd)
{
	struct stat st;

	if (identify(fd, &st)) {
		owned->device = st.st_dev;
		owned->inode = st.st_ino;
	}
	__atomic_store_n(&owned->fd, fd, __ATOMIC_RELEASE);
}

bool owned_fd_stands(const struct owned_fd *owned)
{
	int saved = errno;
	struct stat st;
	bool stands = identify(owned->fd, &st) && st.st_dev == owned->device && st.st_ino == owned->inode;

	errno = saved;
	return stands;
}

void owned_fd_close(struct owned_fd *owned)
{
	if (owned_fd_stands(owned))
		close(owned->fd);
	owned->fd = -1;
}
