/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - what the bytes of a buffer are: an array in row-major order, given by its element type and its shape.
 *
 * Element types have the numbers of DLPack (DLDataType) and the names of NumPy. Equal layouts have equal bytes, so that
 * they can be compared as bytes. A layout of zeros only says nothing about the bytes: the buffer has no layout. Owns
 * nothing.
 */
#ifndef GPUB_LAYOUT_H
#define GPUB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"

/* Whether the layout is all zeros, which means that the buffer has no layout. Every other layout has lanes. */
static inline bool layout_is_none(const gpub_layout *layout)
{
	return !layout->lanes;
}

/*
 * Checks a layout that comes from another process or from a caller. -EINVAL, error message set: an unknown element
 * type, too many lanes or dimensions, 2^62 bytes or more, or a byte that is not 0 in an unused field.
 */
int layout_check(const gpub_layout *layout);

/* Returns the bytes of all elements of a checked layout. 0: an extent is 0, or the layout is all zeros (none). */
uint64_t layout_bytes(const gpub_layout *layout);

/*
 * Sets shape[0] to the number of whole rows that fit in `bytes` bytes (fewer than 2^61), packed as layout_bytes()
 * counts them. Does nothing for a layout without dimensions, or whose rows have no elements.
 */
void layout_resize(gpub_layout *layout, uint64_t bytes);

/*
 * Compares the layout `has` of the buffer `name` with an expected one. An extent of GPUB_ANY_EXTENT in `expected`
 * fits any extent, and an `expected` of zeros fits any layout. -EMEDIUMTYPE, error message set: the layouts differ.
 */
int layout_expect(const char *name, const gpub_layout *has, const gpub_layout *expected);

/*
 * Parses "float32[1024,1024]", or with the short name of the type "f32[1024,1024]". A vector type is written as
 * "float32x4[100]". -EINVAL, error message set: the text is not a layout.
 */
int layout_parse(const char *text, gpub_layout *layout);

/* Writes the layout as "float32[1024,1024]", or as "bytes" if it is all zeros. Returns `text`. */
const char *layout_text(const gpub_layout *layout, char text[GPUB_LAYOUT_TEXT_MAX]);

#endif
