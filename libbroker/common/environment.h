/* SPDX-License-Identifier: Apache-2.0 */
/*
 * environment.h - the environment, as far as it may be trusted.
 *
 * In a program that has more rights than whoever started it (AT_SECURE: set-user-ID, set-group-ID, file capabilities) the
 * environment is that user's, and says nothing about what the program may trust: every variable reads as unset. Owns nothing;
 * nothing else in this project's libraries calls getenv().
 */
#ifndef GPUB_ENVIRONMENT_H
#define GPUB_ENVIRONMENT_H

#include <stdbool.h>

/* Whether this program has more rights than whoever started it. */
bool environment_is_foreign(void);

/* The variable's value; NULL: it is not set, or not to be trusted. */
const char *environment_get(const char *name);

/* Whether it is set, and not to be trusted. */
bool environment_ignores(const char *name);

/* Adds to the thread's error message that the variable was ignored, where it was. Returns error. */
int environment_note(int error, const char *name);

#endif
