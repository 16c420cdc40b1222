/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path-refusal.h - finds the part of a socket's path that refuses this process: connect(2) does not say which.
 *
 * Owns nothing; checks the effective ids, as connect(2) does. Never opens anything.
 */
#ifndef GPUB_PATH_REFUSAL_H
#define GPUB_PATH_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Describes the first part of the path that is missing, is not the socket or directory that it must be, or refuses this
 * process, with its owner and mode and this process's ids. False: there is none.
 */
bool path_refusal(const char *path, char *text, size_t size);

#endif
