/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reopen.h - an open file of its own for what a descriptor refers to.
 *
 * Whoever is sent a descriptor shares the open file behind it with its sender: its flags (O_APPEND sends a pwrite(2)
 * elsewhere), its offset, its locks. So what is handed out is opened anew. Owns nothing; never
 * changes the descriptor that it is given.
 */
#ifndef GPUB_REOPEN_H
#define GPUB_REOPEN_H

/* access: O_RDONLY or O_RDWR. The new descriptor, the caller's, or a negative errno. */
int reopen(int fd, int access);

#endif
