/* SPDX-License-Identifier: Apache-2.0 */
/* size.h - sizes and counts as text. Owns nothing. */
#ifndef GPUB_SIZE_H
#define GPUB_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* "4096", "64K", "1M", "2G": bytes, K = 1024. -EINVAL for anything else, 0, or more than 2^62 bytes. */
int size_parse(const char *text, uint64_t *bytes);

/* The same, and "0". */
int size_parse_or_0(const char *text, uint64_t *bytes);

#define SIZE_TEXT_MAX 24

/* Writes "64 MiB", "1.5 GiB", "100 B" into text and returns text. */
const char *size_format(uint64_t bytes, char text[SIZE_TEXT_MAX]);

/* The same as people write it in options and columns of a table have room for it: "64M", "1.5G", "100B". */
const char *size_short(uint64_t bytes, char text[SIZE_TEXT_MAX]);

/* The ending of a noun after a count: "1 grant", "2 grants". */
#define PLURAL(count) ((count) == 1 ? "" : "s")

/* bytes rounded up to whole granules (a power of two); 0 when that does not fit 64 bits. */
static inline uint64_t size_round_up(uint64_t bytes, uint64_t granule)
{
	uint64_t rounded = (bytes + granule - 1) & ~(granule - 1);

	return rounded < bytes ? 0 : rounded;
}

#endif
