/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trust.h - whether a client may trust the server that it is connected to.
 *
 * Who the server is comes from the kernel (SO_PEERCRED); who could have put it there, from the directory of its socket.
 * Owns nothing; reads nothing that the server sends.
 */
#ifndef GPUB_TRUST_H
#define GPUB_TRUST_H

/*
 * 0 where the server is root, this user, or a user that root appointed by a directory of its own in SOCKET_DIRECTORIES, and where
 * nobody else may write the socket's directory. -EPERM, with the reason. sock is connected to path.
 */
int trust_check(int sock, const char *path);

#endif
