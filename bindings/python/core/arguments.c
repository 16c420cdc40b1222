/* SPDX-License-Identifier: Apache-2.0 */
/* arguments.c - see arguments.h */
#include "arguments.h"

#include <limits.h>
#include <math.h>

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
	*timeout_ms = value < INT_MAX ? (int)value : isinf(value) ? -1 : INT_MAX;
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

int unsigned_from_python(PyObject *object, void *value)
{
	uint64_t number;

	if (!number_from_python(object, &number))
		return 0;
	if (number > UINT32_MAX) {
		PyErr_Format(PyExc_OverflowError, "%R has more than 32 bits", object);
		return 0;
	}
	*(uint32_t *)value = (uint32_t)number;
	return 1;
}

int user_from_python(PyObject *object, void *value)
{
	uint32_t user;

	if (object == Py_None)
		return 1;
	if (!unsigned_from_python(object, &user))
		return 0;
	if (user == GPUB_ANY_USER) {
		PyErr_Format(PyExc_ValueError, "%R is no uid: None stands for any user", object);
		return 0;
	}
	*(uint32_t *)value = user;
	return 1;
}

int maybe_from_python(PyObject *object, struct maybe *maybe)
{
	*maybe = (struct maybe){ .given = object != Py_None };
	return !maybe->given || number_from_python(object, &maybe->value) ? 0 : -1;
}
