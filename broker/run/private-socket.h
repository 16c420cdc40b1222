/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private-socket.h - a listening socket in a directory that only this user can enter. Workers connect to one to reach
 * the broker, and the processes of a job to another one to join (joined.h).
 *
 * Owns the directory with its lock, and the socket. Makes both again at the same path if they were removed, as by the
 * user's logout or a cleaner of old files. Accepts no connection.
 */
#ifndef GPUB_RUN_PRIVATE_SOCKET_H
#define GPUB_RUN_PRIVATE_SOCKET_H

#include <sys/stat.h>

#include "broker/status/leftovers.h"

struct names;

struct private_socket {
	struct leftovers_directory directory;
	char        path[LEFTOVERS_PATH_SIZE + sizeof "/socket"];
	int         fd;  /* the listening descriptor; -1: there is no socket */
	/* lstat() of the socket's file, which identifies the file; all zeroes: the socket has no file */
	struct stat own;
};

/*
 * Makes a directory gpubroker-NAME.XXXXXX, and in it the listening socket. name: NAME. file: name of the socket's file:
 * "socket" or "join". Returns 0 or negative errno.
 */
int private_socket_make(struct private_socket *socket, const char *name, const char *file);

/*
 * Identifies the socket's file for private_socket_adopt(). Returns a descriptor, which the caller closes, or a negative
 * errno without an error message; -ENOENT: the path does not lead to the socket.
 */
int private_socket_identify(const struct private_socket *socket);

/* Descriptors of a private socket that outlive the process that made it. */
struct private_socket_kept {
	int fd;        /* the listening descriptor */
	int directory; /* directory.fd */
	int lock;      /* directory.lock */
	int file;      /* of private_socket_identify(); -1: the socket has no file */
};

/*
 * Takes over the socket of a process that has died. The descriptors are duplicates of that process's, the socket's
 * from then on, but for `file`, which stays the caller's. Connections that wait in the socket go on waiting. Makes and
 * removes no file: if a path does not lead to what it should, private_socket_restore() makes that again. Returns 0, or
 * a negative errno with the error message set, and then all descriptors stay the caller's.
 */
int private_socket_adopt(struct private_socket *socket, const struct private_socket_kept *kept);

/*
 * Checks that the path still leads to the socket, and makes the socket again if not. Returns 0 if the path leads to the
 * socket; 1 if the socket was made again: socket->fd is then the new socket at the same path, *former is the former
 * socket, and the caller closes *former; negative errno with the error message if the socket cannot be made again.
 */
int private_socket_restore(struct private_socket *socket, int *former);

/*
 * Undoes a private_socket_restore() that returned 1: closes the new socket, and makes `former` the socket again. A
 * later private_socket_restore() tries again.
 */
void private_socket_undo(struct private_socket *socket, int former);

/* Has `names` (core/names.h) watch the socket, its directory and the directory's lock. */
void private_socket_watch(const struct private_socket *socket, struct names *names);

/* Closes the descriptors, and leaves the files, which are another process's or another struct's. */
void private_socket_close(const struct private_socket *socket);

/* Closes the socket, and removes its file and its directory. Does nothing if there is no socket. */
void private_socket_remove(struct private_socket *socket);

#endif
