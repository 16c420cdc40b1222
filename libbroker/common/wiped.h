/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wiped.h - memory that a fork wipes: a child, also one made without atfork handlers, finds zeros where its parent has
 * something, and so knows itself for a child without a system call (madvise(2), MADV_WIPEONFORK, Linux 4.14).
 */
#ifndef GPUB_WIPED_H
#define GPUB_WIPED_H

#include <stddef.h>

/*
 * So many bytes of zeros, from a page's beginning, for munmap(); protection as for mmap(2). NULL, with errno: there is no
 * memory, or (ENOTSUP) the kernel cannot wipe it, for what is not wiped would tell a child that all is its own.
 */
void *wiped_map(size_t size, int protection);

/*
 * For an atfork handler, in the child: wipes what wiped_map() returned where the fork did not. qemu-user before 8.0 answers
 * MADV_WIPEONFORK with 0 and ignores it. Async-signal-safe.
 */
void wiped_by_hand(void *memory, size_t size);

#endif
