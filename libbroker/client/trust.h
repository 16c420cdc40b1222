/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trust.h - whether a client may trust the server that it is connected to.
 *
 * The kernel names the server's user (SO_PEERCRED). The socket's directory shows which users could have put the
 * socket there. Owns nothing; reads nothing that the server sends.
 */
#ifndef GPUB_TRUST_H
#define GPUB_TRUST_H

/*
 * Checks the server of sock, which is connected to path. Returns 0 if the server runs as root, as this user, or as a
 * user whom root gave a directory in SOCKET_DIRECTORIES, and if nobody else may write the socket's directory. Else
 * -EPERM, with the reason.
 */
int trust_check(int sock, const char *path);

/* As trust_check(), but before a connect, by the owner of path's directory: for a path that somebody else named. */
int trust_check_place(const char *path);

#endif
