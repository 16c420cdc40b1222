/* SPDX-License-Identifier: Apache-2.0 */
/* content.c - see content.h */
#include "content.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/layout.h"
#include "npy.h"
#include "safetensors.h"
#include "whole.h"

#define STANDARD_INPUT "standard input"

static bool ends(const char *path, const char *ending)
{
	size_t length = strlen(path), size = strlen(ending);

	return length > size && !strcasecmp(path + length - size, ending);
}

bool content_is_npy(const char *path)
{
	return ends(path, ".npy");
}

bool content_is_safetensors(const char *path)
{
	return ends(path, ".safetensors");
}

/* ---- the formats ---- */

static bool begins_as_npy(int fd)
{
	char magic[sizeof NPY_MAGIC - 1];

	return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic && !memcmp(magic, NPY_MAGIC, sizeof magic);
}

static int npy_size_check(const gpub_layout *layout, uint64_t rest)
{
	uint64_t bytes = layout_bytes(layout);
	char text[GPUB_LAYOUT_TEXT_MAX];

	if (bytes == rest)
		return 0;
	return error_set(-EINVAL, "its array, %s, has %llu bytes, and %llu follow the header: it %s", layout_text(layout, text),
			 (unsigned long long)bytes, (unsigned long long)rest,
			 bytes > rest ? "was cut off" : "holds something else behind the array");
}

static int npy_open(struct content *content, uint64_t file)
{
	uint8_t prefix[NPY_PREFIX];
	char header[NPY_HEADER_MAX];
	size_t begin, size;
	int error;

	if (file < sizeof prefix)
		return error_set(-EINVAL, "it is called .npy and is too short for a header");
	error = whole_read(content->fd, prefix, sizeof prefix, 0);
	if (!error)
		error = npy_prefix_read(prefix, &begin, &size);
	if (!error && size > file - begin)
		error = error_set(-EINVAL, "its header was cut off");
	if (!error)
		error = whole_read(content->fd, header, size, begin);
	if (!error)
		error = npy_header_read(header, size, &content->layout);
	if (error)
		return error;
	content->from = begin + size;
	content->rest = file - content->from;
	return npy_size_check(&content->layout, content->rest);
}

/* Reads the header into content->head, padded so that the tensors begin at SAFETENSORS_ALIGNMENT in the buffer. */
static int safetensors_head(struct content *content, size_t size)
{
	size_t padded = safetensors_padded(size);
	uint8_t *head;
	int error;

	if (padded > SAFETENSORS_HEADER_MAX)
		return error_set(-EINVAL, "its header of %zu bytes has no room left for the spaces that align its tensors", size);
	head = malloc(SAFETENSORS_PREFIX + padded);
	if (!head)
		return error_set(-ENOMEM, "out of memory for its header of %zu bytes", size);
	content->head = (char *)head;
	content->head_size = SAFETENSORS_PREFIX + padded;
	safetensors_prefix_make(padded, head);
	error = whole_read(content->fd, head + SAFETENSORS_PREFIX, size, SAFETENSORS_PREFIX);
	memset(head + SAFETENSORS_PREFIX + size, ' ', padded - size);
	return error;
}

static int safetensors_open(struct content *content, uint64_t file)
{
	uint8_t prefix[SAFETENSORS_PREFIX];
	size_t size = 0;
	int error;

	if (file < sizeof prefix)
		return error_set(-EINVAL, "it is called .safetensors and is too short for a header");
	error = whole_read(content->fd, prefix, sizeof prefix, 0);
	if (!error)
		error = safetensors_prefix_read(prefix, file, &size);
	if (!error)
		error = safetensors_head(content, size);
	if (error)
		return error;
	content->from = sizeof prefix + size;
	content->rest = file - content->from;
	return safetensors_check(content->head + SAFETENSORS_PREFIX, size, content->rest);
}

static int raw_open(struct content *content, uint64_t file)
{
	if (!file)
		return error_set(-EINVAL, "it is empty, and a buffer has at least 1 byte");
	content->rest = file;
	return 0;
}

static int format_open(struct content *content, uint64_t file)
{
	if (!strcmp(content->path, STANDARD_INPUT))
		return raw_open(content, file);
	if (content_is_safetensors(content->path))
		return safetensors_open(content, file);
	if (content_is_npy(content->path) || begins_as_npy(content->fd))
		return npy_open(content, file);
	return raw_open(content, file);
}

/* ---- the file ---- */

/* Puts the file's path before the error message. Returns error. */
static int about(const char *path, int error)
{
	struct saved_error said = error_save();

	return error ? error_set(error, "%.100s: %s", path, said.text) : 0;
}

int content_take(struct content *content, int fd, const char *path)
{
	struct content found = { .fd = fd, .path = path };
	struct stat st;
	int error;

	if (fstat(fd, &st))
		error = error_set(-errno, "it cannot be read: %m");
	else if (!S_ISREG(st.st_mode))
		error = error_set(-EINVAL, "it is no regular file, so its size is not known: write it into one first");
	else
		error = format_open(&found, (uint64_t)st.st_size);
	if (error)
		content_close(&found);
	else
		*content = found;
	return about(path, error);
}

int content_open(struct content *content, const char *path)
{
	bool in = !strcmp(path, "-");
	/* O_NONBLOCK: open(2) of a FIFO without a writer would not return */
	int fd = in ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	path = in ? STANDARD_INPUT : path;
	return fd < 0 ? error_set(-errno, "%.100s: it cannot be opened: %m", path) : content_take(content, fd, path);
}

int content_read(const struct content *content, void *bytes, size_t size, uint64_t at)
{
	size_t head = at < content->head_size ? content->head_size - at : 0;

	head = head < size ? head : size;
	if (head)
		memcpy(bytes, content->head + at, head);
	if (head == size)
		return 0;
	return about(content->path, whole_read(content->fd, (char *)bytes + head, size - head,
					       content->from + at + head - content->head_size));
}

void content_close(struct content *content)
{
	free(content->head);
	close(content->fd);
}
