/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - see layout.h */
#include "layout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

#define BYTES_MAX (1ull << 62)
#define LANES_MAX 1024

/* Element types. Codes are DLDataTypeCode of DLPack 1.1. */
static const struct type {
	const char *name, *brief;
	uint8_t     code, bits;
} types[] = {
	{ "bool", "b8", GPUB_BOOL, 8 },
	{ "int8", "i8", GPUB_INT, 8 },
	{ "int16", "i16", GPUB_INT, 16 },
	{ "int32", "i32", GPUB_INT, 32 },
	{ "int64", "i64", GPUB_INT, 64 },
	{ "uint8", "u8", GPUB_UINT, 8 },
	{ "uint16", "u16", GPUB_UINT, 16 },
	{ "uint32", "u32", GPUB_UINT, 32 },
	{ "uint64", "u64", GPUB_UINT, 64 },
	{ "float16", "f16", GPUB_FLOAT, 16 },
	{ "float32", "f32", GPUB_FLOAT, 32 },
	{ "float64", "f64", GPUB_FLOAT, 64 },
	{ "bfloat16", "bf16", GPUB_BFLOAT, 16 },
	{ "complex64", "c64", GPUB_COMPLEX, 64 },
	{ "complex128", "c128", GPUB_COMPLEX, 128 },
	{ "float8_e4m3fn", "f8e4m3", 10, 8 },
	{ "float8_e5m2", "f8e5m2", 12, 8 },
	{ "float8_e8m0fnu", "f8e8m0", 14, 8 },
	{ "float4_e2m1fn", "f4e2m1", 17, 4 },
};

#define TYPES (sizeof types / sizeof *types)

static const struct type *type_of(const gpub_layout *layout)
{
	for (size_t i = 0; i < TYPES; i++)
		if (types[i].code == layout->code && types[i].bits == layout->bits)
			return &types[i];
	return NULL;
}

/* ---- sizes ---- */

/* Stores how many bytes all elements take together. False: BYTES_MAX bytes or more. */
static bool bytes_of(const gpub_layout *layout, uint64_t *bytes)
{
	uint64_t bits = (uint64_t)layout->bits * layout->lanes, elements = 1;
	bool empty = false;

	for (unsigned i = 0; i < layout->ndim; i++) {
		uint64_t extent = layout->shape[i];

		empty |= !extent;
		if (extent && elements > BYTES_MAX / extent)
			return false;
		elements *= extent ? extent : 1;
	}
	if (elements / 8 > BYTES_MAX / bits)
		return false;
	*bytes = empty ? 0 : elements / 8 * bits + (elements % 8 * bits + 7) / 8;
	return *bytes < BYTES_MAX;
}

uint64_t layout_bytes(const gpub_layout *layout)
{
	uint64_t bytes = 0;

	return !layout_is_none(layout) && bytes_of(layout, &bytes) ? bytes : 0;
}

void layout_resize(gpub_layout *layout, uint64_t bytes)
{
	gpub_layout eight = *layout;
	uint64_t eight_bytes;

	if (!layout->ndim)
		return;
	eight.shape[0] = 8; /* because one row of 4-bit elements may end within a byte, and eight rows cannot */
	eight_bytes = layout_bytes(&eight);
	if (eight_bytes)
		layout->shape[0] = bytes / eight_bytes * 8 + bytes % eight_bytes * 8 / eight_bytes;
}

int layout_check(const gpub_layout *layout)
{
	static const gpub_layout none;
	uint64_t bytes;

	if (layout_is_none(layout))
		return memcmp(layout, &none, sizeof none) ?
			       error_set(-EINVAL, "a layout without lanes says nothing, so all of it must be 0: "
						  "set lanes to 1 for a type that is no vector") :
			       0;
	if (!type_of(layout))
		return error_set(-EINVAL, "there is no element type with code %u and %u bits", layout->code,
				 layout->bits);
	if (layout->lanes > LANES_MAX)
		return error_set(-EINVAL, "an element may have %u lanes, not %u", LANES_MAX, layout->lanes);
	if (layout->ndim > GPUB_DIMS_MAX)
		return error_set(-EINVAL, "an array may have %u dimensions, not %u", GPUB_DIMS_MAX, layout->ndim);
	for (unsigned i = layout->ndim; i < GPUB_DIMS_MAX; i++)
		if (layout->shape[i])
			return error_set(-EINVAL, "the array has %u dimensions, so shape[%u] must be 0", layout->ndim,
					 i);
	if (!bytes_of(layout, &bytes))
		return error_set(-EINVAL, "the array would be larger than 2^62 bytes");
	return 0;
}

/* ---- text ---- */

/* Writes the name of the element type into text, and returns the end of the name. */
static char *type_text(const gpub_layout *layout, char *text, size_t room)
{
	const struct type *type = type_of(layout);
	int length = snprintf(text, room, "%s", type ? type->name : "?");

	if (layout->lanes > 1)
		length += snprintf(text + length, room - (size_t)length, "x%u", layout->lanes);
	return text + length;
}

const char *layout_text(const gpub_layout *layout, char text[GPUB_LAYOUT_TEXT_MAX])
{
	const char *const end = text + GPUB_LAYOUT_TEXT_MAX;
	unsigned ndim = layout->ndim < GPUB_DIMS_MAX ? layout->ndim : GPUB_DIMS_MAX;
	char *at;

	if (layout_is_none(layout))
		return strcpy(text, "bytes");
	at = type_text(layout, text, GPUB_LAYOUT_TEXT_MAX);
	*at++ = '[';
	for (unsigned i = 0; i < ndim; i++) {
		const char *comma = i ? "," : "";

		at += layout->shape[i] == GPUB_ANY_EXTENT ?
			      snprintf(at, (size_t)(end - at), "%s*", comma) :
			      snprintf(at, (size_t)(end - at), "%s%llu", comma, (unsigned long long)layout->shape[i]);
	}
	strcpy(at, "]");
	return text;
}

/* Parses the element type at the beginning of text into *layout. Returns the length of its name; 0: no element type. */
static size_t type_parse(const char *text, gpub_layout *layout)
{
	size_t length = strcspn(text, "[");

	for (size_t i = 0; i < TYPES; i++)
		for (int brief = 0; brief < 2; brief++) {
			const char *name = brief ? types[i].brief : types[i].name;
			size_t size = strlen(name);
			char *end;

			if (strncmp(text, name, size) || (text[size] && text[size] != '[' && text[size] != 'x'))
				continue;
			*layout = (gpub_layout){ .code = types[i].code, .bits = types[i].bits, .lanes = 1 };
			if (text[size] != 'x')
				return size;
			if (text[size + 1] < '1' || text[size + 1] > '9' || length > size + 6)
				return 0;
			layout->lanes = (uint16_t)strtoul(text + size + 1, &end, 10);
			return end == text + length ? length : 0;
		}
	return 0;
}

static bool shape_parse(const char *text, gpub_layout *layout)
{
	if (*text++ != '[')
		return false;
	if (!strcmp(text, "]"))
		return true;
	while (layout->ndim < GPUB_DIMS_MAX && *text >= '0' && *text <= '9') {
		char *end;

		errno = 0;
		layout->shape[layout->ndim++] = strtoull(text, &end, 10);
		if (errno || (*end != ',' && *end != ']'))
			return false;
		if (*end == ']')
			return !end[1];
		text = end + 1;
	}
	return false;
}

int layout_parse(const char *text, gpub_layout *layout)
{
	gpub_layout found = { 0 };
	size_t length = text ? type_parse(text, &found) : 0;
	int error;

	if (!length)
		return error_set(-EINVAL,
				 "'%.40s' begins with no element type: write float32 or f32, float64, float16, "
				 "bfloat16, int8 to int64, uint8 to uint64, bool, complex64 or complex128, and the "
				 "shape behind it, as f32[1024,1024]",
				 text ? text : "");
	if (!shape_parse(text + length, &found))
		return error_set(-EINVAL, "'%.80s' has no shape: write up to %u extents in brackets, as f32[1024,1024]",
				 text, GPUB_DIMS_MAX);
	error = layout_check(&found);
	if (!error)
		*layout = found;
	return error;
}

/* ---- comparing layouts ---- */

static bool fits(const gpub_layout *has, const gpub_layout *expected)
{
	if (has->code != expected->code || has->bits != expected->bits || has->lanes != expected->lanes ||
	    has->ndim != expected->ndim)
		return false;
	for (unsigned i = 0; i < has->ndim; i++)
		if (has->shape[i] != expected->shape[i] && expected->shape[i] != GPUB_ANY_EXTENT)
			return false;
	return true;
}

int layout_expect(const char *name, const gpub_layout *has, const gpub_layout *expected)
{
	char is[GPUB_LAYOUT_TEXT_MAX], was[GPUB_LAYOUT_TEXT_MAX];

	if (layout_is_none(expected) || fits(has, expected))
		return 0;
	return error_set(-EMEDIUMTYPE, "'%s' is %s, %s was expected", name, layout_text(has, is),
			 layout_text(expected, was));
}
