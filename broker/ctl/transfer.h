/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.h - copies bytes between a lease's memory and a callback that produces or consumes them, block by block,
 * through pinned host memory, and shows its progress as one line on standard error if that is a terminal.
 *
 * There are two blocks, each with a stream of its own: the callback works on one while the device copies the other.
 * Owns the blocks and streams. Waits for all copies before it returns, also after a failure. Never returns a lease.
 */
#ifndef GPUB_CTL_TRANSFER_H
#define GPUB_CTL_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "gpubroker.h"

#define TRANSFER_BLOCKS 2

struct transfer {
	gpub_client *client;
	uint64_t     size, done; /* bytes to copy, and bytes copied so far */
	size_t       block;      /* size of each block in bytes */
	const char  *shown;      /* text that the line of progress begins with; NULL: no line is shown */
	int          percent;    /* percentage in the line of progress as last written; -1: no line was written */
	struct transfer_block {
		void  *bytes, *stream;
		size_t size; /* bytes of the block's last copy, which may be pending; 0: there was none */
	} blocks[TRANSFER_BLOCKS];
};

/* Callback: fills `bytes` with the buffer's `size` bytes at the offset `at`. A negative errno ends the transfer. */
typedef int transfer_fill(void *context, void *bytes, size_t size, uint64_t at);

/* Callback: consumes the buffer's `size` bytes at the offset `at`. A negative errno ends the transfer. */
typedef int transfer_take(void *context, const void *bytes, size_t size, uint64_t at);

/*
 * Makes the blocks, for the current device and a transfer of `size` bytes. name: text that the line of progress begins
 * with; NULL: no line is shown. Returns 0 or negative errno.
 */
int transfer_open(struct transfer *transfer, gpub_client *client, uint64_t size, const char *name);

/* Ends the line of progress, and destroys the streams. The blocks' memory stays mapped: see device/page.h. */
void transfer_close(struct transfer *transfer);

/*
 * Copies all bytes, which fill() produces, to a lease's memory. Returns 0 or negative errno with the error message:
 * -EINTR (interrupt.h), or that of fill() or of the device.
 */
int transfer_in(struct transfer *transfer, void *to, transfer_fill *fill, void *context);

/* Copies all bytes of the lease's memory at `from` to take(). Returns as transfer_in() does. */
int transfer_out(struct transfer *transfer, const void *from, transfer_take *take, void *context);

#endif
