/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - see errors.h */
#include "errors.h"

#include <stdarg.h>

/* Takes the text over. */
static PyObject *raise_with(int error, PyObject *text)
{
	PyObject *arguments = text ? Py_BuildValue("(iN)", -error, text) : NULL;

	if (arguments)
		PyErr_SetObject(PyExc_OSError, arguments);
	Py_XDECREF(arguments);
	return NULL;
}

PyObject *raise_os(int error)
{
	return raise_with(error, PyUnicode_DecodeFSDefault(gpub_strerror_last()));
}

PyObject *raise_os_text(int error, const char *format, ...)
{
	PyObject *text;
	va_list values;

	va_start(values, format);
	text = PyUnicode_FromFormatV(format, values);
	va_end(values);
	return raise_with(error, text);
}

PyObject *raise_value(void)
{
	PyErr_SetString(PyExc_ValueError, gpub_strerror_last());
	return NULL;
}
