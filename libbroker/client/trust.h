/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trust.h - whether a client may trust the server that it is connected to.
 *
 * The kernel says who the server is (SO_PEERCRED). The directory of its socket says who could have put it there. Owns
 * nothing; reads nothing that the server sends.
 */
#ifndef GPUB_TRUST_H
#define GPUB_TRUST_H

/*
 * 0 if the server is root, this user, or a user whom root gave a directory in SOCKET_DIRECTORIES, and if nobody else
 * may write the socket's directory. -EPERM, with the reason. sock is connected to path.
 */
int trust_check(int sock, const char *path);

/*
 * The same of whoever may listen at path, by its directory alone: for a path that somebody else named, which is not even
 * connected to where no server there would be trusted.
 */
int trust_check_place(const char *path);

#endif
