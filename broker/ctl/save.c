/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - see save.h */
#include "save.h"

#include "common/error.h"
#include "formats.h"
#include "interrupt.h"
#include "output.h"
#include "transfer.h"
#include "whole.h"

/* State of one run of broker-ctl save. */
struct save {
	const struct save_order *order;
	gpub_client *client;
	gpub_lease   lease;
};

/* ---- the file ---- */

static int take(void *output, const void *bytes, size_t size, uint64_t at)
{
	(void)at;
	return whole_write(((const struct output *)output)->fd, bytes, size);
}

static int output_write(struct save *save, struct output *output)
{
	const char *shown = save->order->quiet ? NULL : save->order->name;
	struct transfer transfer;
	int error = transfer_open(&transfer, save->client, save->lease.size, shown);

	if (error)
		return error;
	error = transfer_out(&transfer, save->lease.ptr, take, output);
	transfer_close(&transfer);
	return error;
}

static int file_write(struct save *save)
{
	struct saved_error said;
	struct output output;
	int error = output_open(&output, save->order->file);

	if (error)
		return error;
	error = output_write(save, &output);
	if (!error)
		return output_commit(&output);
	said = error_save();
	output_abandon(&output);
	return error_set(error, "%.100s: %s", save->order->file, said.text);
}

/* ---- the buffer ---- */

/* Acquires the buffer on its own device, or on the current device if this process does not see the buffer's device. */
static int buffer_acquire(struct save *save)
{
	gpub_info info = { .struct_size = sizeof info };
	int error = gpub_stat(save->client, save->order->name, &info);

	if (!error && info.device >= 0)
		error = gpub_set_device(save->client, info.device);
	return error ? error : gpub_acquire(save->client, save->order->name, GPUB_READ, 0, &save->lease);
}

int ctl_save(const struct save_order *order)
{
	struct save save = { .order = order };
	int error = formats_check("save", order->file, NULL);

	if (!error)
		error = gpub_connect(&save.client, order->address);
	if (error)
		return error;
	interrupt_watch();
	error = buffer_acquire(&save);
	if (error)
		goto disconnect;
	error = file_write(&save);
	gpub_return(&save.lease);
disconnect:;
	SAVE_ERROR();
	gpub_disconnect(save.client);
	return error;
}
