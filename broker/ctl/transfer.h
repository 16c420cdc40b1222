/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - bytes between a lease's memory and functions that make or take them, block by block, through pinned memory.
 *
 * Two blocks, each with a stream of its own: one is filled or taken while the device copies the other. Owns blocks and streams. Waits
 * for its copies before it returns, also where it fails; never returns a lease.
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
	size_t           block; /* bytes of each */
	struct transfer_block {
		void  *bytes, *stream;
		size_t size; /* on their way */
	} blocks[TRANSFER_BLOCKS];
};

/* Fill so many bytes, or take them; at: where they are in the buffer. Negative errno, with the error message, ends the transfer. */
typedef int transfer_fill(void *context, void *bytes, size_t size, uint64_t at);
typedef int transfer_take(void *context, const void *bytes, size_t size, uint64_t at);

/* For the current device. size: the most that one transfer has. */
int transfer_open(struct transfer *transfer, gpub_client *client, uint64_t size, struct progress *progress);
void transfer_close(struct transfer *transfer);

/* Each returns 0 when all is done; -EINTR (interrupt.h); or what the function or the device said. */
int transfer_in(struct transfer *transfer, void *to, uint64_t size, transfer_fill *fill, void *context);
int transfer_out(struct transfer *transfer, const void *from, uint64_t size, transfer_take *take, void *context);

#endif
