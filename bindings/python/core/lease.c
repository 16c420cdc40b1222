/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - see lease.h */
#include "lease.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "array.h"
#include "dlpack.h"
#include "errors.h"

struct lease {
	PyObject_HEAD
	struct hold *hold;
	PyObject    *arrays; /* frameworks.py's: those that end with it. NULL: none */
};

PyObject *lease_new(const struct module_types *types, struct hold *hold)
{
	struct lease *made = PyObject_New(struct lease, types->lease);

	if (!made) {
		hold_put(hold);
		return NULL;
	}
	made->hold = hold;
	made->arrays = NULL;
	return (PyObject *)made;
}

/*
 * Warns that the program did not release a lease, whose last object is being collected. The warning has no `source`,
 * because that argument would keep the object alive.
 */
static void warn_forgotten(const struct hold *hold)
{
	PyObject *type, *value, *traceback;

	if (hold->state != HOLD_HELD || hold->forsaken)
		return;
	PyErr_Fetch(&type, &value, &traceback);
	if (PyErr_ResourceWarning(NULL, 1,
				  "a lease on %s was not released: use it in a with statement, or call release()",
				  hold->label))
		PyErr_WriteUnraisable(NULL);
	PyErr_Restore(type, value, traceback);
}

static void lease_dealloc(struct lease *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	warn_forgotten(self->hold);
	hold_put(self->hold);
	Py_CLEAR(self->arrays);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *lease_repr(struct lease *self)
{
	const struct hold *hold = self->hold;
	char text[GPUB_LAYOUT_TEXT_MAX] = "?";
	PyObject *name = PyUnicode_DecodeFSDefault(hold->label), *repr;

	if (!name)
		return NULL;
	gpub_layout_text(&hold->layout, text);
	repr = PyUnicode_FromFormat("<gpubroker.Lease %U %s %s%s>", name, text, rights_text(hold->lease.rights),
				    hold->state == HOLD_HELD ? "" : ", released");
	Py_DECREF(name);
	return repr;
}

/* ---- what it is ---- */

static PyObject *get_ptr(struct lease *self, void *Py_UNUSED(none))
{
	if (!hold_enter(self->hold))
		return NULL;
	self->hold->unordered = true;
	connection_leave(self->hold->connection);
	return PyLong_FromVoidPtr(self->hold->lease.ptr);
}

static PyObject *get_name(struct lease *self, void *Py_UNUSED(none))
{
	return self->hold->name[0] ? PyUnicode_DecodeFSDefault(self->hold->name) : Py_NewRef(Py_None);
}

static PyObject *get_nbytes(struct lease *self, void *Py_UNUSED(none))
{
	return PyLong_FromLongLong(layout_nbytes(&self->hold->layout));
}

static PyObject *get_shape(struct lease *self, void *Py_UNUSED(none))
{
	return layout_shape(&self->hold->layout);
}

static PyObject *get_dtype(struct lease *self, void *Py_UNUSED(none))
{
	return layout_dtype(&self->hold->layout);
}

static PyObject *get_device(struct lease *self, void *Py_UNUSED(none))
{
	return PyLong_FromLong(self->hold->lease.device);
}

static PyObject *get_rights(struct lease *self, void *Py_UNUSED(none))
{
	return PyUnicode_FromString(rights_text(self->hold->lease.rights));
}

static PyObject *get_generation(struct lease *self, void *Py_UNUSED(none))
{
	return PyLong_FromUnsignedLongLong(self->hold->generation);
}

static PyObject *get_released(struct lease *self, void *Py_UNUSED(none))
{
	return PyBool_FromLong(self->hold->state != HOLD_HELD);
}

static PyObject *get_exports(struct lease *self, void *Py_UNUSED(none))
{
	return PyLong_FromUnsignedLong(atomic_load(&self->hold->exports));
}

static PyObject *get_timeline(struct lease *self, void *Py_UNUSED(none))
{
	uint64_t value = 0;
	int error;

	if (!hold_enter(self->hold))
		return NULL;
	error = gpub_timeline(&self->hold->lease, &value);
	connection_leave(self->hold->connection);
	return error ? raise_os_of(self->hold->label, error) : PyLong_FromUnsignedLongLong(value);
}

static PyObject *get_reached(struct lease *self, void *Py_UNUSED(none))
{
	uint64_t value = 0;
	int error;

	if (!hold_enter(self->hold))
		return NULL;
	error = gpub_timeline_wait(&self->hold->lease, 0, 0, &value);
	connection_leave(self->hold->connection);
	return error ? raise_os_of(self->hold->label, error) : PyLong_FromUnsignedLongLong(value);
}

static PyObject *get_address(struct lease *self, void *Py_UNUSED(none))
{
	const char *address = self->hold->connection->address;

	return address ? PyUnicode_DecodeFSDefault(address) : Py_NewRef(Py_None);
}

/* Which broker it is of. */
static PyObject *get_node(struct lease *self, void *Py_UNUSED(none))
{
	char text[GPUB_NODE_SIZE];
	int error;

	if (!hold_enter(self->hold))
		return NULL;
	error = gpub_node(self->hold->connection->client, text);
	connection_leave(self->hold->connection);
	return error ? raise_os(error) : PyUnicode_FromString(text);
}

/* A dict, which frameworks.py fills. */
static PyObject *get_arrays(struct lease *self, void *Py_UNUSED(none))
{
	if (!hold_enter(self->hold))
		return NULL;
	connection_leave(self->hold->connection);
	if (!self->arrays)
		self->arrays = PyDict_New();
	return Py_XNewRef(self->arrays);
}

/* The handle of the stream that its work is ordered on, None before there is one. */
static PyObject *get_stream(struct lease *self, void *Py_UNUSED(none))
{
	return self->hold->order == ORDER_NONE ? Py_NewRef(Py_None) : PyLong_FromVoidPtr(self->hold->stream);
}

/* ---- its memory ---- */

static PyObject *get_array_interface(struct lease *self, void *Py_UNUSED(none))
{
	PyObject *made = NULL;

	if (!hold_is_host(self->hold)) {
		PyErr_SetString(PyExc_AttributeError, "__array_interface__: the lease is on a CUDA device");
		return NULL;
	}
	if (hold_enter(self->hold)) {
		made = interface_of(self->hold, Py_None);
		connection_leave(self->hold->connection);
	}
	return made;
}

/* The consumer names no stream. So the order is that of wait(), and nobody knows the stream if there was none. */
static PyObject *cuda_interface(struct hold *hold)
{
	PyObject *stream, *made;

	if (hold->order == ORDER_NONE && hold->at.given) {
		PyErr_SetString(PyExc_BufferError, "a lease with 'at' shows itself in the order of a stream: take "
						   "cupy(), numba() or from_dlpack(), or call wait(stream) first");
		return NULL;
	}
	hold->unordered |= hold->order == ORDER_NONE;
	stream = hold->order == ORDER_NONE ? Py_NewRef(Py_None) :
					     PyLong_FromVoidPtr(hold->stream ? hold->stream : (void *)1);
	made = stream ? interface_of(hold, stream) : NULL;
	Py_XDECREF(stream);
	return made;
}

static PyObject *get_cuda_interface(struct lease *self, void *Py_UNUSED(none))
{
	PyObject *made = NULL;

	if (hold_is_host(self->hold)) {
		PyErr_SetString(PyExc_AttributeError, "__cuda_array_interface__: the lease is on the host device");
		return NULL;
	}
	if (hold_enter(self->hold)) {
		made = cuda_interface(self->hold);
		connection_leave(self->hold->connection);
	}
	return made;
}

static PyObject *lease_dlpack(struct lease *self, PyObject *args, PyObject *keywords)
{
	return dlpack_export(self->hold, args, keywords, false);
}

static PyObject *lease_dlpack_device(struct lease *self, PyObject *Py_UNUSED(none))
{
	return dlpack_device(self->hold);
}

static int lease_buffer(struct lease *self, Py_buffer *view, int flags)
{
	return buffer_get((PyObject *)self, self->hold, view, flags);
}

static void lease_buffer_release(PyObject *Py_UNUSED(self), Py_buffer *view)
{
	buffer_release(view);
}

static PyObject *lease_array(struct lease *self, PyObject *Py_UNUSED(none))
{
	return array_new(types_of((PyObject *)self), self->hold);
}

#define FRAMEWORK(name)                                                              \
	static PyObject *lease_##name(PyObject *self, PyObject *Py_UNUSED(none))     \
	{                                                                            \
		return call_python("gpubroker.frameworks", #name, self);            \
	}
FRAMEWORK(numpy)
FRAMEWORK(torch)
FRAMEWORK(cupy)
FRAMEWORK(numba)
FRAMEWORK(jax)
FRAMEWORK(warp)

/* ---- copies ---- */

/* Copies between the view and the lease's bytes; whole: the part from offset on must be that long. Ends the view. */
static PyObject *copy(struct lease *self, Py_buffer *view, unsigned long long offset, bool write)
{
	struct hold *hold = self->hold;
	uint64_t nbytes = (uint64_t)layout_nbytes(&hold->layout), size = (uint64_t)view->len;
	int result = -1;

	if (layout_check_view(&hold->layout, view, hold->label))
		; /* the exception is set */
	else if (offset > nbytes || size > nbytes - offset)
		PyErr_Format(PyExc_ValueError, "%llu bytes at %llu are beyond the end of %s, which has %llu",
			     (unsigned long long)size, offset, hold->label, (unsigned long long)nbytes);
	else if (write && !(hold->lease.rights & GPUB_WRITE))
		PyErr_Format(PyExc_BufferError, "%s is leased for reading: acquire it with 'w' or 'rw' to write",
			     hold->label);
	else if (hold_export(hold)) { /* so that no other thread releases it meanwhile */
		result = hold_copy(hold, &(struct copy){ offset, size, view->buf }, 1, write, true);
		hold_export_end(hold);
	}
	PyBuffer_Release(view);
	return result ? NULL : Py_NewRef(Py_None);
}

static PyObject *lease_read_into(struct lease *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "memory", "offset", NULL };
	PyObject *memory;
	uint64_t offset = 0;
	Py_buffer view;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O&:read_into", names, &memory, number_from_python,
					 &offset) ||
	    PyObject_GetBuffer(memory, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | PyBUF_WRITABLE))
		return NULL;
	return copy(self, &view, offset, false);
}

static PyObject *lease_write(struct lease *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "data", "offset", NULL };
	PyObject *data;
	uint64_t offset = 0;
	Py_buffer view;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O&:write", names, &data, number_from_python, &offset) ||
	    PyObject_GetBuffer(data, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT))
		return NULL;
	return copy(self, &view, offset, true);
}

/* ---- many copies from device memory ---- */

static int copy_parse(PyObject *item, uint64_t nbytes, struct copy *copy)
{
	uint64_t offset, from, size;

	if (!PyArg_ParseTuple(item, "O&O&O&:_gather", number_from_python, &offset, number_from_python, &from,
			      number_from_python, &size))
		return -1;
	if (offset > nbytes || size > nbytes - offset) {
		PyErr_SetString(PyExc_ValueError, "a copy beyond the end of the buffer");
		return -1;
	}
	*copy = (struct copy){ offset, size, (void *)(uintptr_t)from }; /* NOLINT(performance-no-int-to-ptr) */
	return 0;
}

static int gather(struct hold *hold, PyObject *list, struct copy *copies, Py_ssize_t count)
{
	int result;

	for (Py_ssize_t i = 0; i < count; i++)
		if (copy_parse(PyList_GetItem(list, i), (uint64_t)layout_nbytes(&hold->layout), &copies[i]))
			return -1;
	if (!hold_export(hold))
		return -1;
	result = hold_copy(hold, copies, (size_t)count, true, false);
	hold_export_end(hold);
	return result;
}

/* A list of (offset, pointer, bytes). The caller sees to the memory behind the pointers until the copies are done. */
static PyObject *lease_gather(struct lease *self, PyObject *list)
{
	Py_ssize_t count = PyList_Check(list) ? PyList_Size(list) : -1;
	struct copy *copies;
	int result;

	if (count < 0 || !(self->hold->lease.rights & GPUB_WRITE)) {
		PyErr_SetString(PyExc_TypeError, "_gather takes a list, of a lease for writing");
		return NULL;
	}
	copies = calloc((size_t)count + 1, sizeof *copies);
	if (!copies)
		return PyErr_NoMemory();
	result = gather(self->hold, list, copies, count);
	free(copies);
	return result ? NULL : Py_NewRef(Py_None);
}

static PyObject *lease_part(struct lease *self, PyObject *args)
{
	return dlpack_part(self->hold, args);
}

/* ---- order and release ---- */

/* A number as it is, 0 too, which is the legacy default stream; of a framework's stream, its handle; None is none. */
static int stream_given(PyObject *object, struct maybe *stream)
{
	PyObject *handle;
	unsigned long long value;

	*stream = (struct maybe){ 0 };
	if (object == Py_None)
		return 0;
	handle =
		PyLong_Check(object) ? Py_NewRef(object) : call_python("gpubroker.frameworks", "stream_handle", object);
	value = handle ? PyLong_AsUnsignedLongLong(handle) : 0;
	Py_XDECREF(handle);
	*stream = (struct maybe){ .value = value == 1 ? 0 : value, .given = 1 };
	return PyErr_Occurred() ? -1 : 0;
}

/* With a timeout the thread waits on every device. */
static int wait_here(struct hold *hold, struct maybe at, int timeout_ms)
{
	if (!at.given)
		at = hold->at;
	return at.given ? hold_wait(hold, at.value, timeout_ms) : 0;
}

static PyObject *lease_wait(struct lease *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "", "at", "timeout", NULL };
	struct hold *hold = self->hold;
	PyObject *object = Py_None, *value = Py_None, *timeout = Py_None;
	struct maybe stream, at;
	int result = 0, timeout_ms;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$OO:wait", names, &object, &value, &timeout) ||
	    stream_given(object, &stream) || maybe_from_python(value, &at) || timeout_from_python(timeout, &timeout_ms))
		return NULL;
	if (!stream.given && !hold_is_host(hold) && hold->order != ORDER_ONE) {
		PyErr_Format(PyExc_ValueError, "nothing says on which stream the memory of %s is used: give the stream",
			     hold->label);
		return NULL;
	}
	if (!hold_export(hold))
		return NULL;
	if (timeout != Py_None)
		result = wait_here(hold, at, timeout_ms);
	if (!result)
		/* NOLINT(performance-no-int-to-ptr) */
		result = hold_order(hold, stream.given ? (void *)(uintptr_t)stream.value : hold->stream, at);
	hold_export_end(hold);
	return result ? NULL : Py_NewRef(Py_None);
}

static PyObject *lease_signal(struct lease *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "", "stream", NULL };
	PyObject *object = Py_None, *number;
	struct maybe stream, value;
	int result;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O:signal", names, &number, &object) ||
	    maybe_from_python(number, &value) || stream_given(object, &stream))
		return NULL;
	if (!value.given)
		return PyErr_Format(PyExc_TypeError, "signal() needs a value of the timeline");
	if (!hold_export(self->hold))
		return NULL;
	result = hold_signal(self->hold, value.value, &stream);
	hold_export_end(self->hold);
	return result ? NULL : Py_NewRef(Py_None);
}

/* Its arrays show nothing from now on. */
static int end_arrays(struct lease *self)
{
	PyObject *arrays = self->arrays, *result;

	if (!arrays || self->hold->state != HOLD_HELD)
		return 0;
	self->arrays = NULL;
	result = call_python("gpubroker.frameworks", "end", arrays);
	Py_DECREF(arrays);
	Py_XDECREF(result);
	return result ? 0 : -1;
}

static PyObject *lease_release(struct lease *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "stream", NULL };
	PyObject *object = Py_None;
	struct maybe stream = { 0 };

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$O:release", names, &object) ||
	    stream_given(object, &stream) || end_arrays(self) || hold_release(self->hold, &stream))
		return NULL;
	return Py_NewRef(Py_None);
}

static PyObject *lease_enter(struct lease *self, PyObject *Py_UNUSED(none))
{
	if (!hold_enter(self->hold))
		return NULL;
	connection_leave(self->hold->connection);
	return Py_NewRef((PyObject *)self);
}

/*
 * A block that failed has not done what the signal would say, and its exception goes on, also where its frames hold
 * arrays.
 */
static PyObject *lease_exit(struct lease *self, PyObject *args)
{
	const struct maybe none = { 0 };
	PyObject *type = Py_None, *ignored;

	if (!PyArg_UnpackTuple(args, "__exit__", 0, 3, &type, &ignored, &ignored))
		return NULL;
	if (type == Py_None)
		return end_arrays(self) || hold_release(self->hold, &none) ? NULL : Py_NewRef(Py_None);
	if (end_arrays(self))
		PyErr_WriteUnraisable((PyObject *)self);
	hold_fail(self->hold);
	return Py_NewRef(Py_None);
}

/* To its arrays alone: the last of them returns it, or this call where there is none. */
static PyObject *lease_leave(struct lease *self, PyObject *Py_UNUSED(none))
{
	hold_leave(self->hold);
	return Py_NewRef(Py_None);
}

static PyObject *lease_reduce(PyObject *self, PyObject *Py_UNUSED(none))
{
	return call_python("gpubroker.sharing", "reduce_lease", self);
}

/* ---- the type ---- */

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef methods[] = {
	{ "numpy", lease_numpy, METH_NOARGS,
	  "numpy($self, /)\n"
	  "--\n\n"
	  "The buffer as a numpy.ndarray, on the host device. Read-only without the right to write.\n\n"
	  "It ends with the lease, and so do its slices: whatever is done with them is a ValueError then. Copy what "
	  "you need later. A view of\n"
	  "another class, as of numpy.asarray(), a memoryview or another framework's tensor stays, and keeps the "
	  "memory. What takes the\n"
	  "array's address without a view, as torch.from_numpy() and ctypes do, must not be used when the lease has "
	  "ended: take torch().\n\n"
	  "BufferError: the buffer is on a CUDA device." },
	{ "torch", lease_torch, METH_NOARGS,
	  "torch($self, /)\n"
	  "--\n\n"
	  "The buffer as a torch.Tensor, in the order of torch.cuda.current_stream().\n\n"
	  "PyTorch has no read-only tensors: do not write one of a lease for reading. Its functions refuse the tensor "
	  "with a ValueError when the\n"
	  "lease has ended; the memory goes back with the last tensor that shows it." },
	{ "cupy", lease_cupy, METH_NOARGS,
	  "cupy($self, /)\n"
	  "--\n\n"
	  "The buffer as a cupy.ndarray, in the order of CuPy's current stream.\n\n"
	  "CuPy has no read-only arrays: do not write one of a lease for reading." },
	{ "numba", lease_numba, METH_NOARGS,
	  "numba($self, /)\n"
	  "--\n\n"
	  "The buffer as a numba.cuda device array, in the order of the stream that wait() was told, else of numba's "
	  "default\n"
	  "stream. On the host device a numpy.ndarray." },
	{ "jax", lease_jax, METH_NOARGS,
	  "jax($self, /)\n"
	  "--\n\n"
	  "The buffer as a jax.Array. JAX works on streams of its own: call block_until_ready() on its results, and\n"
	  "release(stream=...) with the stream that the next user is to stand behind." },
	{ "warp", lease_warp, METH_NOARGS,
	  "warp($self, /)\n--\n\nThe buffer as a warp.array, in the order of Warp's current stream of the device." },
	{ "wait", KEYWORDS(lease_wait), METH_VARARGS | METH_KEYWORDS,
	  "wait($self, stream=None, /, *, at=None, timeout=None)\n"
	  "--\n\n"
	  "Has that stream wait for 'at', on the device, and makes it the stream that release() signals and returns "
	  "on.\n\n"
	  "For kernels that take ptr, and for a lease that is held over several steps. at: a value of the buffer's "
	  "timeline;\n"
	  "None is the one that acquire() was given. stream: a number, or a stream of torch, CuPy, numba, Warp or "
	  "cuda.core; None\n"
	  "is the one that the lease is used on. On the host device the thread waits, and Ctrl-C ends its wait. "
	  "timeout: seconds in which\n"
	  "the value must be reached; with it the thread waits on a GPU, too.\n\n"
	  "TimeoutError. ValueError: no stream is known. OSError EOWNERDEAD: the timeline's writer ended before 'at'; "
	  "'reached' says where.\n"
	  "OSError: as gpub_wait_on(3)." },
	{ "signal", KEYWORDS(lease_signal), METH_VARARGS | METH_KEYWORDS,
	  "signal($self, value, /, *, stream=None)\n"
	  "--\n\n"
	  "Sets the buffer's timeline to value, behind the work of the stream, and holds the lease on.\n\n"
	  "stream: as wait() takes it. On the host device the work is what the thread has done. ValueError: the lease "
	  "is used on several streams,\n"
	  "or nobody knows which. OSError: as gpub_signal_on(3), EACCES without the right to write." },
	{ "release", KEYWORDS(lease_release), METH_VARARGS | METH_KEYWORDS,
	  "release($self, /, *, stream=None)\n"
	  "--\n\n"
	  "Signals and returns the lease, behind the work of the stream that its arrays were taken on. Twice is "
	  "nothing.\n\n"
	  "The arrays of numpy() end. Where other arrays live, their memory goes back with the last of them.\n\n"
	  "ValueError: its arrays are on several streams, or ptr was used on one that nobody named: give the stream "
	  "that is behind all\n"
	  "of them. OSError: as gpub_signal_on(3) and gpub_return_on(3)." },
	{ "read_into", KEYWORDS(lease_read_into), METH_VARARGS | METH_KEYWORDS,
	  "read_into($self, /, memory, offset=0)\n"
	  "--\n\n"
	  "Copies bytes of the buffer, from offset on, into writable host memory (bytearray, numpy.ndarray), and waits "
	  "for that.\n\n"
	  "It comes behind 'at' and behind the stream that the lease is used on. TypeError: the memory has elements of "
	  "another type; bytes\n"
	  "have none, and a buffer of uint8 takes and gives all. ValueError: beyond the end of the buffer." },
	{ "write", KEYWORDS(lease_write), METH_VARARGS | METH_KEYWORDS,
	  "write($self, /, data, offset=0)\n"
	  "--\n\n"
	  "Copies host memory (bytes, numpy.ndarray) into the buffer, from offset on, and waits for that.\n\n"
	  "TypeError: the data has elements of another type, as for read_into(). BufferError: no right to write. "
	  "ValueError: beyond the end\n"
	  "of the buffer." },
	{ "__dlpack__", KEYWORDS(lease_dlpack), METH_VARARGS | METH_KEYWORDS,
	  "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n"
	  "--\n\n"
	  "The buffer as a DLPack capsule, for from_dlpack() of any framework.\n\n"
	  "BufferError: a lease for reading and a consumer that knows no read-only arrays; another device; "
	  "copy=True." },
	{ "__dlpack_device__", (PyCFunction)lease_dlpack_device, METH_NOARGS,
	  "__dlpack_device__($self, /)\n--\n\n(1, 0) on the host device, (2, ordinal) on CUDA." },
	{ "_array", (PyCFunction)lease_array, METH_NOARGS, NULL },
	{ "_part", (PyCFunction)lease_part, METH_VARARGS, NULL },
	{ "_gather", (PyCFunction)lease_gather, METH_O, NULL },
	{ "_leave", (PyCFunction)lease_leave, METH_NOARGS, NULL },
	{ "__enter__", (PyCFunction)lease_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)lease_exit, METH_VARARGS, NULL },
	{ "__reduce__", lease_reduce, METH_NOARGS, NULL },
	{ 0 },
};

static PyGetSetDef getset[] = {
	{ "ptr", (getter)get_ptr, NULL, "int: device pointer; a host pointer on the host device.", NULL },
	{ "name", (getter)get_name, NULL, "str: the name it was acquired by; None: redeemed.", NULL },
	{ "nbytes", (getter)get_nbytes, NULL, "int: bytes of the array.", NULL },
	{ "shape", (getter)get_shape, NULL, "tuple of ints; (nbytes,) where the buffer has no layout.", NULL },
	{ "dtype", (getter)get_dtype, NULL, "str, as 'float32'; 'uint8' where the buffer has no layout.", NULL },
	{ "device", (getter)get_device, NULL, "int: CUDA ordinal in this process, -1 on the host device.", NULL },
	{ "rights", (getter)get_rights, NULL, "str: 'r', 'w' or 'rw'.", NULL },
	{ "generation", (getter)get_generation, NULL, "int: serial of the buffer, never used again.", NULL },
	{ "released", (getter)get_released, NULL, "bool: it was released.", NULL },
	{ "exports", (getter)get_exports, NULL,
	  "int: how many exported arrays live, also behind release(): they keep the memory.", NULL },
	{ "timeline", (getter)get_timeline, NULL,
	  "int: the value that the buffer's timeline has reached. OSError EOWNERDEAD: its writer died.", NULL },
	{ "reached", (getter)get_reached, NULL, "int: the same, also when its writer has died: how far that got.",
	  NULL },
	{ "_address", (getter)get_address, NULL, NULL, NULL },
	{ "_stream", (getter)get_stream, NULL, NULL, NULL },
	{ "_arrays", (getter)get_arrays, NULL, NULL, NULL },
	{ "_node", (getter)get_node, NULL, NULL, NULL },
	{ "__array_interface__", (getter)get_array_interface, NULL, NULL, NULL },
	{ "__cuda_array_interface__", (getter)get_cuda_interface, NULL, NULL, NULL },
	{ 0 },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A hold on a buffer: Client.acquire() makes it. Use it in a with statement.\n\n"
		     "Its arrays show the buffer itself: nothing is copied. They end with the with statement: those of "
		     "numpy() raise ValueError when\n"
		     "they are used later. Arrays of other frameworks keep the memory until they are collected. An "
		     "exception in the block returns\n"
		     "the lease without the signal." },
	{ Py_tp_dealloc, (void *)lease_dealloc },
	{ Py_tp_repr, (void *)lease_repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ Py_bf_getbuffer, (void *)lease_buffer },
	{ Py_bf_releasebuffer, (void *)lease_buffer_release },
	{ 0, NULL },
};

PyType_Spec lease_spec = {
	.name = "gpubroker.Lease",
	.basicsize = sizeof(struct lease),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = slots,
};
