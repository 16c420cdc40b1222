/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array.h - how a lease shows its memory: the buffer protocol, and the array interfaces of NumPy and CUDA. And
 * gpubroker._core.Array, which stands between a lease and a consumer that keeps the object it was given: so its arrays
 * are counted.
 */
#ifndef GPUB_PYTHON_ARRAY_H
#define GPUB_PYTHON_ARRAY_H

#include "hold.h"
#include "module.h"

/* Py_bf_getbuffer and Py_bf_releasebuffer of an object that has this hold. */
int buffer_get(PyObject *object, struct hold *hold, Py_buffer *view, int flags);
void buffer_release(Py_buffer *view);

/* The value of __array_interface__ and of __cuda_array_interface__; the latter with that stream. */
PyObject *interface_of(const struct hold *hold, PyObject *stream);

/*
 * A subclass of numpy.ndarray, which is given, for arrays.py: a buffer of such an array is one of what arrays.py's
 * exported() makes of it, and keeps that.
 */
PyObject *array_base(PyObject *module, PyObject *ndarray);

/* Of a lease: an export of its hold, until it is collected. */
PyObject *array_new(const struct module_types *types, struct hold *hold);

#endif
