/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the last failure of a thread, as one sentence.
 *
 * Owns one buffer per thread. A function that refuses sets the sentence where it decides and returns the
 * errno; whoever passes the errno on leaves the sentence alone. Never given a key, a handle or a ticket.
 */
#ifndef GPUB_ERROR_H
#define GPUB_ERROR_H

#define ERROR_TEXT_MAX 320 /* bytes of a sentence with its zero; longer ones are cut */

/* Stores the sentence and returns code (a negative errno), so that one can "return error_set(...)". */
int error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's sentence; "no error" at first. Never NULL. */
const char *error_text(void);

#endif
