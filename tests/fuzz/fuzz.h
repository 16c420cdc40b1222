/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzz targets share: reading an input piece by piece, files in memory, and saying what broke.
 *
 * A target defines LLVMFuzzerTestOneInput(), which libFuzzer calls with one input after the other in one process: what
 * it leaves behind, it leaves to the next input. Owns nothing.
 */
#ifndef GPUB_FUZZ_H
#define GPUB_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where a target defines it: changes data in place, to at most room bytes. Returns how many it has now. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

/* ---- an input, from the front; what is behind its end is zeros ---- */

struct input {
	const uint8_t *data;
	size_t         left;
};

void input_take(struct input *input, void *bytes, size_t size);

static inline uint8_t input_byte(struct input *input)
{
	uint8_t byte;

	input_take(input, &byte, sizeof byte);
	return byte;
}

static inline uint32_t input_u32(struct input *input)
{
	uint32_t word;

	input_take(input, &word, sizeof word);
	return word;
}

static inline uint64_t input_u64(struct input *input)
{
	uint64_t word;

	input_take(input, &word, sizeof word);
	return word;
}

/* Below count, which is at most 256. */
static inline unsigned input_below(struct input *input, unsigned count)
{
	return input_byte(input) % count;
}

/* Changes one of the bytes: which, and in which bits, is the input's. */
void input_flip(struct input *input, void *bytes, size_t size);

/* ---- what must hold ---- */

/* Says on stderr what is wrong and aborts: libFuzzer then keeps the input. */
_Noreturn void fuzz_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FUZZ_HOLDS(condition, ...)            \
	do {                                  \
		if (!(condition))             \
			fuzz_fail(__VA_ARGS__); \
	} while (0)

/*
 * The last error message of error_set() is one line that says something. It is then forgotten, lest it pass for
 * another.
 */
void fuzz_check_message(void);

/* The same, and it begins with FILE:LINE: of a line that the file, which is those bytes, has. */
void fuzz_check_file_message(const char *path, const uint8_t *data, size_t size);

/* ---- files and descriptors ---- */

/* A file in memory with those bytes, for the caller to close. */
int fuzz_file(const void *bytes, size_t size);

#define FUZZ_PATH_SIZE 32
/* Its path, for what opens by name. */
const char *fuzz_path(int fd, char path[FUZZ_PATH_SIZE]);

/* How many descriptors this process has open. */
unsigned fuzz_descriptors(void);

#endif
