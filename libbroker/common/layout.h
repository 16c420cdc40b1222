/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - what the bytes of a buffer are: the type of an element and the shape of an array of them, in row-major order.
 *
 * Types are numbered as in DLPack (DLDataType), named as in NumPy. A layout is one value: equal ones have equal bytes. All zeroes:
 * nothing is said of the bytes. Owns nothing.
 */
#ifndef GPUB_LAYOUT_H
#define GPUB_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"

/* Nothing is said. */
static inline bool layout_is_none(const gpub_layout *layout)
{
	return !layout->lanes;
}

/*
 * Checks what another process or a caller gives: a type that there is, not too many dimensions, a size below 2^62, zeroes in
 * what is not used. -EINVAL with the error message set.
 */
int layout_check(const gpub_layout *layout);

/* Bytes of all elements, of one that was checked; 0: an extent is 0, or nothing is said. */
uint64_t layout_bytes(const gpub_layout *layout);

/* The array has as many of its slowest extent as so many bytes hold. One without dimensions stays as it is. */
void layout_resize(gpub_layout *layout, uint64_t bytes);

/* -EMEDIUMTYPE, with the error message set: the buffer of that name has another layout than is expected. GPUB_ANY_EXTENT fits all. */
int layout_expect(const char *name, const gpub_layout *has, const gpub_layout *expected);

/* "float32[1024,1024]", or with the short name of the type, "f32[1024,1024]"; a vector type is "float32x4[100]". -EINVAL. */
int layout_parse(const char *text, gpub_layout *layout);

/* Writes the first of these, "bytes" where nothing is said, and returns text. */
const char *layout_text(const gpub_layout *layout, char text[GPUB_LAYOUT_TEXT_MAX]);

#endif
