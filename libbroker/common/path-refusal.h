/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path-refusal.h - which part of a socket's path keeps this process out: connect(2) says only that one does.
 *
 * Owns nothing; asks for the effective ids, as connect(2) does. Never opens what it looks at.
 */
#ifndef GPUB_PATH_REFUSAL_H
#define GPUB_PATH_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The first part of the path that is missing, is no socket or directory where one must be, or is closed to this process, with its
 * owner and mode and with who asked. False: none is.
 */
bool path_refusal(const char *path, char *text, size_t size);

#endif
