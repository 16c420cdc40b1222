/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c - see layouts.h */
#include "layouts.h"

#include <stdio.h>
#include <string.h>

#include "errors.h"

#define TEXT_MAX 256 /* of a type and GPUB_DIMS_MAX extents of 20 digits */

/* ---- dtype ---- */

static const char *builtin_name(PyObject *dtype)
{
	if (dtype == (PyObject *)&PyBool_Type)
		return "bool";
	if (dtype == (PyObject *)&PyLong_Type)
		return "int64";
	if (dtype == (PyObject *)&PyFloat_Type)
		return "float64";
	return dtype == (PyObject *)&PyComplex_Type ? "complex128" : NULL;
}

/* A NumPy dtype of the other byte order has the name of the native one. */
static int refuse_big_endian(PyObject *dtype)
{
	PyObject *order = PyObject_GetAttrString(dtype, "byteorder");
	int other = order && PyUnicode_Check(order) && !PyUnicode_CompareWithASCIIString(order, ">");

	PyErr_Clear();
	Py_XDECREF(order);
	if (other)
		PyErr_Format(PyExc_ValueError, "%R is big-endian, which no device computes with: convert it", dtype);
	return other ? -1 : 0;
}

/* numpy.dtype has .name, numpy.float32 is a class, torch.float32 prints itself as "torch.float32". A new reference. */
static PyObject *dtype_text(PyObject *dtype)
{
	const char *builtin = builtin_name(dtype);
	PyObject *text;

	if (builtin)
		return PyUnicode_FromString(builtin);
	if (PyUnicode_Check(dtype))
		return Py_NewRef(dtype);
	if (refuse_big_endian(dtype))
		return NULL;
	text = PyObject_GetAttrString(dtype, PyType_Check(dtype) ? "__name__" : "name");
	if (text && PyUnicode_Check(text))
		return text;
	Py_XDECREF(text);
	PyErr_Clear();
	return PyObject_Str(dtype);
}

/* Writes its last component. */
static int dtype_write(PyObject *dtype, char text[TEXT_MAX])
{
	PyObject *object = dtype_text(dtype);
	const char *name = object ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL, *dot = name ? strrchr(name, '.') : NULL;

	if (name)
		snprintf(text, 64, "%s", dot ? dot + 1 : name);
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
		PyErr_Format(PyExc_ValueError, "a shape of %zd dimensions: a buffer has up to %d", count, GPUB_DIMS_MAX);
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
