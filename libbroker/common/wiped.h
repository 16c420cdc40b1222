/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wiped.h - memory that a fork wipes. A child, also one made without atfork handlers, finds zeros there, and so detects
 * without a system call that it is a child (madvise(2), MADV_WIPEONFORK, Linux 4.14).
 */
#ifndef GPUB_WIPED_H
#define GPUB_WIPED_H

#include <stddef.h>

/*
 * Maps so many bytes of zeros, to be unmapped with munmap(); protection as for mmap(2). NULL, with errno: no memory, or
 * (ENOTSUP) the kernel cannot wipe it: then a child would take its parent's state for its own.
 */
void *wiped_map(size_t size, int protection);

/*
 * For an atfork handler, in the child: wipes what wiped_map() returned where the fork did not. qemu-user before 8.0
 * answers MADV_WIPEONFORK with 0 and ignores it. Async-signal-safe.
 */
void wiped_by_hand(void *memory, size_t size);

#endif
