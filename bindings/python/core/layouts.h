/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.h - shape and dtype of Python as gpub_layout, and back. Owns nothing. */
#ifndef GPUB_PYTHON_LAYOUTS_H
#define GPUB_PYTHON_LAYOUTS_H

#include "python.h"

#define LAYOUT_DIMS (GPUB_DIMS_MAX + 1) /* the elements of a vector type are a dimension in Python */

/*
 * shape: an int or a sequence of them; with any, None or -1 is any extent. dtype: what dtypes.py knows. -1: a TypeError
 * or ValueError is set.
 */
int layout_from_python(PyObject *shape, PyObject *dtype, int any, gpub_layout *layout);

/* Of a lease whose buffer has no layout: its bytes. */
gpub_layout layout_of_bytes(uint64_t size);

/* Extents and bytes between neighbours, with the lanes of a vector type as the last dimension. Returns how many. */
int layout_dims(const gpub_layout *layout, int64_t shape[LAYOUT_DIMS], int64_t strides[LAYOUT_DIMS]);
int64_t layout_nbytes(const gpub_layout *layout);

PyObject *layout_shape(const gpub_layout *layout); /* a tuple */
PyObject *layout_dtype(const gpub_layout *layout); /* "float32" */

/*
 * Whether memory of that view has the layout's elements. Bytes have any, and a buffer of bytes has all. -1: a TypeError
 * is set, with both types; label: the buffer.
 */
int layout_check_view(const gpub_layout *layout, const Py_buffer *view, const char *label);

/* As the struct module names the type; NULL: it cannot. */
const char *layout_format(const gpub_layout *layout);

#endif
