/* SPDX-License-Identifier: Apache-2.0 */
/* save.c - see save.h */
#include "save.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/error.h"
#include "common/layout.h"
#include "content.h"
#include "interrupt.h"
#include "npy.h"
#include "output.h"
#include "transfer.h"
#include "whole.h"

/* One run of the command. The file gets a header, which may be empty, and the first bytes of the buffer. */
struct save {
	const struct save_order *order;
	gpub_client *client;
	gpub_lease   lease;
	char         head[NPY_MADE_MAX];
	size_t       head_size; /* bytes of head */
	uint64_t     size;      /* bytes of the buffer that are written */
};

/* Puts the name of the buffer, or of the file, before the error message. Returns error. */
static int about(const char *name, int error)
{
	struct saved_error said = error_save();

	return error ? error_set(error, "%.100s: %s", name, said.text) : 0;
}

/* ---- the file ---- */

static int take(void *output, const void *bytes, size_t size, uint64_t at)
{
	(void)at;
	return whole_write(((const struct output *)output)->fd, bytes, size);
}

static int output_write(struct save *save, struct output *output)
{
	struct transfer transfer;
	struct progress progress;
	int error = whole_write(output->fd, save->head, save->head_size);

	if (error)
		return error;
	progress_begin(&progress, save->order->name, save->size, save->order->quiet);
	error = transfer_open(&transfer, save->client, save->size, &progress);
	if (error)
		return error;
	error = transfer_out(&transfer, save->lease.ptr, save->size, take, output);
	progress_end(&progress);
	transfer_close(&transfer);
	return error;
}

/* Checks that a file named .safetensors has that format, because the buffer may hold any bytes. */
static int output_check(const struct save *save, const struct output *output)
{
	struct content content;
	int fd, error;

	if (!content_is_safetensors(save->order->file))
		return 0;
	fd = fcntl(output->fd, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return error_set(-errno, "it cannot be checked: %m");
	error = content_take(&content, fd, save->order->file);
	if (error)
		return about("the buffer holds no .safetensors file", error);
	content_close(&content);
	return 0;
}

static int file_write(struct save *save)
{
	struct output output;
	int error = output_open(&output, save->order->file);

	if (error)
		return error;
	error = output_write(save, &output);
	if (error)
		about(save->order->file, error);
	else
		error = output_check(save, &output);
	if (!error)
		return output_commit(&output);
	output_abandon(&output);
	return error;
}

/* ---- the buffer ---- */

/* Sets the header and the number of bytes: for .npy those of the buffer's layout, else the whole buffer. */
static int save_plan(struct save *save)
{
	gpub_layout layout;
	int error;

	save->size = save->lease.size;
	if (!content_is_npy(save->order->file))
		return 0;
	error = gpub_lease_layout(&save->lease, &layout);
	if (!error)
		error = npy_make(&layout, save->head, &save->head_size);
	save->size = layout_bytes(&layout);
	return about(save->order->name, error);
}

/* Acquires the buffer on its own device, or on the current one if this process does not see that device. */
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
	int error = gpub_connect(&save.client, order->address);

	if (error)
		return error;
	interrupt_watch();
	error = buffer_acquire(&save);
	if (error)
		goto disconnect;
	error = save_plan(&save);
	if (!error)
		error = file_write(&save);
	gpub_return(&save.lease);
disconnect:;
	SAVE_ERROR();
	gpub_disconnect(save.client);
	return error;
}
