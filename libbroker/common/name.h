/* SPDX-License-Identifier: Apache-2.0 */
/* name.h - valid names of buffers and broker instances. Owns nothing. */
#ifndef GPUB_NAME_H
#define GPUB_NAME_H

#include <stddef.h>

#define NAME_SIZE     96 /* bytes of a buffer's name at most, including the NUL */
#define INSTANCE_SIZE 21 /* bytes of an instance's name at most, including the NUL; part of shared-memory names */

/* Checks a name: 1 to 95 bytes of A-Za-z0-9._/-, the first one not '/'. -EINVAL, -ENAMETOOLONG, error message set. */
int name_check(const char *name);

/*
 * Copies a name, which need not be valid, for logs and terminals. Cuts the name to NAME_SIZE, and replaces each byte
 * that is not printable, and each space, by '?'. Returns `copy`.
 */
const char *name_printable(const char *name, char copy[NAME_SIZE]);

/* Checks the name of a broker instance: 1 to 20 bytes of A-Za-z0-9_-. -EINVAL with the error message set. */
int instance_check(const char *name);

#endif
