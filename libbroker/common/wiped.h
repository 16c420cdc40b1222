/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wiped.h - memory that a fork wipes. A child, also one made without atfork handlers, finds zeros there, and so detects
 * without a system call that it is a child (madvise(2), MADV_WIPEONFORK, Linux 4.14).
 */
#ifndef GPUB_WIPED_H
#define GPUB_WIPED_H

#include <stddef.h>

/*
 * Maps so many bytes of zeros, to be unmapped with munmap(); protection as for mmap(2). NULL, with errno: no memory. A
 * kernel that does not know the advice (gVisor answers EINVAL) does not wipe the memory at a fork: wiped_by_hand()
 * does, in a child of fork() alone.
 */
void *wiped_map(size_t size, int protection);

/*
 * For an atfork handler, in the child: wipes what wiped_map() returned where the fork did not. gVisor does not know
 * MADV_WIPEONFORK; qemu-user before 8.0 answers it with 0 and ignores it. Async-signal-safe.
 */
void wiped_by_hand(void *memory, size_t size);

#endif
