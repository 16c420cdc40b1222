/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail-calls.c - preloaded into a program under test: one call of one function fails, as fail-calls.h says.
 *
 * Each function is passed on to the next library, but for the one call. Takes its orders out of the environment before
 * main(), so that what the program starts is not touched. Never allocates.
 */
#include "fail-calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define FRAMES 12

static const char *const names[FAIL_FUNCTION_COUNT] = {
#define FAIL_NAME(name, error) [FAIL_##name] = #name,
	FAIL_FUNCTIONS(FAIL_NAME)
#undef FAIL_NAME
};

static const int errors[FAIL_FUNCTION_COUNT] = {
#define FAIL_ERROR(name, error) [FAIL_##name] = error,
	FAIL_FUNCTIONS(FAIL_ERROR)
#undef FAIL_ERROR
};

static void *reals[FAIL_FUNCTION_COUNT], *real_free;
static struct fail_book *book;
static pid_t program; /* 0: main() has not begun, nothing counts */
static uint32_t fail_function = FAIL_FUNCTION_COUNT, fail_nth;
static __thread bool inside; /* what this library itself calls is not the program's */

/* ---- the real functions ---- */

/* dlsym() allocates: what it gets while malloc() itself is looked up, and never gives back. */
static char lookup[4096] __attribute__((aligned(16)));
static size_t looked_up;

static void *lookup_take(size_t size)
{
	void *memory = lookup + looked_up;

	looked_up += (size + 15) & ~(size_t)15;
	if (looked_up > sizeof lookup)
		abort();
	return memory;
}

static bool is_lookup(const void *memory)
{
	return (const char *)memory >= lookup && (const char *)memory < lookup + sizeof lookup;
}

static void *next(enum fail_function function)
{
	static __thread bool looking;

	if (!reals[function] && looking)
		return NULL;
	if (!reals[function]) {
		looking = true;
		reals[function] = dlsym(RTLD_NEXT, names[function]);
		looking = false;
	}
	return reals[function];
}

#define NEXT(name) ((__typeof__(&name))next(FAIL_##name))

/* ---- counting and failing ---- */

static uint64_t site_of_caller(void)
{
	void *frames[FRAMES];
	int count = backtrace(frames, FRAMES);
	uint64_t hash = 14695981039346656037u;

	for (int i = 3; i < count; i++)
		hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211u;
	return hash;
}

static void note(enum fail_function function, uint32_t nth)
{
	uint32_t place = atomic_fetch_add(&book->calls, 1);

	if (place < FAIL_CALLS_MAX)
		book->call[place] = (struct fail_call){ function, nth, site_of_caller() };
}

/* Whether this call is the one; errno is set. */
static bool fails(enum fail_function function)
{
	uint32_t nth;
	bool failing;

	if (!program || inside || getpid() != program)
		return false;
	inside = true;
	nth = atomic_fetch_add(&book->count[function], 1) + 1;
	failing = function == fail_function && nth == fail_nth;
	if (fail_function == FAIL_FUNCTION_COUNT)
		note(function, nth);
	if (failing)
		atomic_fetch_add(&book->failed, 1);
	inside = false;
	if (failing)
		errno = errors[function];
	return failing;
}

/* For the program, if it looks for it: whether the call that was to fail has. */
int fail_calls_failed(void);
int fail_calls_failed(void)
{
	return book && atomic_load(&book->failed);
}

/* ---- the beginning ---- */

static _Noreturn void refuse(const char *what)
{
	fprintf(stderr, "fail-calls: %s\n", what);
	_exit(125);
}

static void orders_read(void)
{
	const char *order = getenv("GPUB_FAIL"), *path = getenv("GPUB_FAIL_BOOK");
	size_t length = order ? strcspn(order, ":") : 0;
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

	if (!order || fd < 0)
		refuse("GPUB_FAIL and GPUB_FAIL_BOOK are not set");
	book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (book == MAP_FAILED)
		refuse("the book cannot be mapped");
	close(fd);
	for (uint32_t i = 0; i < FAIL_FUNCTION_COUNT; i++)
		if (order[length] && strlen(names[i]) == length && !strncmp(names[i], order, length))
			fail_function = i;
	if (fail_function == FAIL_FUNCTION_COUNT && strcmp(order, "count"))
		refuse("GPUB_FAIL names no function");
	fail_nth = order[length] ? (uint32_t)strtoul(order + length + 1, NULL, 10) : 0;
}

typedef int main_function(int argc, char **argv, char **environment);

static main_function *real_main;

static int main_instead(int argc, char **argv, char **environment)
{
	void *frame[1];

	orders_read();
	unsetenv("LD_PRELOAD");
	unsetenv("GPUB_FAIL");
	unsetenv("GPUB_FAIL_BOOK");
	backtrace(frame, 1); /* loads what it needs, now */
	for (int i = 0; i < FAIL_FUNCTION_COUNT; i++)
		next((enum fail_function)i);
	program = getpid();
	return real_main(argc, argv, environment);
}

typedef int starter(main_function *function, int argc, char **argv, void (*init)(void), void (*fini)(void),
		    void (*loader_fini)(void), void *stack_end);

int __libc_start_main(main_function *function, int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*loader_fini)(void), void *stack_end);
int __libc_start_main(main_function *function, int argc, char **argv, void (*init)(void), void (*fini)(void),
		      void (*loader_fini)(void), void *stack_end)
{
	starter *start = (starter *)dlsym(RTLD_NEXT, "__libc_start_main");

	real_main = function;
	return start(main_instead, argc, argv, init, fini, loader_fini, stack_end);
}

/* ---- memory ---- */

void *malloc(size_t size)
{
	if (!NEXT(malloc))
		return lookup_take(size);
	return fails(FAIL_malloc) ? NULL : NEXT(malloc)(size);
}

void *calloc(size_t count, size_t size)
{
	if (!NEXT(calloc))
		return lookup_take(count * size);
	return fails(FAIL_calloc) ? NULL : NEXT(calloc)(count, size);
}

void *realloc(void *memory, size_t size)
{
	return fails(FAIL_realloc) ? NULL : NEXT(realloc)(memory, size);
}

void free(void *memory)
{
	if (is_lookup(memory))
		return;
	if (!real_free)
		real_free = dlsym(RTLD_NEXT, "free");
	((void (*)(void *))real_free)(memory);
}

char *strdup(const char *text)
{
	return fails(FAIL_strdup) ? NULL : NEXT(strdup)(text);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	return fails(FAIL_posix_memalign) ? ENOMEM : NEXT(posix_memalign)(memory, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return fails(FAIL_aligned_alloc) ? NULL : NEXT(aligned_alloc)(alignment, size);
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	return fails(FAIL_mmap) ? MAP_FAILED : NEXT(mmap)(at, size, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
	return mmap(at, size, protection, flags, fd, offset);
}

/* ---- functions that return -1, or their errno ---- */

#define CALL(type, name, parameters, arguments)                            \
	type name parameters                                               \
	{                                                                  \
		return fails(FAIL_##name) ? (type)-1 : NEXT(name) arguments; \
	}

#define CALL_RESULT(name, parameters, arguments)                                       \
	int name parameters                                                            \
	{                                                                              \
		return fails(FAIL_##name) ? errors[FAIL_##name] : NEXT(name) arguments; \
	}

CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
CALL(int, bind, (int sock, const struct sockaddr *address, socklen_t size), (sock, address, size))
CALL(int, listen, (int sock, int backlog), (sock, backlog))
CALL(int, connect, (int sock, const struct sockaddr *address, socklen_t size), (sock, address, size))
CALL(int, accept4, (int sock, struct sockaddr *address, socklen_t *size, int flags), (sock, address, size, flags))
CALL(int, setsockopt, (int sock, int level, int name, const void *value, socklen_t size),
     (sock, level, name, value, size))
CALL(int, getsockopt, (int sock, int level, int name, void *value, socklen_t *size), (sock, level, name, value, size))
CALL(ssize_t, sendmsg, (int sock, const struct msghdr *message, int flags), (sock, message, flags))
CALL(ssize_t, recvmsg, (int sock, struct msghdr *message, int flags), (sock, message, flags))
CALL(int, sendmmsg, (int sock, struct mmsghdr *messages, unsigned count, int flags), (sock, messages, count, flags))
CALL(int, madvise, (void *at, size_t size, int advice), (at, size, advice))
CALL(int, memfd_create, (const char *name, unsigned flags), (name, flags))
CALL(int, ftruncate, (int fd, off_t size), (fd, size))
CALL_RESULT(posix_fallocate, (int fd, off_t offset, off_t size), (fd, offset, size))
CALL_RESULT(pthread_create,
	    (pthread_t * thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument),
	    (thread, attributes, function, argument))
CALL(int, pipe2, (int fds[2], int flags), (fds, flags))
CALL(int, eventfd, (unsigned value, int flags), (value, flags))
CALL(int, socketpair, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair))
CALL(int, epoll_create1, (int flags), (flags))
CALL(int, epoll_ctl, (int set, int operation, int fd, struct epoll_event *event), (set, operation, fd, event))
CALL(int, epoll_wait, (int set, struct epoll_event *events, int count, int timeout), (set, events, count, timeout))
CALL(int, timerfd_create, (int clock, int flags), (clock, flags))
CALL(int, signalfd, (int fd, const sigset_t *signals, int flags), (fd, signals, flags))
CALL(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
CALL(ssize_t, pread, (int fd, void *bytes, size_t size, off_t offset), (fd, bytes, size, offset))
CALL(pid_t, fork, (void), ())
CALL(int, shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode))
CALL(int, poll, (struct pollfd *fds, nfds_t count, int timeout), (fds, count, timeout))
CALL(ssize_t, getrandom, (void *bytes, size_t size, unsigned flags), (bytes, size, flags))
CALL(int, linkat, (int from_dir, const char *from, int to_dir, const char *to, int flags),
     (from_dir, from, to_dir, to, flags))
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode))
CALL(int, chmod, (const char *path, mode_t mode), (path, mode))
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode))
CALL(int, stat, (const char *path, struct stat *st), (path, st))
CALL(int, fstat, (int fd, struct stat *st), (fd, st))
CALL(int, flock, (int fd, int operation), (fd, operation))

char *mkdtemp(char *template)
{
	return fails(FAIL_mkdtemp) ? NULL : NEXT(mkdtemp)(template);
}

/* ---- functions with an argument more or less ---- */

static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

#define OPEN(name)                                                            \
	int name(const char *path, int flags, ...)                            \
	{                                                                     \
		va_list args;                                                 \
		mode_t mode;                                                  \
                                                                              \
		va_start(args, flags);                                        \
		mode = mode_of(flags, args);                                  \
		va_end(args);                                                 \
		return fails(FAIL_open) ? -1 : NEXT(open)(path, flags, mode); \
	}

OPEN(open)
OPEN(open64)

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return fails(FAIL_openat) ? -1 : NEXT(openat)(dir, path, flags, mode);
}

/* Only calls that can fail because something is missing. */
#define FCNTL(name)                                                                                            \
	int name(int fd, int command, ...)                                                                     \
	{                                                                                                      \
		va_list args;                                                                                  \
		void *argument;                                                                                \
                                                                                                               \
		va_start(args, command);                                                                       \
		argument = va_arg(args, void *);                                                               \
		va_end(args);                                                                                  \
		if ((command == F_DUPFD_CLOEXEC || command == F_ADD_SEALS || command == F_OFD_SETLK) &&        \
		    fails(FAIL_fcntl))                                                                         \
			return -1;                                                                             \
		return NEXT(fcntl)(fd, command, argument);                                                     \
	}

FCNTL(fcntl)
FCNTL(fcntl64)
