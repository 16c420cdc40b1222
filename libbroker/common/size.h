/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - sizes and counts as text. Owns nothing. */
#ifndef GPUB_SIZE_H
#define GPUB_SIZE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Parses a size such as "4096", "64K", "1.5G" or "2 GiB" (K = 1024): whatever size_format() and size_short() write. The
 * fraction has six digits at most, and the bytes are rounded down. -EINVAL: other text, 0, or more than 2^62 bytes.
 */
int size_parse(const char *text, uint64_t *bytes);

/* Parses a size as size_parse() does, but also accepts "0". */
int size_parse_or_0(const char *text, uint64_t *bytes);

#define SIZE_TEXT_MAX 24

/* Writes a size such as "64 MiB", "1.5 GiB" or "100 B" into text. Returns `text`. */
const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX]);

/* Writes a size in the short form of options and table columns, such as "64M", "1.5G" or "100B". Returns `text`. */
const char *size_short(uint64_t bytes, char text[SIZE_TEXT_MAX]);

/* The ending of a noun after a count: "1 mapping", "2 mappings". */
#define PLURAL(count) ((count) == 1 ? "" : "s")

/* Returns `bytes` rounded up to whole granules, or 0 if the result exceeds 64 bits. granule: a power of two. */
static inline uint64_t size_round_up(uint64_t bytes, uint64_t granule)
{
	uint64_t rounded = (bytes + granule - 1) & ~(granule - 1);

	return rounded < bytes ? 0 : rounded;
}

#endif
