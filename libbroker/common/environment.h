/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.h - the environment, as far as it may be trusted.
 *
 * In a program that has more rights than the user who started it (AT_SECURE: set-user-ID, set-group-ID, file
 * capabilities), that user controls the environment. So every variable reads as unset. Owns nothing; nothing else in
 * this project's libraries calls getenv().
 */
#ifndef GPUB_ENVIRONMENT_H
#define GPUB_ENVIRONMENT_H

#include <stdbool.h>

/* Whether this program has more rights than the user who started it. */
bool environment_is_untrusted(void);

/* The variable's value; NULL: it is not set, or not trusted. */
const char *environment_get(const char *name);

/* Whether it is set and not trusted. */
bool environment_ignored(const char *name);

/* If the variable was ignored, adds that to the thread's error message. Returns error. */
int environment_note(int error, const char *name);

#endif
