/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path-refusal.h - finds the part of a socket's path that makes connect(2) fail.
 *
 * Checks permissions for the effective ids, as connect(2) does. Owns nothing. Never opens a file.
 */
#ifndef GPUB_PATH_REFUSAL_H
#define GPUB_PATH_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes a description of the first part of `path` that has a fault into text. If the permissions of that part refuse
 * this process, the description has the part's owner and mode and this process's ids. Returns false, with text
 * unchanged, if no part has a fault.
 */
bool path_refusal(const char *path, char *text, size_t size);

#endif
