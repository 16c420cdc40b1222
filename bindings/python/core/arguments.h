/* SPDX-License-Identifier: Apache-2.0 */
/* arguments.h - timeouts, rights and numbers as Python gives them. Owns nothing. */
#ifndef GPUB_PYTHON_ARGUMENTS_H
#define GPUB_PYTHON_ARGUMENTS_H

#include "python.h"

/* Seconds, None: without limit, as the library's milliseconds. -1: an exception is set. */
int timeout_from_python(PyObject *seconds, int *timeout_ms);

/* "r", "w" or "rw". -1: a ValueError is set. */
int rights_from_text(const char *text, unsigned *rights);
const char *rights_text(unsigned rights);

/*
 * For "O&": an int, or what has __index__, as a uint64_t. The interpreter's "K" takes what is beyond 64 bits modulo
 * 2^64, which would make a small size of a large one. 0: an exception is set.
 */
int number_from_python(PyObject *object, void *value);

/* For "O&": a uid, or None, which leaves the value. What stands for any user in C is none. 0: an exception is set. */
int user_from_python(PyObject *object, void *value);

/* For "O&": a uint32_t. The interpreter's "I" cuts what is larger. 0: an exception is set. */
int unsigned_from_python(PyObject *object, void *value);

/* None: absent. -1: an exception is set. */
struct maybe {
	uint64_t value;
	int given;
};
int maybe_from_python(PyObject *object, struct maybe *maybe);

#endif
