/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private-socket.h - a listening socket in a directory that only this user can enter: the workers' way to the broker,
 * and where the processes of a job join.
 *
 * Owns the directory with its lock, and the socket. Makes both again at the same path when somebody has removed them,
 * such as the user's logout or a cleaner of old files. Accepts no connection.
 */
#ifndef GPUB_RUN_PRIVATE_SOCKET_H
#define GPUB_RUN_PRIVATE_SOCKET_H

#include <sys/stat.h>

#include "broker/status/leftovers.h"

struct private_socket {
	struct leftovers_directory directory;
	char        path[LEFTOVERS_PATH_SIZE + sizeof "/socket"];
	int         fd;  /* it listens; -1: there is none */
	struct stat own; /* of its file */
};

/* file: its name in the directory, "socket" or "join". 0, or negative errno with the error message. */
int private_socket_make(struct private_socket *socket, const char *name, const char *file);

/*
 * Looks whether the path still leads to the socket. 0: it does. 1: somebody has removed it, fd is a new socket at the
 * same path, and *former the socket before, which the caller closes. Negative errno, with the error message: the path
 * does not lead to it, and a new socket cannot be made.
 */
int private_socket_restore(struct private_socket *socket, int *former);

/*
 * Undoes a private_socket_restore() that returned 1, because nobody can listen at the new socket. A later one tries
 * again.
 */
void private_socket_undo(struct private_socket *socket, int former);

/* Removes the directory, too. Does nothing if there is no socket. */
void private_socket_remove(struct private_socket *socket);

#endif
