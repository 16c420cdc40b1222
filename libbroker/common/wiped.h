/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wiped.h - memory that reads as zeros in a child after a fork (madvise(2), MADV_WIPEONFORK, Linux 4.14). From the
 * zeros a process detects without a system call that it is a child, also if it was forked without atfork handlers.
 */
#ifndef GPUB_WIPED_H
#define GPUB_WIPED_H

#include <stddef.h>

/*
 * Maps `size` bytes of zeros, to be unmapped with munmap(). protection: as for mmap(2). Returns NULL with errno set
 * if there is no memory. Succeeds also if the kernel does not know MADV_WIPEONFORK (gVisor: EINVAL). There a fork
 * does not wipe the memory, and only wiped_by_hand() in an atfork handler does.
 */
void *wiped_map(size_t size, int protection);

/*
 * Wipes memory of wiped_map(), if the fork did not. Call it in the child's atfork handler: gVisor does not know
 * MADV_WIPEONFORK, and qemu-user before 8.0 accepts and ignores it. Async-signal-safe.
 */
void wiped_by_hand(void *memory, size_t size);

#endif
