/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - see safetensors.h */
#include "safetensors.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/error.h"

/* ---- the prefix ---- */

int safetensors_prefix_read(const uint8_t prefix[SAFETENSORS_PREFIX], uint64_t file_size, size_t *size)
{
	uint64_t length = 0;

	for (unsigned i = SAFETENSORS_PREFIX; i--;)
		length = length << 8 | prefix[i];
	if (length > SAFETENSORS_HEADER_MAX)
		return error_set(-EINVAL, "its header says that it has %llu bytes, and %u is the limit: this is no .safetensors file, or "
				 "it is damaged", (unsigned long long)length, SAFETENSORS_HEADER_MAX);
	if (file_size < SAFETENSORS_PREFIX || length > file_size - SAFETENSORS_PREFIX)
		return error_set(-EINVAL, "its header has %llu bytes, and the whole file %llu: it was cut off", (unsigned long long)length,
				 (unsigned long long)file_size);
	*size = length;
	return 0;
}

size_t safetensors_padded(size_t size)
{
	size_t whole = SAFETENSORS_PREFIX + size + SAFETENSORS_ALIGNMENT - 1;

	return whole / SAFETENSORS_ALIGNMENT * SAFETENSORS_ALIGNMENT - SAFETENSORS_PREFIX;
}

void safetensors_prefix_make(size_t size, uint8_t prefix[SAFETENSORS_PREFIX])
{
	for (unsigned i = 0; i < SAFETENSORS_PREFIX; i++, size >>= 8)
		prefix[i] = size & 0xff;
}

/* ---- a tensor ---- */

struct range {
	uint64_t    begin, end;
	const char *name;
};

static const struct {
	const char *name;
	unsigned    bits;
} types[] = {
	{ "BOOL", 8 },    { "U8", 8 },       { "I8", 8 },       { "F8_E5M2", 8 }, { "F8_E4M3", 8 }, { "F8_E8M0", 8 },
	{ "I16", 16 },    { "U16", 16 },     { "F16", 16 },     { "BF16", 16 },   { "I32", 32 },    { "U32", 32 },
	{ "F32", 32 },    { "I64", 64 },     { "U64", 64 },     { "F64", 64 },    { "C64", 64 },    { "F4", 4 },
	{ "F6_E2M3", 6 }, { "F6_E3M2", 6 },
};

static int bits_of(const char *name, const json_t *dtype, uint64_t *bits)
{
	const char *text = json_string_value(dtype);

	for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
		if (!strcmp(text, types[i].name)) {
			*bits = types[i].bits;
			return 0;
		}
	return error_set(-EINVAL, "the type of its tensor '%.60s', '%.20s', is unknown", name, text ? text : "none");
}

static bool is_count(const json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static int elements_of(const char *name, const json_t *shape, uint64_t *elements)
{
	json_t *extent;
	size_t i;

	if (!json_is_array(shape))
		return error_set(-EINVAL, "its tensor '%.60s' has no shape", name);
	*elements = 1;
	json_array_foreach(shape, i, extent) {
		if (!is_count(extent))
			return error_set(-EINVAL, "its tensor '%.60s' has an extent that is no number", name);
		if (__builtin_mul_overflow(*elements, (uint64_t)json_integer_value(extent), elements))
			return error_set(-EINVAL, "its tensor '%.60s' is larger than 2^64 elements", name);
	}
	return 0;
}

static int place_of(const char *name, const json_t *offsets, uint64_t bytes, struct range *range)
{
	const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);

	if (json_array_size(offsets) != 2 || !is_count(begin) || !is_count(end))
		return error_set(-EINVAL, "its tensor '%.60s' has no data_offsets of two numbers", name);
	*range = (struct range){ (uint64_t)json_integer_value(begin), (uint64_t)json_integer_value(end), name };
	if (range->begin > range->end || range->end > bytes)
		return error_set(-EINVAL, "its tensor '%.60s' is at %llu to %llu, and %llu bytes are there: it is damaged, or was cut off",
				 name, (unsigned long long)range->begin, (unsigned long long)range->end, (unsigned long long)bytes);
	return 0;
}

static int tensor_check(const char *name, const json_t *tensor, uint64_t bytes, struct range *range)
{
	uint64_t bits = 0, elements = 0;
	int error = bits_of(name, json_object_get(tensor, "dtype"), &bits);

	if (!error)
		error = elements_of(name, json_object_get(tensor, "shape"), &elements);
	if (!error)
		error = place_of(name, json_object_get(tensor, "data_offsets"), bytes, range);
	if (error)
		return error;
	if (__builtin_mul_overflow(elements, bits, &bits) || bits % 8 || bits / 8 != range->end - range->begin)
		return error_set(-EINVAL, "its tensor '%.60s' has a shape of %llu elements, which do not fill its %llu bytes", name,
				 (unsigned long long)elements, (unsigned long long)(range->end - range->begin));
	return 0;
}

/* ---- all of them ---- */

static int metadata_check(const json_t *metadata)
{
	const char *key;
	json_t *value;

	if (!json_is_object(metadata))
		return error_set(-EINVAL, "its __metadata__ is no object");
	json_object_foreach((json_t *)metadata, key, value)
		if (!json_is_string(value))
			return error_set(-EINVAL, "'%.60s' in its __metadata__ is no string", key);
	return 0;
}

static int tensors_check(const json_t *header, uint64_t bytes, struct range *ranges, size_t *count)
{
	const char *name;
	json_t *value;
	int error;

	*count = 0;
	json_object_foreach((json_t *)header, name, value) {
		if (!strcmp(name, "__metadata__"))
			error = metadata_check(value);
		else
			error = tensor_check(name, value, bytes, &ranges[(*count)++]);
		if (error)
			return error;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct range *left = a, *right = b;

	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return left->end < right->end ? -1 : left->end > right->end;
}

/* One begins where the one before it ends. */
static int places_check(struct range *ranges, size_t count, uint64_t bytes)
{
	uint64_t at = 0;

	qsort(ranges, count, sizeof *ranges, compare);
	for (size_t i = 0; i < count; at = ranges[i++].end)
		if (ranges[i].begin != at)
			return error_set(-EINVAL, "its tensor '%.60s' begins at %llu, and the one before it ends at %llu: the format "
					 "has neither gaps nor overlaps", ranges[i].name, (unsigned long long)ranges[i].begin,
					 (unsigned long long)at);
	if (at != bytes)
		return error_set(-EINVAL, "its tensors end at %llu, and %llu bytes are there: the format has nothing behind them",
				 (unsigned long long)at, (unsigned long long)bytes);
	return 0;
}

static int header_check(const json_t *header, uint64_t bytes)
{
	struct range *ranges = calloc(json_object_size(header) + 1, sizeof *ranges);
	size_t count;
	int error;

	if (!ranges)
		return error_set(-ENOMEM, "out of memory for its header");
	error = tensors_check(header, bytes, ranges, &count);
	if (!error)
		error = places_check(ranges, count, bytes);
	free(ranges);
	return error;
}

int safetensors_check(const char *text, size_t size, uint64_t bytes)
{
	json_error_t where;
	json_t *header;
	int error;

	if (!size || *text != '{')
		return error_set(-EINVAL, "its header is no JSON object: this is no .safetensors file, or it is damaged");
	header = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
	if (!header)
		return error_set(-EINVAL, "its header is no JSON: %.120s, at byte %d", where.text, where.position);
	error = header_check(header, bytes);
	json_decref(header);
	return error;
}
