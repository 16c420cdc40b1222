/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned-fd.h - descriptors that the library keeps in a program which may close them.
 *
 * A program that closes all descriptors, as daemons do, closes the library's, too, and files that it opens afterwards
 * get their numbers. So an owned descriptor is its number and the identity of its file, and whoever is about to use or
 * close the number asks first whether it still names that file. The file must have an inode of its own: a socket, a
 * pipe or a file has one; epoll, eventfd and, before Linux 6.9, pidfd share one. Owns nothing; takes no lock.
 */
#ifndef GPUB_OWNED_FD_H
#define GPUB_OWNED_FD_H

#include <stdbool.h>
#include <sys/types.h>

struct owned_fd {
	int   fd; /* negative: none */
	dev_t device;
	ino_t inode;
};

#define OWNED_FD_NONE ((struct owned_fd){ .fd = -1 })

/* Makes an open descriptor an owned one. A negative fd is kept as it is. */
void owned_fd_take(struct owned_fd *owned, int fd);

/* Whether the number still names the file that it named when it was taken. Async-signal-safe. */
bool owned_fd_stands(const struct owned_fd *owned);

/* Closes it if it stands. Afterwards *owned is OWNED_FD_NONE. Async-signal-safe. */
void owned_fd_close(struct owned_fd *owned);

/* What an error message says where it does not stand. */
#define OWNED_FD_LOST                                                                      \
	"this program closed descriptors of the gpubroker library (close_range, closefrom, " \
	"or a loop): connect after that"

#endif
