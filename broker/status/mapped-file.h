/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapped-file.h - a file in memory that one process writes and that nobody else can hurt it through.
 *
 * Owns the mapping, and the handler of SIGBUS. Memory of the file is allocated before it is mapped, so that a full file system
 * is an error and no signal. Whoever may write the file may truncate it all the same: the access that follows raises SIGBUS, and
 * the handler puts memory of the process's own in the mapping's place. What is written from then on is in no file, until
 * mapped_file_reset(). A process has one such file at a time. Never reads the file. Not thread-safe.
 */
#ifndef GPUB_MAPPED_FILE_H
#define GPUB_MAPPED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapped_file {
	int      fd;    /* the caller's */
	uint8_t *bytes; /* NULL: nothing is mapped */
	size_t   size;
};

/* Makes it at least so large; bytes may move. -ENOSPC, -EFBIG, -ENOMEM: it is as before. */
int mapped_file_reserve(struct mapped_file *file, size_t size);

/* It was truncated: what was written may be in no file. */
bool mapped_file_is_lost(const struct mapped_file *file);

/* Unmaps it: the file keeps what it holds. */
void mapped_file_reset(struct mapped_file *file);

#endif
