/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-fork.c - what must be known and done about CUDA in a forked child, without one call of CUDA.
 *
 * Owns one flag: this process came by fork, without exec, out of one in which CUDA had been started. Every
 * call of CUDA fails there (facts.md: cudaErrorInitializationError), and whoever keeps the GPU's descriptors
 * there keeps a dead parent's kernels running (facts.md, "Death": its kernel wrote on until the child died).
 *
 * Built always, also without CUDA. Never allocates, locks or prints: its code runs in the child between fork
 * and exec, where only async-signal-safe calls are sure. A vfork or posix_spawn runs none of it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device/cuda-fork.h"
#include "device/device.h"

/* What getdents64(2) fills in; glibc has no declaration of it. */
struct entry {
	uint64_t       inode;
	int64_t        offset;
	unsigned short length;
	unsigned char  type;
	char           name[];
};

static volatile bool forked;

/* Says whether to go on with the next descriptor. */
typedef bool descriptor_visitor(int descriptor, const char *target);

static int descriptor_number(const char *name)
{
	int number = 0;

	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return -1;
		number = number * 10 + (*name - '0');
	}
	return number;
}

static bool descriptor_visit(int directory, const struct entry *entry, descriptor_visitor *visitor)
{
	char    target[64];
	int     descriptor = descriptor_number(entry->name); /* "." and ".." give -1 */
	ssize_t length;

	if (descriptor < 0 || descriptor == directory)
		return true;
	length = readlinkat(directory, entry->name, target, sizeof(target) - 1);
	if (length < 0)
		return true;
	target[length] = '\0'; /* longer ones are cut: no device of interest is that long */
	return visitor(descriptor, target);
}

static bool descriptors_block(int directory, const char *block, long length, descriptor_visitor *visitor)
{
	for (long at = 0; at < length;) {
		const struct entry *entry = (const struct entry *)(const void *)(block + at);

		if (!descriptor_visit(directory, entry, visitor))
			return false;
		at += entry->length;
	}
	return true;
}

/* Calls visitor for each open descriptor; it may close the one that it is given. */
static void descriptors_each(descriptor_visitor *visitor)
{
	_Alignas(struct entry) char block[2048];
	int  directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long length;

	if (directory < 0)
		return;
	while ((length = syscall(SYS_getdents64, directory, block, sizeof(block))) > 0) {
		if (!descriptors_block(directory, block, length, visitor))
			break;
	}
	close(directory);
}

/*
 * The driver cannot be initialised without /dev/nvidia-uvm. The other devices prove less: a parent that only
 * asked NVML (nvidiactl, nvidia0) leaves CUDA usable in its children.
 */
static bool notice_cuda(int descriptor, const char *target)
{
	(void)descriptor;
	if (strcmp(target, "/dev/nvidia-uvm"))
		return true;
	forked = true;
	return false;
}

static bool close_nvidia(int descriptor, const char *target)
{
	static const char prefix[] = "/dev/nvidia";

	if (!strncmp(target, prefix, sizeof(prefix) - 1))
		close(descriptor);
	return true;
}

static void fork_child(void)
{
	int saved = errno;

	if (!forked) /* the flag stays for a grandchild, whose parent may have closed them */
		descriptors_each(notice_cuda);
	errno = saved;
}

/* Early, so that this runs before any handler that closes descriptors: child handlers run in this order. */
__attribute__((constructor(101))) static void fork_register(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

bool device_cuda_forked(void)
{
	return forked;
}

void cuda_close_descriptors(void)
{
	int saved = errno;

	descriptors_each(close_nvidia);
	errno = saved;
}
