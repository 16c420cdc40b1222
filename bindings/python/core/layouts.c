/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c - see layouts.h */
#include "layouts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "errors.h"
#include "module.h"

#define TEXT_MAX 256 /* of a type and GPUB_DIMS_MAX extents of 20 digits */

/* ---- dtype ---- */

/* Writes its name as the library has it. */
static int dtype_write(PyObject *dtype, char text[TEXT_MAX])
{
	PyObject *object = call_python("gpubroker.dtypes", "name_of", dtype);
	const char *name = object ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;

	if (name)
		snprintf(text, 64, "%s", name);
	Py_XDECREF(object);
	return name ? 0 : -1;
}

/* ---- shape ---- */

static int extent_from_python(PyObject *item, int any, uint64_t *extent)
{
	PyObject *number;
	long long value;

	if (any && item == Py_None) {
		*extent = GPUB_ANY_EXTENT;
		return 0;
	}
	number = PyNumber_Index(item);
	value = number ? PyLong_AsLongLong(number) : -1;
	Py_XDECREF(number);
	if (PyErr_Occurred())
		return -1;
	if (value < 0 && !(any && value == -1)) {
		PyErr_Format(PyExc_ValueError, "an extent of %lld: extents are not negative", value);
		return -1;
	}
	*extent = value < 0 ? GPUB_ANY_EXTENT : (uint64_t)value;
	return 0;
}

static int extents_from_tuple(PyObject *tuple, int any, gpub_layout *layout)
{
	Py_ssize_t count = PyTuple_Size(tuple);

	if (count > GPUB_DIMS_MAX) {
		PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions: a buffer has up to %d", count,
			     GPUB_DIMS_MAX);
		return -1;
	}
	layout->ndim = (uint32_t)count;
	for (Py_ssize_t i = 0; i < count; i++)
		if (extent_from_python(PyTuple_GetItem(tuple, i), any, &layout->shape[i]))
			return -1;
	return 0;
}

static int shape_from_python(PyObject *shape, int any, gpub_layout *layout)
{
	PyObject *tuple = PyIndex_Check(shape) ? PyTuple_Pack(1, shape) : PySequence_Tuple(shape);
	int result = tuple ? extents_from_tuple(tuple, any, layout) : -1;

	Py_XDECREF(tuple);
	return result;
}

/* The library reads the type, and says what is wrong with the whole; an extent that may be any is 1 there. */
int layout_from_python(PyObject *shape, PyObject *dtype, int any, gpub_layout *layout)
{
	gpub_layout wanted = { 0 };
	char text[TEXT_MAX];
	int length;

	if (shape_from_python(shape, any, &wanted) || dtype_write(dtype, text))
		return -1;
	length = (int)strlen(text);
	text[length++] = '[';
	for (unsigned i = 0; i < wanted.ndim; i++)
		length += snprintf(text + length, TEXT_MAX - (size_t)length, "%s%llu", i ? "," : "",
				   wanted.shape[i] == GPUB_ANY_EXTENT ? 1 : (unsigned long long)wanted.shape[i]);
	snprintf(text + length, TEXT_MAX - (size_t)length, "]");
	if (gpub_layout_parse(text, layout))
		return raise_value(), -1;
	memcpy(layout->shape, wanted.shape, sizeof wanted.shape);
	return 0;
}

/* ---- back ---- */

gpub_layout layout_of_bytes(uint64_t size)
{
	return (gpub_layout){ .code = GPUB_UINT, .bits = 8, .lanes = 1, .ndim = 1, .shape = { size } };
}

int64_t layout_nbytes(const gpub_layout *layout)
{
	uint64_t elements = layout->lanes;

	for (unsigned i = 0; i < layout->ndim; i++)
		elements *= layout->shape[i];
	return (int64_t)(elements / 8 * layout->bits + (elements % 8 * layout->bits + 7) / 8);
}

int layout_dims(const gpub_layout *layout, int64_t shape[LAYOUT_DIMS], int64_t strides[LAYOUT_DIMS])
{
	int ndim = (int)layout->ndim;
	int64_t stride = layout->bits / 8;

	for (int i = 0; i < ndim; i++)
		shape[i] = (int64_t)layout->shape[i];
	if (layout->lanes > 1)
		shape[ndim++] = layout->lanes;
	for (int i = ndim - 1; i >= 0; i--) {
		strides[i] = stride;
		stride *= shape[i];
	}
	return ndim;
}

PyObject *layout_shape(const gpub_layout *layout)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)layout->ndim);

	for (unsigned i = 0; tuple && i < layout->ndim; i++) {
		PyObject *extent = PyLong_FromUnsignedLongLong(layout->shape[i]);

		if (!extent || PyTuple_SetItem(tuple, (Py_ssize_t)i, extent))
			Py_CLEAR(tuple);
	}
	return tuple;
}

PyObject *layout_dtype(const gpub_layout *layout)
{
	char text[GPUB_LAYOUT_TEXT_MAX];
	int error = gpub_layout_text(layout, text);

	return error ? raise_os(error) : PyUnicode_FromStringAndSize(text, (Py_ssize_t)strcspn(text, "["));
}

/* ---- views of others ---- */

/* What the elements of a view are, by the code of their format. False: none of a buffer's types. */
static bool elements_of(const Py_buffer *view, const char *format, gpub_layout *elements)
{
	static const struct {
		const char *formats;
		uint8_t code;
	} codes[] = { { "?", GPUB_BOOL }, { "bhilqn", GPUB_INT }, { "BHILQN", GPUB_UINT }, { "efd", GPUB_FLOAT } };
	bool complex = *format == 'Z';

	*elements = (gpub_layout){ .bits = (uint8_t)(view->itemsize * 8), .lanes = 1, .code = GPUB_COMPLEX };
	if (view->itemsize > 16 || !format[complex] || format[complex + 1])
		return false;
	if (complex)
		return strchr("fd", format[1]) != NULL;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (strchr(codes[i].formats, *format)) {
			elements->code = codes[i].code;
			return true;
		}
	return false;
}

int layout_check_view(const gpub_layout *layout, const Py_buffer *view, const char *label)
{
	const char *format = view->format ? view->format : "B";
	bool foreign = view->itemsize > 1 && (*format == '>' || *format == '!');
	gpub_layout elements, own = { .code = layout->code, .bits = layout->bits, .lanes = 1 };
	PyObject *has, *wanted;

	format += strspn(format, "@=<>!");
	if ((layout->code == GPUB_UINT && layout->bits == 8) || !strcmp(format, "B") || !strcmp(format, "c"))
		return 0;
	has = elements_of(view, format, &elements) && !foreign ? layout_dtype(&elements) :
								 PyUnicode_FromString(view->format);
	wanted = layout_dtype(&own);
	if (has && wanted && PyUnicode_Compare(has, wanted))
		PyErr_Format(PyExc_TypeError,
			     "%s has elements of %U, and this memory has %U: convert it, or pass its bytes, as "
			     "memoryview(...).cast('B')",
			     label, wanted, has);
	Py_XDECREF(has);
	Py_XDECREF(wanted);
	return PyErr_Occurred() ? -1 : 0;
}

const char *layout_format(const gpub_layout *layout)
{
	static const struct {
		uint8_t code, bits;
		const char *format;
	} formats[] = {
		{ GPUB_BOOL, 8, "?" },	 { GPUB_INT, 8, "b" },	   { GPUB_INT, 16, "h" },     { GPUB_INT, 32, "i" },
		{ GPUB_INT, 64, "q" },	 { GPUB_UINT, 8, "B" },	   { GPUB_UINT, 16, "H" },    { GPUB_UINT, 32, "I" },
		{ GPUB_UINT, 64, "Q" },	 { GPUB_FLOAT, 16, "e" },  { GPUB_FLOAT, 32, "f" },   { GPUB_FLOAT, 64, "d" },
		{ GPUB_COMPLEX, 64, "Zf" }, { GPUB_COMPLEX, 128, "Zd" },
	};

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (formats[i].code == layout->code && formats[i].bits == layout->bits)
			return formats[i].format;
	return NULL;
}
