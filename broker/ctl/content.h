/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content.h - the bytes of a file that go into a buffer: the array of a .npy file, all of a .safetensors file, or all
 * of any other file.
 *
 * Owns the open file, and a copy of its header. The header of a .npy or .safetensors file is checked when the file is
 * opened; the elements are not. Later reads stay within the sizes that were checked. Never changes the file; knows no
 * broker.
 */
#ifndef GPUB_CTL_CONTENT_H
#define GPUB_CTL_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"

struct content {
	int         fd;
	const char *path;      /* for error messages; the caller's */
	char       *head;      /* first bytes of the content, instead of the file's own header; NULL: none */
	size_t      head_size; /* bytes of head */
	uint64_t    from;      /* offset in the file of what follows head in the content */
	uint64_t    rest;      /* size of what follows head, in bytes */
	gpub_layout layout;    /* of the array; all zeroes: the file has none */
};

/* path "-": standard input, as plain bytes. -EINVAL: the file is damaged or not regular. content_close() follows. */
int content_open(struct content *content, const char *path);

/* As content_open(), for an open file; a failure closes fd. path: for messages; its ending is the format. */
int content_take(struct content *content, int fd, const char *path);

/* Copies size bytes of the content from the offset `at` on. 0 or negative errno; -EIO: the file became shorter. */
int content_read(const struct content *content, void *bytes, size_t size, uint64_t at);

void content_close(struct content *content);

/* Returns the bytes of the content. */
static inline uint64_t content_size(const struct content *content)
{
	return content->head_size + content->rest;
}

/* Whether the path ends in .npy, or .safetensors. */
bool content_is_npy(const char *path);
bool content_is_safetensors(const char *path);

#endif
