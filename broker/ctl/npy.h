/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy.h - the header of a .npy file, NumPy's format of one array: what it says, and one for an array that a buffer holds.
 *
 * A file is a prefix (magic, version, size of the header), the header, which is a Python dictionary as text, and the elements. Versions
 * 1.0 to 3.0. Arrays in row-major order and little-endian types alone: a buffer has no others. A header is somebody else's text: it is
 * parsed here, never evaluated. Owns nothing; reads and writes no file.
 */
#ifndef GPUB_CTL_NPY_H
#define GPUB_CTL_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"

#define NPY_MAGIC      "\x93NUMPY"
#define NPY_PREFIX     12    /* bytes, of which versions 1 use 10 */
#define NPY_HEADER_MAX 65535 /* bytes: none of an array of numbers is as long */
#define NPY_MADE_MAX   512   /* bytes that npy_make() writes */

/* Where the header begins, and its size. -EINVAL with the error message, as all of them. */
int npy_prefix_read(const uint8_t prefix[NPY_PREFIX], size_t *begin, size_t *size);

int npy_header_read(const char *text, size_t size, gpub_layout *layout);

/* Prefix and header of a file for such an array: its elements follow. A vector type adds a dimension. */
int npy_make(const gpub_layout *layout, char made[NPY_MADE_MAX], size_t *size);

#endif
