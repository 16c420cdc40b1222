/* SPDX-License-Identifier: Apache-2.0 */
/* errors.h - errors of the library as Python exceptions. Call it on the thread whose call failed, before its next call. */
#ifndef GPUB_PYTHON_ERRORS_H
#define GPUB_PYTHON_ERRORS_H

#include "python.h"

/* OSError, or its subclass for that errno, with the library's message. NULL, for a return. */
PyObject *raise_os(int error);
/* The same with a message of this module's. */
PyObject *raise_os_text(int error, const char *format, ...);
/* ValueError with the library's message: an argument that is wrong whatever the broker holds. */
PyObject *raise_value(void);

#endif
