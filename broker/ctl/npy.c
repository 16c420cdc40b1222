/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - see npy.h */
#include "npy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/layout.h"

#define ALIGNMENT 64 /* of the elements in a file that NumPy writes */

/* ---- the prefix ---- */

int npy_prefix_read(const uint8_t prefix[NPY_PREFIX], size_t *begin, size_t *size)
{
	size_t length = prefix[8] | (size_t)prefix[9] << 8;
	bool   first = prefix[6] == 1;

	if (memcmp(prefix, NPY_MAGIC, sizeof NPY_MAGIC - 1))
		return error_set(-EINVAL, "it is called .npy and does not begin as NumPy's files do");
	if (prefix[6] < 1 || prefix[6] > 3 || prefix[7])
		return error_set(-EINVAL, "its format is NumPy's %u.%u, and 1.0 to 3.0 are known: save it with numpy.save()", prefix[6],
				 prefix[7]);
	if (!first)
		length |= (size_t)prefix[10] << 16 | (size_t)prefix[11] << 24;
	if (length > NPY_HEADER_MAX)
		return error_set(-EINVAL, "its header says that it has %zu bytes, and %u is the limit", length, NPY_HEADER_MAX);
	*begin = first ? 10 : 12;
	*size = length;
	return 0;
}

/* ---- the dictionary, as text ---- */

struct cursor {
	const char *at, *end;
};

static void skip_blanks(struct cursor *text)
{
	while (text->at < text->end && strchr(" \t\r\n", *text->at) && *text->at)
		text->at++;
}

/* The character, and blanks before it. */
static bool take(struct cursor *text, char c)
{
	skip_blanks(text);
	if (text->at == text->end || *text->at != c)
		return false;
	text->at++;
	return true;
}

static bool take_word(struct cursor *text, const char *word)
{
	size_t length = strlen(word);

	skip_blanks(text);
	if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length))
		return false;
	text->at += length;
	return true;
}

/* A string without escapes, cut to what is between its quotes. */
static bool take_string(struct cursor *text, struct cursor *string)
{
	const char *close;
	char quote = '\'';

	if (!take(text, quote)) {
		quote = '"';
		if (!take(text, quote))
			return false;
	}
	close = memchr(text->at, quote, (size_t)(text->end - text->at));
	if (!close || memchr(text->at, '\\', (size_t)(close - text->at)))
		return false;
	*string = (struct cursor){ text->at, close };
	text->at = close + 1;
	return true;
}

static bool is(const struct cursor *string, const char *word)
{
	return (size_t)(string->end - string->at) == strlen(word) && !memcmp(string->at, word, strlen(word));
}

/* Python 2 wrote an L behind some numbers. */
static bool take_number(struct cursor *text, uint64_t *number)
{
	const char *first;

	skip_blanks(text);
	first = text->at;
	*number = 0;
	for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++)
		if (__builtin_mul_overflow(*number, 10, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(*text->at - '0'), number))
			return false;
	if (text->at == first)
		return false;
	if (text->at < text->end && *text->at == 'L')
		text->at++;
	return true;
}

/* ---- its three values ---- */

static const struct type {
	char    name[4]; /* NumPy's, without the byte order */
	uint8_t code, bits;
} types[] = {
	{ "b1", GPUB_BOOL, 8 },    { "i1", GPUB_INT, 8 },      { "i2", GPUB_INT, 16 },   { "i4", GPUB_INT, 32 },
	{ "i8", GPUB_INT, 64 },    { "u1", GPUB_UINT, 8 },     { "u2", GPUB_UINT, 16 },  { "u4", GPUB_UINT, 32 },
	{ "u8", GPUB_UINT, 64 },   { "f2", GPUB_FLOAT, 16 },   { "f4", GPUB_FLOAT, 32 }, { "f8", GPUB_FLOAT, 64 },
	{ "c8", GPUB_COMPLEX, 64 }, { "c16", GPUB_COMPLEX, 128 },
};

#define TYPES (sizeof types / sizeof *types)

/* "<f4"; one of single bytes has no order: "|u1". */
static int type_read(const struct cursor *text, gpub_layout *layout)
{
	struct cursor name = { text->at + 1, text->end };
	int length = (int)(text->end - text->at);

	for (size_t i = 0; length > 1 && i < TYPES; i++) {
		bool single = types[i].bits == 8;

		if (!is(&name, types[i].name) || !(strchr("<>", *text->at) || (single && *text->at == '|')) || !*text->at)
			continue;
		if (*text->at == '>' && !single)
			return error_set(-EINVAL, "its elements ('%.*s') are big-endian, and devices are not: save "
					 "a.astype(a.dtype.newbyteorder('<'))", length, text->at);
		layout->code = types[i].code;
		layout->bits = types[i].bits;
		layout->lanes = 1;
		return 0;
	}
	return error_set(-EINVAL, "its elements are of the type '%.*s', and a buffer holds bool, integers, floats and complex numbers of up to "
			 "8 or 2x8 bytes: save them as one of these with a.astype()", length < 20 ? length : 20, text->at);
}

static int descr_read(struct cursor *text, gpub_layout *layout)
{
	struct cursor type;

	if (take_string(text, &type))
		return type_read(&type, layout);
	if (take(text, '['))
		return error_set(-EINVAL, "its elements are records: save each field as an array of its own");
	return error_set(-EINVAL, "its header is damaged: 'descr' is no string");
}

static int order_read(struct cursor *text, gpub_layout *layout)
{
	(void)layout;
	if (take_word(text, "False"))
		return 0;
	if (take_word(text, "True"))
		return error_set(-EINVAL, "its array is in Fortran order, and those of buffers are row-major: save "
				 "numpy.ascontiguousarray(a), or a.T, which has the extents reversed");
	return error_set(-EINVAL, "its header is damaged: 'fortran_order' is neither True nor False");
}

/* A tuple: "()", "(3,)", "(3, 4)". */
static int shape_read(struct cursor *text, gpub_layout *layout)
{
	uint64_t extent;

	if (!take(text, '('))
		return error_set(-EINVAL, "its header is damaged: 'shape' is no tuple");
	while (!take(text, ')')) {
		if (!take_number(text, &extent))
			return error_set(-EINVAL, "its header is damaged: 'shape' has an extent that is no number");
		if (layout->ndim == GPUB_DIMS_MAX)
			return error_set(-EINVAL, "its array has more than %u dimensions: save a.reshape() with fewer", GPUB_DIMS_MAX);
		layout->shape[layout->ndim++] = extent;
		if (!take(text, ',') && (text->at == text->end || *text->at != ')'))
			return error_set(-EINVAL, "its header is damaged: 'shape' does not end");
	}
	return 0;
}

static const struct {
	const char *key;
	int       (*read)(struct cursor *text, gpub_layout *layout);
} entries[] = { { "descr", descr_read }, { "fortran_order", order_read }, { "shape", shape_read } };

#define ENTRIES (sizeof entries / sizeof *entries)

static int entry_read(struct cursor *text, unsigned *seen, gpub_layout *layout)
{
	struct cursor key;

	if (!take_string(text, &key) || !take(text, ':'))
		return error_set(-EINVAL, "its header is damaged: it is no dictionary");
	for (unsigned i = 0; i < ENTRIES; i++) {
		if (!is(&key, entries[i].key) || *seen & 1u << i)
			continue;
		*seen |= 1u << i;
		return entries[i].read(text, layout);
	}
	return error_set(-EINVAL, "its header is damaged: the key '%.*s' is unknown, or stands there twice",
			 (int)(key.end - key.at < 40 ? key.end - key.at : 40), key.at);
}

int npy_header_read(const char *header, size_t size, gpub_layout *layout)
{
	struct cursor text = { header, header + size };
	gpub_layout found = { 0 };
	unsigned seen = 0;
	int error = 0;

	if (!take(&text, '{'))
		return error_set(-EINVAL, "its header is damaged: it is no dictionary");
	while (!error && !take(&text, '}')) {
		error = entry_read(&text, &seen, &found);
		if (!error && !take(&text, ',') && (text.at == text.end || *text.at != '}'))
			error = error_set(-EINVAL, "its header is damaged: the dictionary does not end");
	}
	if (error)
		return error;
	skip_blanks(&text);
	if (text.at != text.end || seen != (1u << ENTRIES) - 1)
		return error_set(-EINVAL, "its header is damaged: it does not have 'descr', 'fortran_order' and 'shape' alone");
	error = layout_check(&found);
	if (!error)
		*layout = found;
	return error;
}

/* ---- to make one ---- */

static const struct type *type_of(const gpub_layout *layout)
{
	for (size_t i = 0; i < TYPES; i++)
		if (types[i].code == layout->code && types[i].bits == layout->bits)
			return &types[i];
	return NULL;
}

/* The dictionary, without what pads it, as NumPy writes it: "()", "(3,)", "(3, 4)". */
static size_t dictionary_make(const gpub_layout *layout, const struct type *type, char *text, size_t room)
{
	unsigned extents = layout->ndim + (layout->lanes > 1);
	int at = snprintf(text, room, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", type->bits == 8 ? '|' : '<', type->name);

	for (unsigned i = 0; i < extents; i++)
		at += snprintf(text + at, room - (size_t)at, "%s%llu", i ? ", " : "",
			       (unsigned long long)(i < layout->ndim ? layout->shape[i] : layout->lanes));
	at += snprintf(text + at, room - (size_t)at, "%s), }", extents == 1 ? "," : "");
	return (size_t)at;
}

int npy_make(const gpub_layout *layout, char made[NPY_MADE_MAX], size_t *size)
{
	static const char prefix[10] = NPY_MAGIC "\x01";
	const struct type *type = type_of(layout);
	char text[GPUB_LAYOUT_TEXT_MAX];
	size_t length, whole;

	if (layout_is_none(layout))
		return error_set(-EINVAL, "it has no layout, which a .npy file needs: save it to a file with another name, as it is");
	if (!type)
		return error_set(-EINVAL, "it is %s, and .npy files have no such type: save it to a file with another name, as it is",
				 layout_text(layout, text));
	memcpy(made, prefix, sizeof prefix);
	length = sizeof prefix + dictionary_make(layout, type, made + sizeof prefix, NPY_MADE_MAX - sizeof prefix);
	whole = (length + ALIGNMENT) / ALIGNMENT * ALIGNMENT; /* one more at least, for the end of the line */
	memset(made + length, ' ', whole - length);
	made[whole - 1] = '\n';
	made[8] = (char)((whole - sizeof prefix) & 0xff);
	made[9] = (char)((whole - sizeof prefix) >> 8);
	*size = whole;
	return 0;
}
