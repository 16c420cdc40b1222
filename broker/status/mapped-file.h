/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped-file.h - a file that one process writes through a shared mapping, safe against other processes that truncate
 * it.
 *
 * The file's space is allocated before it is mapped, so that a full file system is an error and no signal. A process
 * that may write the file may still truncate it. Then the next access raises SIGBUS, and the handler replaces the
 * mapping by anonymous memory. From then on the bytes that are written are in no file, until mapped_file_reset().
 * Owns the mapping and the handler of SIGBUS. A process has at most one such file at a time. Never reads the file.
 * Not thread-safe.
 */
#ifndef GPUB_MAPPED_FILE_H
#define GPUB_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPPED_FILE_STEP 65536u /* a file's size is a multiple of this number of bytes */

struct mapped_file {
	int      fd;    /* descriptor of the file, owned by the caller */
	uint8_t *bytes; /* the mapping; NULL: nothing is mapped */
	size_t   size;  /* size of the mapping in bytes */
};

/*
 * Makes file and mapping at least `size` bytes large; file->bytes may change. Returns 0, or a negative errno such as
 * -ENOSPC, -EFBIG or -ENOMEM, and then the mapping is unchanged.
 */
int mapped_file_reserve(struct mapped_file *file, size_t size);

/* Returns true if another process truncated the file, so that bytes that were written may not be in the file. */
bool mapped_file_is_lost(const struct mapped_file *file);

/* Unmaps the file, whose contents stay, and clears the state of mapped_file_is_lost(). */
void mapped_file_reset(struct mapped_file *file);

#endif
