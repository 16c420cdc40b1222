/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.c - see descriptors.h. Uses the system call getdents64 directly, because opendir(3) allocates memory. */
#include "descriptors.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A directory entry of getdents64(2), which glibc does not declare. */
struct entry {
	uint64_t       inode;
	int64_t        offset;
	unsigned short length;
	unsigned char  type;
	char           name[];
};

/* Returns the number that the name consists of, or -1 if the name is no number. */
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
	char    target[256];
	int     descriptor = descriptor_number(entry->name); /* "." and ".." give -1 */
	ssize_t length;

	if (descriptor < 0 || descriptor == directory)
		return true;
	length = readlinkat(directory, entry->name, target, sizeof(target) - 1);
	if (length < 0)
		return true;
	target[length] = '\0';
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

void descriptors_each(descriptor_visitor *visitor)
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
