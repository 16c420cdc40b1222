/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail-calls.h - between failing.c and the library that it preloads into a program: which call fails, and what was
 * called.
 *
 *   GPUB_FAIL=NAME:NTH      the NTH call of that function by the program fails, once; "count": none does
 *   GPUB_FAIL_BOOK=FILE     a struct fail_book, mapped and written by the library
 *
 * Calls count from the beginning of main() on, in that process and not in its children, whichever library makes them.
 */
#ifndef GPUB_TESTS_CRASH_FAIL_CALLS_H
#define GPUB_TESTS_CRASH_FAIL_CALLS_H

#include <stdatomic.h>
#include <stdint.h>

/* function, the errno with which it fails. */
#define FAIL_FUNCTIONS(X)           \
	X(malloc, ENOMEM)           \
	X(calloc, ENOMEM)           \
	X(realloc, ENOMEM)          \
	X(strdup, ENOMEM)           \
	X(posix_memalign, ENOMEM)   \
	X(aligned_alloc, ENOMEM)    \
	X(socket, EMFILE)           \
	X(socketpair, EMFILE)       \
	X(bind, EADDRINUSE)         \
	X(listen, EADDRINUSE)       \
	X(connect, ECONNREFUSED)    \
	X(accept4, EMFILE)          \
	X(setsockopt, ENOMEM)       \
	X(getsockopt, ENOMEM)       \
	X(sendmsg, ENOBUFS)         \
	X(recvmsg, ENOMEM)          \
	X(sendmmsg, ENOBUFS)        \
	X(mmap, ENOMEM)             \
	X(madvise, ENOMEM)          \
	X(open, EMFILE)             \
	X(openat, EMFILE)           \
	X(memfd_create, EMFILE)     \
	X(ftruncate, ENOSPC)        \
	X(posix_fallocate, ENOSPC)  \
	X(fcntl, EMFILE)            \
	X(pthread_create, EAGAIN)   \
	X(pipe2, EMFILE)            \
	X(eventfd, EMFILE)          \
	X(epoll_create1, EMFILE)    \
	X(epoll_ctl, ENOMEM)        \
	X(epoll_wait, EINTR)        \
	X(timerfd_create, EMFILE)   \
	X(signalfd, EMFILE)         \
	X(pwrite, ENOSPC)           \
	X(pread, EIO)               \
	X(fork, EAGAIN)             \
	X(shm_open, EMFILE)         \
	X(poll, EINTR)              \
	X(getrandom, EINTR)         \
	X(linkat, ENOENT)           \
	X(mkdtemp, EACCES)          \
	X(mkdir, EACCES)            \
	X(chmod, EPERM)             \
	X(fchmod, EPERM)            \
	X(stat, ENOMEM)             \
	X(fstat, ENOMEM)            \
	X(flock, ENOLCK)

enum fail_function {
#define FAIL_ENUM(name, error) FAIL_##name,
	FAIL_FUNCTIONS(FAIL_ENUM)
#undef FAIL_ENUM
	FAIL_FUNCTION_COUNT
};

#define FAIL_CALLS_MAX 100000

/* site: what the chain of callers hashes to, the same for calls of one program from one place. */
struct fail_call {
	uint32_t function, nth;
	uint64_t site;
};

struct fail_book {
	_Atomic uint32_t failed; /* calls that were made to fail: 0 or 1 */
	_Atomic uint32_t calls;  /* in call[]; what did not fit is counted too */
	_Atomic uint32_t count[FAIL_FUNCTION_COUNT];
	struct fail_call call[FAIL_CALLS_MAX];
};

#endif
