/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned-fd.h - descriptors that the library keeps in a program which may close them.
 *
 * A program that closes all descriptors, as daemons do, also closes the library's. Files that the program opens later
 * get the same numbers. So an owned descriptor records a number together with the identity of its file, and the
 * library checks before a use or close that the number still refers to that file. The file must have an inode of its
 * own. A socket, a pipe or a regular file has one; all epolls, all eventfds and, before Linux 6.9, all pidfds share
 * one. Owns nothing and takes no lock.
 */
#ifndef GPUB_OWNED_FD_H
#define GPUB_OWNED_FD_H

#include <stdbool.h>
#include <sys/types.h>

struct owned_fd {
	int   fd;     /* the number of the descriptor; negative: there is no descriptor */
	dev_t device; /* st_dev of the file, which with inode is its identity; valid unless fd is negative */
	ino_t inode;
};

#define OWNED_FD_NONE ((struct owned_fd){ .fd = -1 })

/* Stores fd and the identity of its file in *owned. A negative fd is stored without an identity. */
void owned_fd_take(struct owned_fd *owned, int fd);

/* Whether owned->fd still refers to the file that owned_fd_take() recorded. Keeps errno. Async-signal-safe. */
bool owned_fd_stands(const struct owned_fd *owned);

/* Closes the descriptor if owned_fd_stands(). Afterwards owned->fd is -1. Async-signal-safe. */
void owned_fd_close(struct owned_fd *owned);

/* Error message for a descriptor for which owned_fd_stands() is false. */
#define OWNED_FD_LOST                                                                      \
	"this program closed descriptors of the gpubroker library (close_range, closefrom, " \
	"or a loop): connect after that"

#endif
