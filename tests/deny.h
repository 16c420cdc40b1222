/* SPDX-License-Identifier: Apache-2.0 */
/* deny.h - a system that answers some calls in its own way, as sandboxes and emulators do: for tests. */
#ifndef GPUB_TESTS_DENY_H
#define GPUB_TESTS_DENY_H

#define DENIALS_MAX 8

/* One system call, and what it is answered with. */
struct denial {
	int      call;     /* SYS_madvise, for example */
	int      argument; /* index of the argument that is compared with value; -1: every such call is denied */
	unsigned value;
	int      error; /* errno; 0: the call succeeds and does nothing */
};

/*
 * From now on this thread's calls are answered so, and those of the threads and processes that it makes. -1, with
 * errno: the kernel has no seccomp filters, or there are more denials than DENIALS_MAX.
 */
int deny(const struct denial *denials, unsigned count);

#endif
