/* SPDX-License-Identifier: Apache-2.0 */
/* name.h - valid names of buffers and broker instances. Owns nothing. */
#ifndef GPUB_NAME_H
#define GPUB_NAME_H

#include <stddef.h>

#define NAME_SIZE     96 /* a buffer's name with its zero */
#define INSTANCE_SIZE 21 /* an instance's name with its zero: it is part of shared-memory names */

/* 1 to 95 bytes of A-Za-z0-9._/- that do not begin with '/'. -EINVAL, -ENAMETOOLONG with the error message set. */
int name_check(const char *name);

/* For logs and terminals: what may be no valid name, cut, with a question mark for each byte that cannot be shown. */
const char *name_printable(const char *name, char copy[NAME_SIZE]);

/* 1 to 20 bytes of A-Za-z0-9_- for a broker instance. */
int instance_check(const char *name);

#endif
