/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - the socket that brokerd listens at: its own at a well-known path, or one that the service manager passed on.
 *
 * Its own socket is in a directory that nobody else can write. It replaces the socket of a dead brokerd, never of a living
 * one, and accepts no connection before its group and mode are set. Owns the socket, and the lock beside it that keeps two
 * brokerds from replacing each other's. Never touches the file of a socket that was passed on.
 */
#ifndef GPUB_BROKERD_SOCKET_H
#define GPUB_BROKERD_SOCKET_H

#include <sys/stat.h>

#include "configuration.h"

struct brokerd_socket {
	int         fd, lock; /* lock -1: it was passed on */
	char        path[sizeof(((struct brokerd_config *)0)->socket)];
	struct stat file; /* at the path; all zeroes: there is none */
};

/* 0, or negative errno with the error message. */
int brokerd_socket_open(struct brokerd_socket *socket, const struct brokerd_config *config);

/*
 * Looks whether the path still leads to the socket, which brokerd_socket_open() opened with that configuration's
 * path, group and mode. 1: it was removed, fd is a new socket at the path, and *former the one before, which the
 * caller closes. Negative errno, with the error message: it was removed, and cannot be made again.
 */
int brokerd_socket_restore(struct brokerd_socket *socket, const struct brokerd_config *config, int *former);

/*
 * Undoes a brokerd_socket_restore() that returned 1, because nobody can listen at the new socket. A later one tries
 * again.
 */
void brokerd_socket_undo(struct brokerd_socket *socket, int former);

void brokerd_socket_close(struct brokerd_socket *socket);

#endif
