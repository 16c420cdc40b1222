/* SPDX-License-Identifier: Apache-2.0 */
/* arguments.c - see arguments.h */
#include "arguments.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "errors.h"

#define PART_MS 250 /* how late Ctrl-C may be noticed */

int timeout_from_python(PyObject *seconds, int *timeout_ms)
{
	double value;

	if (seconds == Py_None) {
		*timeout_ms = -1;
		return 0;
	}
	value = PyFloat_AsDouble(seconds);
	if (PyErr_Occurred())
		return -1;
	if (!(value >= 0)) {
		PyErr_SetString(PyExc_ValueError, "a timeout is seconds from 0 on, or None to wait without limit");
		return -1;
	}
	value = ceil(value * 1000);
	*timeout_ms = value < INT_MAX ? (int)value : INT_MAX;
	return 0;
}

int rights_from_text(const char *text, unsigned *rights)
{
	unsigned found = 0;

	for (const char *at = text; *at; at++)
		found |= *at == 'r' ? GPUB_READ : *at == 'w' ? GPUB_WRITE : 1u << 31;
	if (!found || found >> 31) {
		PyErr_Format(PyExc_ValueError, "'%s' are no rights: write 'r', 'w' or 'rw'", text);
		return -1;
	}
	*rights = found;
	return 0;
}

const char *rights_text(unsigned rights)
{
	static const char *const texts[] = { "", "r", "w", "rw" };

	return texts[rights & (GPUB_READ | GPUB_WRITE)];
}

int number_from_python(PyObject *object, void *value)
{
	PyObject *number = PyNumber_Index(object);
	uint64_t made = number ? PyLong_AsUnsignedLongLong(number) : 0;

	Py_XDECREF(number);
	if (PyErr_Occurred())
		return 0;
	*(uint64_t *)value = made;
	return 1;
}

int maybe_from_python(PyObject *object, struct maybe *maybe)
{
	*maybe = (struct maybe){ .given = object != Py_None };
	return !maybe->given || number_from_python(object, &maybe->value) ? 0 : -1;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What is left until then, at least 1: a 0 would not wait, and is another error. */
static int part_of(int timeout_ms, int64_t end, int64_t *left)
{
	*left = timeout_ms < 0 ? PART_MS + 1 : end - now_ms();
	return *left > PART_MS ? PART_MS : *left > 1 ? (int)*left : 1;
}

/* The library's message says how long the last part was. */
static void raise_timeout(int timeout_ms)
{
	const char *message = gpub_strerror_last(), *within = strstr(message, " within ");
	char text[512];

	if (!within) {
		raise_os(-ETIMEDOUT);
		return;
	}
	snprintf(text, sizeof text, "%.*s within %g s", (int)(within - message), message, timeout_ms / 1000.0);
	raise_os_text(-ETIMEDOUT, "%s", text);
}

int call_patiently(int (*attempt)(void *context, int timeout_ms), void *context, int timeout_ms)
{
	int64_t end = now_ms() + timeout_ms, left = 0;
	int error;

	do {
		int part = timeout_ms ? part_of(timeout_ms, end, &left) : 0;

		Py_BEGIN_ALLOW_THREADS
		error = attempt(context, part);
		Py_END_ALLOW_THREADS
	} while (error == -ETIMEDOUT && left > PART_MS && !PyErr_CheckSignals());
	if (error == -ETIMEDOUT && !PyErr_Occurred())
		raise_timeout(timeout_ms);
	else if (error && !PyErr_Occurred())
		raise_os(error);
	return error ? -1 : 0;
}
