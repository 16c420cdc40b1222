/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errors.h - the library's errors as Python exceptions: OSError with its errno, so Python chooses FileNotFoundError,
 * PermissionError and the others. Where the message has words of C's interface, it gets those of Python's. Owns
 * nothing.
 */
#ifndef GPUB_PYTHON_ERRORS_H
#define GPUB_PYTHON_ERRORS_H

#include "python.h"

/*
 * Always returns NULL. With the calling thread's last message of the library, or with another. label, as "'u'": what
 * the call was about, which comes first where the library's message does not have it; NULL: nothing. Leaves an
 * exception that is set.
 */
PyObject *raise_os(int error);
PyObject *raise_os_of(const char *label, int error);
PyObject *raise_os_text(int error, const char *format, ...);
PyObject *raise_value(void); /* ValueError with the last message */

/* The same for the name of a buffer; NULL: none. */
PyObject *raise_os_named(const char *name, int error);

#endif
