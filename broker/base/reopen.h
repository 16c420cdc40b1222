/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reopen.h - opens again the file that a descriptor refers to.
 *
 * Who receives a descriptor shares the open file with its sender: its flags (O_APPEND sends a pwrite(2) elsewhere), its
 * offset, its locks. So the broker opens a file again before it sends it. Owns nothing; never changes the descriptor that
 * it is given.
 */
#ifndef GPUB_REOPEN_H
#define GPUB_REOPEN_H

/* access: O_RDONLY or O_RDWR. The new descriptor, the caller's, or a negative errno. */
int reopen(int fd, int access);

#endif
