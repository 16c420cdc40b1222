/* SPDX-License-Identifier: Apache-2.0 */
/* array.c - see array.h */
#include "array.h"

#include <stdio.h>

#include "dlpack.h"

/* ---- the buffer protocol ---- */

static const char *why_no_buffer(const struct hold *hold, int flags)
{
	if (!hold_is_host(hold))
		return "is in GPU memory, which the host cannot read: take torch(), cupy(), numba(), jax() or warp() "
		       "of the lease";
	if ((flags & PyBUF_WRITABLE) && !(hold->lease.rights & GPUB_WRITE))
		return "is leased for reading: acquire it with 'rw' to write";
	if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && hold->ndim > 1)
		return "is in row-major order";
	if ((flags & PyBUF_FORMAT) && !layout_format(&hold->layout))
		return "has elements that the buffer protocol cannot name: take numpy() of the lease (with ml_dtypes), "
		       "or torch()";
	return NULL;
}

static void view_fill(struct hold *hold, Py_buffer *view, int flags)
{
	const char *format = layout_format(&hold->layout);

	view->buf = hold->lease.ptr;
	view->len = (Py_ssize_t)layout_nbytes(&hold->layout);
	view->readonly = !(hold->lease.rights & GPUB_WRITE);
	view->itemsize = hold->layout.bits / 8;
	view->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
	view->ndim = flags & PyBUF_ND ? hold->ndim : 1;
	view->shape = flags & PyBUF_ND ? hold->shape : NULL;
	view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? hold->strides : NULL;
	view->suboffsets = NULL;
	view->internal = hold;
}

/* An array's view: the array, which the view keeps, counts. */
static int view_of(PyObject *object, struct hold *hold, Py_buffer *view, int flags)
{
	const char *problem;

	view->obj = NULL;
	if (!hold_enter(hold))
		return -1;
	problem = why_no_buffer(hold, flags);
	if (problem) {
		PyErr_Format(PyExc_BufferError, "%s %s", hold->label, problem);
	} else {
		view_fill(hold, view, flags);
		view->obj = Py_NewRef(object);
	}
	connection_leave(hold->connection);
	return problem ? -1 : 0;
}

int buffer_get(PyObject *object, struct hold *hold, Py_buffer *view, int flags)
{
	view->obj = NULL;
	if (!hold_export(hold))
		return -1;
	if (!view_of(object, hold, view, flags))
		return 0;
	hold_export_end(hold);
	return -1;
}

void buffer_release(Py_buffer *view)
{
	hold_export_end(view->internal);
}

/* ---- array interfaces ---- */

/* "<f4"; "|V2" where NumPy has no such type. */
static void typestr_write(const gpub_layout *layout, char text[8])
{
	static const char kinds[] = {
		[GPUB_INT] = 'i', [GPUB_UINT] = 'u', [GPUB_FLOAT] = 'f', [GPUB_COMPLEX] = 'c', [GPUB_BOOL] = 'b'
	};
	char kind = layout->code < sizeof kinds && kinds[layout->code] ? kinds[layout->code] : 'V';

	snprintf(text, 8, "%c%c%d", kind == 'V' || layout->bits == 8 ? '|' : '<', kind, layout->bits / 8);
}

static PyObject *shape_tuple(const struct hold *hold)
{
	PyObject *tuple = PyTuple_New(hold->ndim);

	for (int i = 0; tuple && i < hold->ndim; i++) {
		PyObject *extent = PyLong_FromSsize_t(hold->shape[i]);

		if (!extent || PyTuple_SetItem(tuple, i, extent))
			Py_CLEAR(tuple);
	}
	return tuple;
}

PyObject *interface_of(const struct hold *hold, PyObject *stream)
{
	PyObject *shape = shape_tuple(hold);
	void *data = layout_nbytes(&hold->layout) ? hold->lease.ptr : NULL;
	bool read_only = !(hold->lease.rights & GPUB_WRITE);
	char typestr[8];

	if (!shape)
		return NULL;
	typestr_write(&hold->layout, typestr);
	return Py_BuildValue("{s:i,s:N,s:s,s:(KN),s:O,s:O}", "version", 3, "shape", shape, "typestr", typestr, "data",
			     (unsigned long long)(uintptr_t)data, PyBool_FromLong(read_only), "strides", Py_None,
			     "stream", stream);
}

/* ---- the object between a lease and a consumer ---- */

struct array {
	PyObject_HEAD
	struct hold *hold;
};

PyObject *array_new(const struct module_types *types, struct hold *hold)
{
	struct array *made;

	if (!hold_export(hold))
		return NULL;
	made = PyObject_New(struct array, types->array);
	if (made)
		made->hold = hold;
	else
		hold_export_end(hold);
	return (PyObject *)made;
}

static void array_dealloc(struct array *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	hold_export_end(self->hold);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *array_interface(struct array *self, void *wanted_host)
{
	if (hold_is_host(self->hold) == (wanted_host != NULL))
		return interface_of(self->hold, Py_None);
	PyErr_SetString(PyExc_AttributeError, "the memory is not of that kind of device");
	return NULL;
}

static PyObject *array_dlpack(struct array *self, PyObject *args, PyObject *keywords)
{
	return dlpack_export(self->hold, args, keywords, true);
}

static PyObject *array_dlpack_device(struct array *self, PyObject *Py_UNUSED(none))
{
	return dlpack_device(self->hold);
}

static int array_buffer(struct array *self, Py_buffer *view, int flags)
{
	return view_of((PyObject *)self, self->hold, view, flags);
}

static PyMethodDef methods[] = {
	{ "__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS, NULL },
	{ "__dlpack_device__", (PyCFunction)array_dlpack_device, METH_NOARGS, NULL },
	{ 0 },
};

static PyGetSetDef getset[] = {
	{ "__array_interface__", (getter)array_interface, NULL, NULL, "host" },
	{ "__cuda_array_interface__", (getter)array_interface, NULL, NULL, NULL },
	{ 0 },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "The memory of a lease, for a framework that keeps the object it was given: it counts as an "
		     "exported array." },
	{ Py_tp_dealloc, (void *)array_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_bf_getbuffer, (void *)array_buffer },
	{ 0, NULL },
};

PyType_Spec array_spec = {
	.name = "gpubroker._core.Array",
	.basicsize = sizeof(struct array),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};

/* ---- the base of arrays.py's arrays ---- */

static int base_buffer(PyObject *self, Py_buffer *view, int flags)
{
	PyObject *exported = call_python("gpubroker.arrays", "exported", self);
	int result = exported ? PyObject_GetBuffer(exported, view, flags) : -1;

	if (!exported)
		view->obj = NULL;
	Py_XDECREF(exported);
	return result;
}

static PyType_Slot base_slots[] = {
	{ Py_bf_getbuffer, (void *)base_buffer },
	{ 0, NULL },
};

static PyType_Spec base_spec = {
	.name = "gpubroker._core.ArrayBase",
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = base_slots,
};

PyObject *array_base(PyObject *module, PyObject *ndarray)
{
	return PyType_FromModuleAndSpec(module, &base_spec, ndarray);
}
