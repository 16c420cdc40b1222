/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readable.h - whether a file is there, and whether this process may read it.
 *
 * faccessat(2) with AT_EACCESS tells that too, but older container runtimes answer its system call, faccessat2, with
 * EPERM. So these functions use stat(2) and open(2), which also check the effective ids. Owns nothing.
 */
#ifndef GPUB_READABLE_H
#define GPUB_READABLE_H

#include <stdbool.h>

/*
 * Whether something is at the path. False sets errno, which is EACCES where this process may not search a directory
 * of the path.
 */
bool path_is_there(const char *path);

/* Returns 0 if the file can be opened for reading; else a negative errno, without an error message. */
int file_readable(const char *path);

#endif
