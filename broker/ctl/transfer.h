/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - copies bytes between a lease's memory and a callback that produces or consumes them, block by block,
 * through pinned host memory.
 *
 * There are two blocks, each with a stream of its own: the callback works on one while the device copies the other.
 * Owns the blocks and streams. Waits for all copies before it returns, also after a failure. Never returns a lease.
 */
#ifndef GPUB_CTL_TRANSFER_H
#define GPUB_CTL_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"
#include "progress.h"

#define TRANSFER_BLOCKS 2

struct transfer {
	gpub_client     *client;
	struct progress *progress;
	size_t           block; /* size of each block in bytes */
	struct transfer_block {
		void  *bytes, *stream;
		size_t size; /* bytes of the block's last copy, which may be pending; 0: there was none */
	} blocks[TRANSFER_BLOCKS];
};

/* Callback: fills `bytes` with the buffer's `size` bytes at the offset `at`. A negative errno ends the transfer. */
typedef int transfer_fill(void *context, void *bytes, size_t size, uint64_t at);

/* Callback: consumes the buffer's `size` bytes at the offset `at`. A negative errno ends the transfer. */
typedef int transfer_take(void *context, const void *bytes, size_t size, uint64_t at);

/* Makes the blocks, for the current device. size: bytes of the largest transfer. Returns 0 or negative errno. */
int transfer_open(struct transfer *transfer, gpub_client *client, uint64_t size, struct progress *progress);

/* Destroys the streams. The blocks' memory stays mapped until the process ends (device/page.h). */
void transfer_close(struct transfer *transfer);

/* Copies `size` bytes from fill() to a lease's memory. Fails with -EINTR (interrupt.h), or as fill() or the device. */
int transfer_in(struct transfer *transfer, void *to, uint64_t size, transfer_fill *fill, void *context);

/* Copies `size` bytes from the lease's memory at `from` to take(). Returns as transfer_in(). */
int transfer_out(struct transfer *transfer, const void *from, uint64_t size, transfer_take *take, void *context);

#endif
