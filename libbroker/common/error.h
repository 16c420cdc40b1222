/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the last failure of a thread, as one sentence.
 *
 * Owns one buffer per thread. A function that refuses sets the sentence where it decides and returns the
 * errno; whoever passes the errno on leaves the sentence alone. Never given a key, a handle or a ticket.
 */
#ifndef GPUB_ERROR_H
#define GPUB_ERROR_H

#include <errno.h>

#define ERROR_TEXT_MAX 320 /* bytes of a sentence with its zero; longer ones are cut */

/*
 * code, as a failure: outputs are untouched behind one, and a compiler that could not see that it is negative would find
 * them used uninitialized by callers that it has inlined.
 */
static inline int error_failure(int code)
{
	return code < 0 ? code : -EIO;
}

/* Stores the sentence and returns code (a negative errno), so that one can "return error_set(...)". */
#define error_set(code, ...) error_failure(error_store(code, __VA_ARGS__))
int error_store(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's sentence; "no error" at first. Never NULL. */
const char *error_text(void);

/* A sentence that is kept while something else may fail. */
struct error_kept {
	char text[ERROR_TEXT_MAX];
};

struct error_kept error_keep(void);
void error_restore(const struct error_kept *kept);

/*
 * From here to the end of the block the thread's sentence may change, and is as it was behind it: for what is undone after
 * a failure, or done on the way of something else, and whose own failures nobody is told.
 */
#define KEEP_ERROR() __attribute__((cleanup(error_restore), unused)) const struct error_kept error_kept = error_keep()

#endif
