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

#include "configuration.h"

struct brokerd_socket {
	int  fd, lock; /* lock -1: it was passed on */
	char path[sizeof(((struct brokerd_config *)0)->socket)];
};

/* 0, or negative errno with the error message. */
int brokerd_socket_open(struct brokerd_socket *socket, const struct brokerd_config *config);
void brokerd_socket_close(struct brokerd_socket *socket);

#endif
