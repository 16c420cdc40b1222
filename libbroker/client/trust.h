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
 * Checks the server of the socket `sock`, which is connected to `path`. Returns 0 if the server runs as root, as this
 * user, or as a user whom root gave a directory in SOCKET_DIRECTORIES (set by configure), and if only root and the
 * server's user may write the socket's directory. Otherwise returns -EPERM with the reason as the error message, or
 * another negative errno if that cannot be found out.
 */
int trust_check(int sock, const char *path);

/*
 * As trust_check(), but before a connect, for a path that another user may have named: takes the owner of the directory
 * of `path` for the server's user.
 */
int trust_check_place(const char *path);

#endif
