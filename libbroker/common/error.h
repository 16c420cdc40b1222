/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the error message of a thread's last failure: what failed, why, and how to fix it.
 *
 * Owns one buffer for each thread. The function that refuses sets the message and returns the errno; callers pass the
 * errno on and leave the message alone. A message never contains a key, a handle or a ticket.
 */
#ifndef GPUB_ERROR_H
#define GPUB_ERROR_H

#include <errno.h>

#define ERROR_TEXT_MAX 320 /* bytes of a message with its zero; longer ones are cut */

/*
 * Returns code, which is negative, in a form that lets the compiler see that: else it would warn in inlined callers of
 * outputs that are used uninitialized.
 */
static inline int error_failure(int code)
{
	return code < 0 ? code : -EIO;
}

/* Stores the message and returns code (a negative errno), for "return error_set(...)". */
#define error_set(code, ...) error_failure(error_store(code, __VA_ARGS__))
int error_store(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's message; "no error" at first. Never NULL. */
const char *error_text(void);

/* A message that is kept while something else may fail. */
struct saved_error {
	char text[ERROR_TEXT_MAX];
};

struct saved_error error_save(void);
void error_restore(const struct saved_error *kept);

/*
 * Restores the thread's message at the end of the block: for steps that undo something after a failure, or that are
 * done besides something else, and whose own errors are not reported.
 */
#define SAVE_ERROR() __attribute__((cleanup(error_restore), unused)) const struct saved_error saved_error = error_save()

#endif
