/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readable.h - whether a file is there, and whether this process may read it.
 *
 * faccessat(2) with AT_EACCESS could be used, too, but older container runtimes fail its system call faccessat2 with
 * EPERM. So these functions use stat(2) and open(2), which also check the effective ids. Owns nothing.
 */
#ifndef GPUB_READABLE_H
#define GPUB_READABLE_H

#include <stdbool.h>

/* Whether a file exists at the path. False: errno says why; EACCES: a directory of the path cannot be searched. */
bool path_is_there(const char *path);

/* Returns 0 if the file can be opened for reading; else a negative errno, without an error message. */
int file_readable(const char *path);

#endif
