/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - the socket that brokerd listens at: one of its own at a well-known path, or one that the service manager
 * passed on.
 *
 * brokerd's own socket is in a directory that only root or brokerd's user can write. It replaces the socket of a dead
 * brokerd, never of a living one. No connection is accepted before its group and mode are set. Owns the socket, and the
 * lock file beside the socket, which keeps two brokerds from replacing each other's socket. Never touches the file of a
 * socket that was passed on.
 */
#ifndef GPUB_BROKERD_SOCKET_H
#define GPUB_BROKERD_SOCKET_H

#include <sys/stat.h>

#include "configuration.h"

struct brokerd_socket {
	int         fd;   /* the listening descriptor */
	int         lock; /* descriptor of the locked lock file; -1: the socket was passed on */
	char        path[sizeof(((struct brokerd_config *)0)->socket)];
	/* lstat() of the socket's file at `path`, which identifies the file; all zeroes: the socket has no file */
	struct stat file;
};

/*
 * Takes the socket that the service manager passed, or makes one as configured. Returns 0 or negative errno with the
 * error message.
 */
int brokerd_socket_open(struct brokerd_socket *socket, const struct brokerd_config *config);

/*
 * Identifies the socket's file for brokerd_socket_adopt(). Returns a descriptor, which the caller closes; -ENOENT: the
 * socket has no file, or its path does not lead to that; or another negative errno. Sets no error message.
 */
int brokerd_socket_identify(const struct brokerd_socket *socket);

/*
 * Takes over the socket of a brokerd that has died: fd and lock are duplicates of its descriptors, the socket's from
 * then on; lock -1: the socket was passed on. file is what brokerd_socket_identify() returned there, and stays the
 * caller's; -1: the socket has no file. Connections that wait in the socket go on waiting. Makes and removes no file:
 * if the path does not lead to the socket, brokerd_socket_restore() makes it again. Returns 0, or a negative errno with
 * the error message set, and then all descriptors stay the caller's.
 */
int brokerd_socket_adopt(struct brokerd_socket *socket, int fd, int lock, int file);

/*
 * Checks that the path still leads to the socket, and makes brokerd's own socket again if not, with the configuration's
 * path, group and mode. Returns 0 if the path leads to the socket; 1 if the socket was made again: socket->fd is then
 * the new socket, *former is the former socket, and the caller closes *former; negative errno with the error message if
 * the socket or its lock file was removed and cannot be made again, or others may write the socket's directory.
 */
int brokerd_socket_restore(struct brokerd_socket *socket, const struct brokerd_config *config, int *former);

/*
 * Undoes a brokerd_socket_restore() that returned 1: closes the new socket, and makes `former` the socket again. A
 * later brokerd_socket_restore() tries again.
 */
void brokerd_socket_undo(struct brokerd_socket *socket, int former);

/* Closes the socket. Removes the socket's file and the lock file, if the socket was not passed on. */
void brokerd_socket_close(struct brokerd_socket *socket);

#endif
