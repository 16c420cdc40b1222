/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.c - see dlpack.h */
#include "dlpack.h"

#include <stdlib.h>

#include "arguments.h"

#define DLPACK_MAJOR 1u
#define DLPACK_MINOR 1u /* whose types gpubroker's are */
#define DLPACK_READ_ONLY 1u
#define DLPACK_DIMS 64 /* of a part, as many as NumPy has */
#define DEVICE_CPU 1
#define DEVICE_CUDA 2

/* The binary interface of DLPack 1.1. */
struct dl_tensor {
	void *data;
	struct {
		int32_t type, id;
	} device;
	int32_t ndim;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

/* What "dltensor" capsules hold. */
struct dl_unversioned {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct dl_unversioned *self);
};

/* What "dltensor_versioned" capsules hold. */
struct dl_versioned {
	struct {
		uint32_t major, minor;
	} version;
	void *context;
	void (*deleter)(struct dl_versioned *self);
	uint64_t flags;
	struct dl_tensor tensor;
};

struct exported {
	union {
		struct dl_unversioned unversioned;
		struct dl_versioned versioned;
	};
	struct hold *hold;
	int64_t extents[]; /* shape, then strides */
};

/* ---- the end: on any thread, with or without the interpreter lock ---- */

static void exported_end(struct exported *exported)
{
	hold_export_end(exported->hold);
	free(exported);
}

static void unversioned_end(struct dl_unversioned *self)
{
	exported_end(self->context);
}

static void versioned_end(struct dl_versioned *self)
{
	exported_end(self->context);
}

/* A consumer that takes the tensor renames the capsule, and calls the deleter itself. */
static void capsule_end(PyObject *capsule)
{
	const char *name = PyCapsule_GetName(capsule);
	void *taken;

	if (!name || (!PyCapsule_IsValid(capsule, "dltensor") && !PyCapsule_IsValid(capsule, "dltensor_versioned")))
		return;
	taken = PyCapsule_GetContext(capsule);
	exported_end(taken);
}

/* ---- the tensor ---- */

/* What a tensor shows of the lease's memory; shape has ndim extents. */
struct part {
	uint64_t offset; /* bytes */
	uint8_t code, bits;
	uint16_t lanes;
	int ndim;
	const int64_t *shape;
};

/* The hold's export goes over to it at the end. Strides count elements here, and the lanes are part of one. */
static struct exported *exported_new(struct hold *hold, const struct part *part)
{
	struct exported *made = calloc(1, sizeof *made + 2 * (size_t)part->ndim * sizeof *made->extents);
	int64_t stride = 1;

	if (!made)
		return (struct exported *)PyErr_NoMemory();
	made->hold = hold;
	for (int i = part->ndim - 1; i >= 0; i--) {
		made->extents[i] = part->shape[i];
		made->extents[part->ndim + i] = stride;
		stride *= part->shape[i] ? part->shape[i] : 1;
	}
	return made;
}

static void describe(struct exported *exported, const struct part *part, struct dl_tensor *tensor)
{
	const struct hold *hold = exported->hold;
	bool host = hold_is_host(hold);

	tensor->data = (char *)hold->lease.ptr + part->offset;
	tensor->device.type = host ? DEVICE_CPU : DEVICE_CUDA;
	tensor->device.id = host ? 0 : hold->lease.device;
	tensor->dtype.code = part->code;
	tensor->dtype.bits = part->bits;
	tensor->dtype.lanes = part->lanes;
	tensor->ndim = part->ndim;
	tensor->shape = exported->extents;
	tensor->strides = exported->extents + part->ndim;
}

/* The hold's export goes over to it. */
static PyObject *capsule_of(struct hold *hold, const struct part *part, bool versioned)
{
	struct exported *made = exported_new(hold, part);
	PyObject *capsule;

	if (!made)
		return NULL;
	if (versioned) {
		made->versioned = (struct dl_versioned){ .version = { DLPACK_MAJOR, DLPACK_MINOR },
							 .context = made,
							 .deleter = versioned_end };
		made->versioned.flags = hold->lease.rights & GPUB_WRITE ? 0 : DLPACK_READ_ONLY;
		describe(made, part, &made->versioned.tensor);
	} else {
		made->unversioned = (struct dl_unversioned){ .context = made, .deleter = unversioned_end };
		describe(made, part, &made->unversioned.tensor);
	}
	capsule = PyCapsule_New(made, versioned ? "dltensor_versioned" : "dltensor", capsule_end);
	if (!capsule || PyCapsule_SetContext(capsule, made)) {
		Py_XDECREF(capsule);
		free(made);
		return NULL;
	}
	return capsule;
}

static PyObject *capsule_of_all(struct hold *hold, bool versioned)
{
	const gpub_layout *layout = &hold->layout;
	int64_t shape[GPUB_DIMS_MAX];

	for (uint32_t i = 0; i < layout->ndim; i++)
		shape[i] = (int64_t)layout->shape[i];
	return capsule_of(hold,
			  &(struct part){ 0, layout->code, layout->bits, layout->lanes, (int)layout->ndim, shape },
			  versioned);
}

/* ---- what a consumer asks for ---- */

struct wish {
	PyObject *stream, *version, *device, *copy;
};

PyObject *dlpack_device(const struct hold *hold)
{
	return hold_is_host(hold) ? Py_BuildValue("(ii)", DEVICE_CPU, 0) :
				    Py_BuildValue("(ii)", DEVICE_CUDA, hold->lease.device);
}

static int check_device(const struct hold *hold, PyObject *wished)
{
	PyObject *has = wished == Py_None ? NULL : dlpack_device(hold);
	int same = wished == Py_None || (has && PyObject_RichCompareBool(has, wished, Py_EQ) == 1);

	if (!same && !PyErr_Occurred())
		PyErr_Format(PyExc_BufferError, "%s is on the device %R, not %R: nothing is copied between devices",
			     hold->label, has, wished);
	Py_XDECREF(has);
	return same ? 0 : -1;
}

static int check_copy(PyObject *copy)
{
	int wanted = PyObject_IsTrue(copy);

	if (wanted > 0)
		PyErr_SetString(PyExc_BufferError,
				"copy=True: a lease is the buffer itself; copy the array that you get");
	return wanted ? -1 : 0;
}

static int wants_version(PyObject *version, bool *versioned)
{
	long major = 0;

	if (version != Py_None) {
		PyObject *first = PySequence_GetItem(version, 0);

		major = first ? PyLong_AsLong(first) : -1;
		Py_XDECREF(first);
	}
	*versioned = major >= (long)DLPACK_MAJOR;
	return PyErr_Occurred() ? -1 : 0;
}

int stream_from_python(PyObject *number, void **stream)
{
	long long value = PyLong_AsLongLong(number);

	if (value == -1 && PyErr_Occurred())
		return -1;
	if (value <= 0) {
		PyErr_Format(PyExc_ValueError,
			     "%lld is no stream: 1 is the legacy default stream, 2 the per-thread default stream, and "
			     "others have their handle",
			     value);
		return -1;
	}
	*stream = value == 1 ? NULL : (void *)(uintptr_t)value; /* NOLINT(performance-no-int-to-ptr) */
	return 0;
}

/* -1 is a consumer that orders nothing: it is not known where it works. */
static int order_for(struct hold *hold, PyObject *number)
{
	void *stream = NULL;

	if (hold_is_host(hold))
		return 0;
	if (number != Py_None && PyLong_Check(number) && PyLong_AsLongLong(number) == -1) {
		hold->unordered = true;
		return 0;
	}
	if (number != Py_None && stream_from_python(number, &stream))
		return -1;
	return hold_order(hold, stream, (struct maybe){ 0 });
}

static int check_host_stream(const struct hold *hold, PyObject *number)
{
	if (!hold_is_host(hold) || number == Py_None || (PyLong_Check(number) && PyLong_AsLongLong(number) == -1))
		return 0;
	PyErr_SetString(PyExc_BufferError, "a buffer on the host device has no stream: stream is None there");
	return -1;
}

static int check(struct hold *hold, const struct wish *wish, bool trusting, bool *versioned)
{
	if (check_copy(wish->copy) || check_device(hold, wish->device) || wants_version(wish->version, versioned) ||
	    check_host_stream(hold, wish->stream))
		return -1;
	if (trusting)
		*versioned = *versioned && hold->lease.rights & GPUB_WRITE;
	else if (!*versioned && !(hold->lease.rights & GPUB_WRITE)) {
		PyErr_Format(PyExc_BufferError,
			     "%s is leased for reading, and the consumer knows no read-only arrays (DLPack before "
			     "1.0): acquire it with 'rw', or use the lease's method for that framework",
			     hold->label);
		return -1;
	}
	return 0;
}

PyObject *dlpack_export(struct hold *hold, PyObject *args, PyObject *keywords, bool trusting)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
	struct wish wish = { Py_None, Py_None, Py_None, Py_None };
	bool versioned;
	PyObject *capsule = NULL;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &wish.stream, &wish.version,
					 &wish.device, &wish.copy) ||
	    check(hold, &wish, trusting, &versioned) || !hold_export(hold))
		return NULL;
	if (!order_for(hold, wish.stream))
		capsule = capsule_of_all(hold, versioned);
	if (!capsule)
		hold_export_end(hold);
	return capsule;
}

/* ---- a part ---- */

static int part_shape(PyObject *tuple, struct part *part, int64_t shape[DLPACK_DIMS])
{
	part->shape = shape;
	part->ndim = (int)PyTuple_Size(tuple);
	if (part->ndim > DLPACK_DIMS) {
		PyErr_Format(PyExc_ValueError, "%d dimensions: up to %d", part->ndim, DLPACK_DIMS);
		return -1;
	}
	for (int i = 0; i < part->ndim; i++) {
		shape[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
		if (shape[i] < 0 && !PyErr_Occurred())
			PyErr_SetString(PyExc_ValueError, "a negative extent");
		if (PyErr_Occurred())
			return -1;
	}
	return 0;
}

/* Where an extent is 0 there are no bytes, but strides, which must not overflow in the consumer either. */
static int part_check(const struct hold *hold, const struct part *part)
{
	uint64_t size = part->bits / 8u, strides = size, nbytes = (uint64_t)layout_nbytes(&hold->layout);
	bool fits = size && part->offset <= nbytes, empty = false;

	if (fits && ((uintptr_t)hold->lease.ptr + part->offset) % size) {
		PyErr_Format(PyExc_BufferError,
			     "a tensor at byte %llu of %s is not aligned to its elements of %llu bytes: write it again "
			     "with the tensors of the largest elements first",
			     (unsigned long long)part->offset, hold->label, (unsigned long long)size);
		return -1;
	}
	for (int i = 0; i < part->ndim && fits; i++) {
		uint64_t extent = (uint64_t)part->shape[i];

		fits = !__builtin_mul_overflow(strides, extent ? extent : 1, &strides) && strides <= INT64_MAX;
		empty |= !extent;
	}
	if (fits && (empty || strides <= nbytes - part->offset))
		return 0;
	PyErr_Format(PyExc_ValueError, "a tensor at byte %llu is beyond the end of %s",
		     (unsigned long long)part->offset, hold->label);
	return -1;
}

PyObject *dlpack_part(struct hold *hold, PyObject *args)
{
	int64_t shape[DLPACK_DIMS];
	struct part part = { .lanes = 1 };
	PyObject *tuple, *capsule;

	if (!PyArg_ParseTuple(args, "bbO!O&:_part", &part.code, &part.bits, &PyTuple_Type, &tuple, number_from_python,
			      &part.offset))
		return NULL;
	if (part_shape(tuple, &part, shape) || part_check(hold, &part) || !hold_export(hold))
		return NULL;
	capsule = capsule_of(hold, &part, false);
	if (!capsule)
		hold_export_end(hold);
	return capsule;
}
