/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - see page.h */
#include "device/page.h"

#include <errno.h>
#include <sys/mman.h>

#include "common/error.h"

#define TRIES 16 /* number of addresses to try at most */

static int map_one(size_t size, int fd, bool writable, void **page)
{
	int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
	void *mapped = mmap(NULL, size, protection, fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	int error;

	if (mapped == MAP_FAILED)
		return error_set(-ENOMEM, "no memory that the device can write: %m");
	if (madvise(mapped, size, MADV_DONTFORK)) {
		error = error_set(-errno, "memory that the device writes cannot be kept from forks: %m");
		munmap(mapped, size);
		return error;
	}
	*page = mapped;
	return 0;
}

/*
 * Memory whose registration fails stays mapped until the last attempt, so that the next attempt gets another address.
 */
int page_map(int (*page_register)(void *, size_t, bool), size_t size, int fd, bool writable, void **page)
{
	void *tried[TRIES], *registered;
	unsigned tries = 0;
	int error;

	do {
		error = map_one(size, fd, writable, &tried[tries]);
		if (error)
			break;
		error = page_register(tried[tries++], size, writable);
	} while (error == -EEXIST && tries < TRIES);
	registered = error ? NULL : tried[--tries];
	while (tries > 0)
		munmap(tried[--tries], size);
	if (error)
		return error;
	*page = registered;
	return 0;
}
