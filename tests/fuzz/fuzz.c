/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.c - see fuzz.h */
#include "fuzz.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"

void input_take(struct input *input, void *bytes, size_t size)
{
	size_t here = size < input->left ? size : input->left;

	if (here)
		memcpy(bytes, input->data, here);
	memset((uint8_t *)bytes + here, 0, size - here);
	input->data += here;
	input->left -= here;
}

void input_flip(struct input *input, void *bytes, size_t size)
{
	size_t at = input_byte(input);

	if (size > 256)
		at = at << 8 | input_byte(input);
	((uint8_t *)bytes)[at % size] ^= input_byte(input);
}

void fuzz_fail(const char *format, ...)
{
	va_list args;

	fputs("fuzz: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	putc('\n', stderr);
	abort();
}

void fuzz_check_message(void)
{
	const char *text = error_text();

	FUZZ_HOLDS(strlen(text) >= 10, "a refusal without an error message: '%s'", text);
	FUZZ_HOLDS(!strchr(text, '\n'), "a refusal of more than one line: '%s'", text);
	error_set(0, "");
}

void fuzz_check_file_message(const char *path, const uint8_t *data, size_t size)
{
	const char *text = error_text();
	unsigned long lines = 2;
	char *end;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	FUZZ_HOLDS(!strncmp(text, path, strlen(path)) && text[strlen(path)] == ':', "a refusal names no file: %s",
		   text);
	FUZZ_HOLDS(strtoul(text + strlen(path) + 1, &end, 10) - 1 < lines && *end == ':', "a refusal names no line: %s",
		   text);
	fuzz_check_message();
}

int fuzz_file(const void *bytes, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || (size && write(fd, bytes, size) != (ssize_t)size))
		fuzz_fail("no file in memory could be made");
	return fd;
}

const char *fuzz_path(int fd, char path[FUZZ_PATH_SIZE])
{
	snprintf(path, FUZZ_PATH_SIZE, "/proc/self/fd/%d", fd);
	return path;
}

unsigned fuzz_descriptors(void)
{
	DIR *fds = opendir("/proc/self/fd");
	unsigned count = 0;

	if (!fds)
		fuzz_fail("/proc/self/fd cannot be read");
	while (readdir(fds))
		count++;
	closedir(fds);
	return count;
}
