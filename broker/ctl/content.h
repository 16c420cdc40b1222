/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content.h - what of a file goes into a buffer: an array out of a .npy file, all of a .safetensors file, or the bytes of any other.
 *
 * Owns the open file, and the header that it read once. A file with a format is checked whole, but for its elements, before anything is
 * made of it; what is read later is bound by what was checked. Never changes the file; knows no broker.
 */
#ifndef GPUB_CTL_CONTENT_H
#define GPUB_CTL_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"

struct content {
	int         fd;
	const char *path;      /* the caller's, for error messages */
	char       *head;      /* what the buffer begins with, in place of the file's own; NULL: nothing */
	size_t      head_size;
	uint64_t    from;      /* where the rest begins in the file */
	uint64_t    rest;      /* bytes */
	gpub_layout layout;    /* all zeroes: nothing is said */
};

/* path: "-" for standard input, which is taken as it is. The caller closes the content. -EINVAL: it is damaged. */
int content_open(struct content *content, const char *path);

/* The same of a file that is open, and becomes the content's own, also on failure. path: for messages; its ending says the format, if any. */
int content_take(struct content *content, int fd, const char *path);

/* So many bytes of the buffer, from that place on. -EIO: the file has become shorter. */
int content_read(const struct content *content, void *bytes, size_t size, uint64_t at);

void content_close(struct content *content);

static inline uint64_t content_size(const struct content *content)
{
	return content->head_size + content->rest;
}

/* Whether a file of that name holds one array, or tensors. */
bool content_is_npy(const char *path);
bool content_is_safetensors(const char *path);

#endif
