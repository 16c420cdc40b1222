/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patience.h - calls of the library that may wait: without the interpreter lock, and so that Python's signal handlers
 * run meanwhile. Where a handler raises an exception (Ctrl-C), the call ends.
 *
 * Owns nothing but the place of a call on its thread's stack.
 */
#ifndef GPUB_PYTHON_PATIENCE_H
#define GPUB_PYTHON_PATIENCE_H

#include <stdbool.h>

#include "python.h"

struct patience {
	PyThreadState   *thread; /* its own, while it is without the lock */
	struct patience *outer;  /* of the call in which a handler makes this one */
	bool             raised; /* by a handler */
};

void patience_begin(struct patience *patience);
void patience_end(struct patience *patience);

/*
 * error = call. An exception of a handler is set afterwards, also where the call was done all the same: whoever made
 * something by it asks PyErr_Occurred(), and undoes that.
 */
#define PATIENTLY(error, call)                  \
	do {                                    \
		struct patience patience_;      \
		patience_begin(&patience_);     \
		(error) = (call);               \
		patience_end(&patience_);       \
	} while (0)

#endif
