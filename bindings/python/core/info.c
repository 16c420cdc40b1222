/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - see info.h */
#include "info.h"

#include "layouts.h"

static PyStructSequence_Field fields[] = {
	{ "name", "str" },
	{ "shape", "tuple of ints; (nbytes,) where nothing is known of the bytes" },
	{ "dtype", "str, as 'float32'; 'uint8' where nothing is known of the bytes" },
	{ "nbytes", "int: bytes, as created or resized" },
	{ "generation", "int: serial of this buffer, never used again" },
	{ "device", "int: ordinal in this process, -1 where it does not see that device" },
	{ "mode", "int: permission bits, as of chmod" },
	{ "owner", "int: uid" },
	{ "group", "int: gid" },
	{ "users", "int: how many sessions and devices may hold it now" },
	{ "ephemeral", "bool: ends with the session that created it" },
	{ "timeline", "bool: has a timeline" },
	{ "dedicated", "bool: has an allocation of its own" },
	{ "same_address", "bool: each process maps it at the same address" },
	{ "sealed", "bool: no lease can write it any more" },
	{ "reserve", "int: bytes that it may grow to; 0: it keeps its size" },
	{ NULL, NULL },
};

PyStructSequence_Desc info_desc = {
	.name = "gpubroker.Info",
	.doc = "What the broker knows of a buffer: the answer of Client.stat(), Client.wait_newer() and Client.list().",
	.fields = fields,
	.n_in_sequence = (int)(sizeof fields / sizeof *fields) - 1,
};

/* Takes the value over. */
static int set(PyObject *info, Py_ssize_t *at, PyObject *value)
{
	if (value)
		PyStructSequence_SetItem(info, (*at)++, value);
	return value ? 0 : -1;
}

static int set_flag(PyObject *info, Py_ssize_t *at, unsigned flag)
{
	return set(info, at, PyBool_FromLong(flag));
}

static int fill(PyObject *to, const gpub_info *info)
{
	gpub_layout layout = info->layout.lanes ? info->layout : layout_of_bytes(info->size);
	Py_ssize_t at = 0;

	if (set(to, &at, PyUnicode_DecodeFSDefault(info->name)) || set(to, &at, layout_shape(&layout)) ||
	    set(to, &at, layout_dtype(&layout)) || set(to, &at, PyLong_FromUnsignedLongLong(info->size)) ||
	    set(to, &at, PyLong_FromUnsignedLongLong(info->generation)) ||
	    set(to, &at, PyLong_FromLong(info->device)) || set(to, &at, PyLong_FromUnsignedLong(info->mode)) ||
	    set(to, &at, PyLong_FromUnsignedLong(info->owner)) || set(to, &at, PyLong_FromUnsignedLong(info->group)) ||
	    set(to, &at, PyLong_FromUnsignedLong(info->grants)))
		return -1;
	return set_flag(to, &at, info->flags & GPUB_EPHEMERAL) || set_flag(to, &at, info->flags & GPUB_TIMELINE) ||
			       set_flag(to, &at, info->flags & GPUB_DEDICATED) ||
			       set_flag(to, &at, info->flags & GPUB_SAME_ADDRESS) ||
			       set_flag(to, &at, info->flags & GPUB_SEALED) ||
			       set(to, &at, PyLong_FromUnsignedLongLong(info->reserve)) ?
		       -1 :
		       0;
}

PyObject *info_from(const struct module_types *types, const gpub_info *info)
{
	PyObject *made = PyStructSequence_New(types->info);

	if (made && fill(made, info))
		Py_CLEAR(made);
	return made;
}
