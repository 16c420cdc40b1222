/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-memory.c - gpub_host_alloc and gpub_host_free: host memory that devices read and write by themselves.
 *
 * Owns the list of allocated blocks, by which gpub_host_free() recognises a block and knows its size. Never unmaps
 * memory that is still registered with the device.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <utlist.h>

#include "client/client.h"
#include "common/error.h"
#include "common/size.h"
#include "common/thread.h"
#include "device/page.h"

#define WHOLE (64u << 10) /* bytes to a multiple of which sizes are rounded up: whole pages on any machine */

struct host_block {
	void              *ptr;
	uint64_t           size;
	struct host_block *next;
};

static struct host_block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the list ---- */

static void block_add(struct host_block *block)
{
	pthread_mutex_lock(&blocks_lock);
	LL_PREPEND(blocks, block);
	pthread_mutex_unlock(&blocks_lock);
}

/*
 * Removes the block that begins at ptr from the list, so that only one thread frees it, and returns it. NULL: no block
 * begins at ptr.
 */
static struct host_block *block_take(const void *ptr)
{
	struct host_block *block;

	pthread_mutex_lock(&blocks_lock);
	LL_SEARCH_SCALAR(blocks, block, ptr, ptr);
	if (block)
		LL_DELETE(blocks, block);
	pthread_mutex_unlock(&blocks_lock);
	return block;
}

/* ---- the calls ---- */

static int block_map(struct gpub_client *client, struct host_block *block, uint64_t size)
{
	block->size = size <= (uint64_t)1 << 62 ? size_round_up(size, WHOLE) : 0;
	if (!block->size)
		return error_set(-EINVAL, "%llu bytes of host memory: ask for 1 to 2^62", (unsigned long long)size);
	return page_map(client->device->page_register, block->size, -1, true, &block->ptr);
}

int gpub_host_alloc(gpub_client *client, uint64_t size, void **ptr)
{
	struct host_block *block;
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!ptr)
		return error_set(-EINVAL, "there is no place for the memory: pass the address of a pointer");
	block = calloc(1, sizeof *block);
	if (!block)
		return error_set(-ENOMEM, "out of memory");
	error = block_map(client, block, size);
	if (error) {
		free(block);
		return error;
	}
	block_add(block);
	*ptr = block->ptr;
	return 0;
}

int gpub_host_free(gpub_client *client, void *ptr)
{
	struct host_block *block;
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (error || !ptr)
		return error;
	block = block_take(ptr);
	if (!block)
		return error_set(-EINVAL,
				 "%p is not, or no more, memory of gpub_host_alloc(): pass what that call gave", ptr);
	error = client->device->page_unregister(ptr);
	if (error) {
		block_add(block);
		return error;
	}
	munmap(ptr, block->size);
	free(block);
	return 0;
}
