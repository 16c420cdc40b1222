/* SPDX-License-Identifier: Apache-2.0 */
/* wiped.c - see wiped.h */
#include "wiped.h"

#include <errno.h>
#include <sys/mman.h>

void *wiped_map(size_t size, int protection)
{
	void *memory = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int saved;

	if (memory == MAP_FAILED)
		return NULL;
	if (!madvise(memory, size, MADV_WIPEONFORK) || errno == EINVAL)
		return memory;
	saved = errno;
	munmap(memory, size);
	errno = saved;
	return NULL;
}

/* After MADV_DONTNEED, private anonymous memory reads as zeros. */
void wiped_by_hand(void *memory, size_t size)
{
	madvise(memory, size, MADV_DONTNEED);
}
