/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-memory.c - gpub_host_alloc and gpub_host_free: host memory that devices read and write by themselves.
 *
 * Owns nothing: the caller keeps address and size. Never frees memory that the device has not given back.
 */
#include <errno.h>
#include <sys/mman.h>

#include "client/client.h"
#include "common/error.h"
#include "common/size.h"
#include "common/thread.h"
#include "device/page.h"

#define WHOLE (64u << 10) /* bytes: whole pages on every machine */

/* 0: it cannot be rounded up. */
static uint64_t whole_size(uint64_t size)
{
	return size && size <= (uint64_t)1 << 62 ? size_round_up(size, WHOLE) : 0;
}

int gpub_host_alloc(gpub_client *client, uint64_t size, void **ptr)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!ptr)
		return error_set(-EINVAL, "there is no place for the memory: pass the address of a pointer");
	if (!whole_size(size))
		return error_set(-EINVAL, "%llu bytes of host memory: ask for 1 to 2^62", (unsigned long long)size);
	return page_map(client->device->page_register, whole_size(size), -1, true, ptr);
}

int gpub_host_free(gpub_client *client, void *ptr, uint64_t size)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (error || !ptr)
		return error;
	if (!whole_size(size))
		return error_set(-EINVAL, "%llu bytes of host memory: pass the size that gpub_host_alloc() got", (unsigned long long)size);
	error = client->device->page_unregister(ptr);
	if (!error)
		munmap(ptr, whole_size(size));
	return error;
}
