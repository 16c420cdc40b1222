/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.h - a lease as a DLPack tensor: a capsule that any framework takes. The tensor owns an export of the hold. */
#ifndef GPUB_PYTHON_DLPACK_H
#define GPUB_PYTHON_DLPACK_H

#include "hold.h"

/*
 * __dlpack__(*, stream, max_version, dl_device, copy), as the array API standard has it. trusting: the caller knows
 * that the consumer has no read-only arrays, and takes a read-only lease all the same; and the order of its stream is
 * made.
 */
PyObject *dlpack_export(struct hold *hold, PyObject *args, PyObject *keywords, bool trusting);
PyObject *dlpack_device(const struct hold *hold);

/*
 * (code, bits, shape, offset): a capsule of a part of the memory, without stride between elements. For consumers whose
 * stream is ordered, and that do not write what is leased for reading. BufferError: not aligned. ValueError: beyond the
 * end.
 */
PyObject *dlpack_part(struct hold *hold, PyObject *args);

/*
 * As DLPack and the CUDA array interface number streams: 1 the legacy default stream, 2 that of each thread. -1: an
 * exception is set.
 */
int stream_from_python(PyObject *number, void **stream);

#endif
