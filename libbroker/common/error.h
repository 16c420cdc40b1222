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

#define ERROR_TEXT_MAX 320 /* bytes of a message, including the NUL; longer messages are cut */

/*
 * Returns `code`, which must be negative. Shows the compiler that the result is negative. Otherwise the compiler warns,
 * where callers are inlined, that their outputs may be used uninitialized.
 */
static inline int error_failure(int code)
{
	return code < 0 ? code : -EIO;
}

/* Stores the message and returns code (a negative errno), for "return error_set(...)". */
#define error_set(code, ...) error_failure(error_store(code, __VA_ARGS__))
int error_store(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the calling thread's message, which is "no error" at first. Never NULL. */
const char *error_text(void);

/* A copy of a thread's message. error_save() makes the copy, and error_restore() makes the copy the message again. */
struct saved_error {
	char text[ERROR_TEXT_MAX];
};

struct saved_error error_save(void);
void error_restore(const struct saved_error *kept);

/*
 * Saves the thread's message here, and restores it at the end of the block. For steps whose own errors are not
 * reported, such as steps that undo something after a failure.
 */
#define SAVE_ERROR() __attribute__((cleanup(error_restore), unused)) const struct saved_error saved_error = error_save()

#endif
