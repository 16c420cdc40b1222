/* SPDX-License-Identifier: Apache-2.0 */
/* advice.h - a system that ignores what madvise(2) is told about forks, as qemu-user does: for tests. */
#ifndef GPUB_TESTS_ADVICE_H
#define GPUB_TESTS_ADVICE_H

/*
 * From now on this thread's MADV_DONTFORK and MADV_WIPEONFORK are answered with 0 and not done, and those of the threads
 * and processes that it makes. -1, with errno: the kernel has no seccomp filters.
 */
int advice_ignore(void);

#endif
