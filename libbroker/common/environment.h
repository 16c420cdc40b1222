/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.h - environment variables, which read as unset where they are not trusted.
 *
 * A program may have more rights than the user who started it (AT_SECURE: set-user-ID, set-group-ID, file
 * capabilities). That user controls the environment, so in such a program every variable reads as unset. Owns
 * nothing. No other file of this project's libraries calls getenv().
 */
#ifndef GPUB_ENVIRONMENT_H
#define GPUB_ENVIRONMENT_H

#include <stdbool.h>

/* Whether this program has more rights than the user who started it. */
bool environment_is_untrusted(void);

/* Returns the variable's value. NULL: the variable is not set, or the environment is not trusted. */
const char *environment_get(const char *name);

/* Whether the variable is set but ignored, because the environment is not trusted. */
bool environment_ignored(const char *name);

/* Adds to the thread's error message that the variable is ignored, if environment_ignored(). Returns `error`. */
int environment_note(int error, const char *name);

#endif
