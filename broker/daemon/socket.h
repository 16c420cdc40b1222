/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket.h - the socket that brokerd listens at: its own at a path that everybody knows, or one that the
 * service manager passed on.
 *
 * Its own lies in a directory that nobody else can write, replaces one that a dead brokerd left and never a living
 * one, and lets nobody in before its group and mode are set. Owns it, and the lock beside it that keeps two brokerds
 * from replacing each other's. Never touches the file of a socket that was passed on.
 */
#ifndef GPUB_BROKERD_SOCKET_H
#define GPUB_BROKERD_SOCKET_H

#include "configuration.h"

struct brokerd_socket {
	int  fd, lock; /* lock -1: it was passed on */
	char path[sizeof(((struct brokerd_config *)0)->socket)];
};

/* 0, or negative errno with the sentence set. */
int brokerd_socket_open(struct brokerd_socket *socket, const struct brokerd_config *config);
void brokerd_socket_close(struct brokerd_socket *socket);

#endif
