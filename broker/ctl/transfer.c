/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c - see transfer.h */
#include "transfer.h"

#include <stdio.h>
#include <unistd.h>

#include "client/client.h"
#include "common/error.h"
#include "common/size.h"
#include "device/page.h"
#include "interrupt.h"

#define BLOCK_MAX (8u << 20)
#define BLOCK_MIN (64u << 10) /* smallest size of a block in bytes: a multiple of the page size on every machine */

/* ---- progress ---- */

/* Counts the bytes as copied, and writes the line again if its percentage has changed. */
static void progress_add(struct transfer *transfer, size_t bytes)
{
	char done[SIZE_TEXT_MAX], size[SIZE_TEXT_MAX];
	int percent;

	transfer->done += bytes;
	percent = (int)((double)transfer->done / (double)transfer->size * 100);
	if (!transfer->shown || percent == transfer->percent)
		return;
	transfer->percent = percent;
	/* the blanks overwrite the end of a longer line */
	fprintf(stderr, "\r%.32s: %s of %s, %d%%      ", transfer->shown, size_format(transfer->done, done),
		size_format(transfer->size, size), percent);
}

/* ---- blocks ---- */

/* Makes a block's stream and pinned memory, which is never unmapped (device/page.h): the process ends soon. */
static int block_open(struct transfer *transfer, struct transfer_block *block)
{
	const struct device *device = transfer->client->device;
	int error = gpub_stream_create(transfer->client, GPUB_CURRENT, &block->stream);

	return error ? error : page_map(device->page_register, transfer->block, -1, true, &block->bytes);
}

int transfer_open(struct transfer *transfer, gpub_client *client, uint64_t size, const char *name)
{
	uint64_t block = !size ? BLOCK_MIN : size < BLOCK_MAX ? size_round_up(size, BLOCK_MIN) : BLOCK_MAX;
	int error = 0;

	*transfer = (struct transfer){ .client = client, .size = size, .block = block, .percent = -1 };
	transfer->shown = isatty(STDERR_FILENO) ? name : NULL;
	for (unsigned i = 0; !error && i < TRANSFER_BLOCKS; i++)
		error = block_open(transfer, &transfer->blocks[i]);
	if (error)
		transfer_close(transfer);
	return error;
}

void transfer_close(struct transfer *transfer)
{
	if (transfer->percent >= 0)
		fputc('\n', stderr);
	for (unsigned i = 0; i < TRANSFER_BLOCKS; i++)
		gpub_stream_destroy(transfer->blocks[i].stream);
}

/* Waits until the block's pending copy is done. Returns 0 or the copy's negative errno. */
static int block_wait(struct transfer_block *block)
{
	return block->size ? gpub_stream_sync(block->stream) : 0;
}

/* Waits for the pending copies of all blocks, also after a failure. Returns error if not 0, else the first failure. */
static int transfer_end(struct transfer *transfer, int error)
{
	for (unsigned i = 0; i < TRANSFER_BLOCKS; i++) {
		struct saved_error said = error_save();
		int failed = block_wait(&transfer->blocks[i]);

		transfer->blocks[i].size = 0;
		if (error)
			error_restore(&said);
		else
			error = failed;
	}
	return error;
}

/* ---- the two directions ---- */

static size_t size_at(const struct transfer *transfer, uint64_t at)
{
	return transfer->size - at < transfer->block ? transfer->size - at : transfer->block;
}

static int block_in(struct transfer *transfer, struct transfer_block *block, void *to)
{
	progress_add(transfer, block->size);
	return gpub_copy_on(transfer->client, to, block->bytes, block->size, block->stream);
}

int transfer_in(struct transfer *transfer, void *to, transfer_fill *fill, void *context)
{
	int error = 0;

	for (uint64_t at = 0; !error && at < transfer->size; at += transfer->block) {
		struct transfer_block *block = &transfer->blocks[at / transfer->block % TRANSFER_BLOCKS];

		error = interrupt_check();
		if (!error)
			error = block_wait(block);
		block->size = size_at(transfer, at);
		if (!error)
			error = fill(context, block->bytes, block->size, at);
		if (!error)
			error = block_in(transfer, block, (char *)to + at);
	}
	return transfer_end(transfer, error);
}

/*
 * Starts the copy of the next block of bytes, at the offset `at`, from the device to host memory. Does nothing if `at`
 * is the end of the transfer.
 */
static int block_out(struct transfer *transfer, const void *from, uint64_t at)
{
	struct transfer_block *block = &transfer->blocks[at / transfer->block % TRANSFER_BLOCKS];

	if (at >= transfer->size)
		return 0;
	block->size = size_at(transfer, at);
	return gpub_copy_on(transfer->client, block->bytes, (const char *)from + at, block->size, block->stream);
}

static int block_take(struct transfer *transfer, struct transfer_block *block, uint64_t at, transfer_take *take,
		      void *context)
{
	int error = interrupt_check();

	if (!error)
		error = block_wait(block);
	if (!error)
		error = take(context, block->bytes, block->size, at);
	if (!error)
		progress_add(transfer, block->size);
	return error;
}

int transfer_out(struct transfer *transfer, const void *from, transfer_take *take, void *context)
{
	struct transfer_block *blocks = transfer->blocks;
	uint64_t block = transfer->block;
	int error = block_out(transfer, from, 0);

	for (uint64_t at = 0; !error && at < transfer->size; at += block) {
		error = block_out(transfer, from, at + block);
		if (!error)
			error = block_take(transfer, &blocks[at / block % TRANSFER_BLOCKS], at, take, context);
	}
	return transfer_end(transfer, error);
}
