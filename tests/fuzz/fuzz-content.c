/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-content.c - what broker-ctl load makes of a file. The input's first byte says whether it is called .npy or .safetensors; the rest is
 * the file.
 *
 * What is taken has a layout that a buffer may have, as many bytes as the file, tensors that begin where they should, and is taken again
 * when it was saved; what is refused, one error message with the file's name.
 */
#include "fuzz.h"

#include <string.h>
#include <unistd.h>

#include "broker/ctl/content.h"
#include "broker/ctl/npy.h"
#include "broker/ctl/safetensors.h"
#include "common/error.h"
#include "common/layout.h"

#define FILE_MAX 65536

static void array_check(const struct content *content, size_t size)
{
	char made[NPY_MADE_MAX];
	size_t begin, header, whole;
	gpub_layout again;

	FUZZ_HOLDS(!layout_check(&content->layout), "a layout is taken that no buffer may have");
	FUZZ_HOLDS(content->rest == layout_bytes(&content->layout) && content->from + content->rest == size,
		   "%llu bytes from %llu on are taken, out of %zu", (unsigned long long)content->rest, (unsigned long long)content->from, size);
	FUZZ_HOLDS(!npy_make(&content->layout, made, &whole) && !npy_prefix_read((const uint8_t *)made, &begin, &header) &&
			   begin + header == whole && !npy_header_read(made + begin, header, &again),
		   "what was taken cannot be saved and taken again: %s", error_text());
	FUZZ_HOLDS(!memcmp(&again, &content->layout, sizeof again), "it is another layout then");
}

static void tensors_check(const struct content *content, size_t size)
{
	static uint8_t whole[FILE_MAX + SAFETENSORS_ALIGNMENT];
	struct content again;
	int fd;

	FUZZ_HOLDS(content->head_size % SAFETENSORS_ALIGNMENT == 0 && content->from + content->rest == size,
		   "tensors begin at %zu, and %llu bytes from %llu on are taken, out of %zu", content->head_size,
		   (unsigned long long)content->rest, (unsigned long long)content->from, size);
	FUZZ_HOLDS(!content_read(content, whole, content_size(content), 0), "it cannot be read: %s", error_text());
	fd = fuzz_file(whole, content_size(content));
	FUZZ_HOLDS(!content_take(&again, fd, "again.safetensors"), "what was taken is refused when it was saved: %s", error_text());
	FUZZ_HOLDS(again.head_size == content->head_size && again.rest == content->rest, "it has other sizes then");
	content_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	bool tensors = size && data[0] & 1;
	const char *path = tensors ? "x.safetensors" : "x.npy";
	unsigned descriptors = fuzz_descriptors();
	struct content content;

	if (!size || size > FILE_MAX)
		return 0;
	if (content_take(&content, fuzz_file(data + 1, size - 1), path)) {
		FUZZ_HOLDS(!strncmp(error_text(), path, strlen(path)) && !strchr(error_text(), '\n'), "a refusal says: %s", error_text());
	} else {
		tensors ? tensors_check(&content, size - 1) : array_check(&content, size - 1);
		content_close(&content);
	}
	FUZZ_HOLDS(fuzz_descriptors() == descriptors, "%u descriptors are left", fuzz_descriptors());
	return 0;
}
