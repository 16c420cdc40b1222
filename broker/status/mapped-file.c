/* SPDX-License-Identifier: Apache-2.0 */
/* mapped-file.c - see mapped-file.h */
#include "mapped-file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Begin, end and state of the mapping, for the signal handler. Atomic, because any thread may run the handler. */
static struct {
	_Atomic(uintptr_t) begin, end;
	atomic_bool        is_lost;
	struct sigaction   before;
} guard;

/*
 * Handler of SIGBUS. If the address is in the mapping, replaces the mapping by anonymous memory; mmap() is a bare
 * system call, and safe in a handler. If the address is elsewhere, or mmap() fails, restores the former action. In both
 * cases the access that raised the signal is then repeated.
 */
static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr, begin = atomic_load(&guard.begin), end = atomic_load(&guard.end);
	int saved = errno;
	void *instead = MAP_FAILED;

	(void)context;
	if (at >= begin && at < end)
		instead = mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (instead == MAP_FAILED)
		sigaction(signal, &guard.before, NULL);
	else
		atomic_store(&guard.is_lost, true);
	errno = saved;
}

static int guard_install(void)
{
	struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART }, before;
	sigset_t bus;

	if (sigaction(SIGBUS, &action, &before))
		return -errno;
	if (before.sa_sigaction != on_bus_error)
		guard.before = before;
	/* the parent may have blocked SIGBUS, and then the kernel would end the process instead */
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	return -pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

/*
 * Allocates the file's space up to `size`: what is beyond the mapping, or all if the file was truncated, so that the
 * mapping is valid again.
 */
static int allocate(const struct mapped_file *file, size_t size)
{
	size_t from = file->size;
	struct stat st;
	int error;

	if (!fstat(file->fd, &st) && (size_t)st.st_size < from) {
		atomic_store(&guard.is_lost, true);
		from = 0;
	}
	do
		error = posix_fallocate(file->fd, (off_t)from, (off_t)(size - from));
	while (error == EINTR);
	return -error;
}

static void unmap(struct mapped_file *file)
{
	atomic_store(&guard.begin, UINTPTR_MAX);
	if (file->bytes)
		munmap(file->bytes, file->size);
	file->bytes = NULL;
	file->size = 0;
}

int mapped_file_reserve(struct mapped_file *file, size_t size)
{
	/* grows by an eighth of the size at least, because each growth maps all pages anew */
	size_t grown = file->size + file->size / 8;
	void *bytes;
	int error;

	if (size <= file->size)
		return 0;
	grown = ((grown < size ? size : grown) + MAPPED_FILE_STEP - 1) / MAPPED_FILE_STEP * MAPPED_FILE_STEP;
	error = guard_install();
	if (!error)
		error = allocate(file, grown);
	if (error)
		return error;
	bytes = mmap(NULL, grown, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	unmap(file);
	file->bytes = bytes;
	file->size = grown;
	atomic_store(&guard.end, (uintptr_t)file->bytes + grown);
	atomic_store(&guard.begin, (uintptr_t)file->bytes);
	return 0;
}

bool mapped_file_is_lost(const struct mapped_file *file)
{
	return file->bytes && atomic_load(&guard.is_lost);
}

void mapped_file_reset(struct mapped_file *file)
{
	unmap(file);
	atomic_store(&guard.is_lost, false);
}
