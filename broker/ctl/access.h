/* SPDX-License-Identifier: Apache-2.0 */
/* access.h - what would let this process use a file that refuses it, by the file's owner, group and mode. Owns nothing. */
#ifndef GPUB_CTL_ACCESS_H
#define GPUB_CTL_ACCESS_H

#include <sys/stat.h>

#define ACCESS_TEXT_MAX 400

/*
 * The command that does it: to become a member of the file's group, to log in anew where this user is one already, or to have
 * the owner open the file. bits: of rwx, that are needed. st: of the file, which is at path. Returns text.
 */
const char *access_remedy(const char *path, const struct stat *st, unsigned bits, char text[ACCESS_TEXT_MAX]);

#endif
