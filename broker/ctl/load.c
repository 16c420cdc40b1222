/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - see load.h */
#include "load.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "common/error.h"
#include "common/name.h"
#include "content.h"
#include "create.h"
#include "interrupt.h"
#include "transfer.h"

/* ---- the buffer's content ---- */

static int fill(void *content, void *bytes, size_t size, uint64_t at)
{
	return content_read(content, bytes, size, at);
}

static int lease_fill(gpub_client *client, const struct load_order *order, struct content *content, const gpub_lease *lease)
{
	uint64_t size = content_size(content);
	struct transfer transfer;
	struct progress progress;
	int error;

	progress_begin(&progress, order->name, size, order->quiet);
	error = transfer_open(&transfer, client, size, &progress);
	if (error)
		return error;
	error = transfer_in(&transfer, lease->ptr, size, fill, content);
	progress_end(&progress);
	transfer_close(&transfer);
	return error;
}

static int buffer_fill(gpub_client *client, const struct load_order *order, struct content *content, const char *name)
{
	int ordinal = client->ordinal_of[order->device], error;
	gpub_lease lease;

	if (ordinal < 0)
		return error_set(-ENODEV, "the broker's device %u is not seen here: broker-ctl doctor says which ones are", order->device);
	error = gpub_set_device(client, ordinal);
	if (!error)
		error = gpub_acquire(client, name, GPUB_WRITE, 0, &lease);
	if (error)
		return error;
	error = lease_fill(client, order, content, &lease);
	gpub_return(&lease);
	return error;
}

/* ---- from the temporary to the final name ---- */

/* Makes the temporary name: the final name, by which users recognise the buffer, and random digits. */
static void first_name(const char *name, char first[NAME_SIZE])
{
	snprintf(first, NAME_SIZE, "%.72s.loading-%08x", name, randombytes_random());
}

static int buffer_create(gpub_client *client, const struct load_order *order, const struct content *content, const char *name)
{
	uint64_t size = content_size(content);
	struct create_order create = { .name = name,
				       .amount = { .size = size ? size : 1,
						   .layout = content->layout,
						   .reserve = order->reserve,
						   .device = order->device },
				       .mode = order->mode,
				       .flags = order->flags | GPUB_EPHEMERAL,
				       .wait_ms = order->wait_ms };

	return ctl_create(client, &create);
}

static int buffer_publish(gpub_client *client, const struct load_order *order, const char *name)
{
	int error = order->seal ? gpub_seal(client, name) : 0;

	return error ? error : gpub_rename(client, name, order->name, GPUB_PERSIST | (order->replace ? GPUB_REPLACE : 0));
}

/* Unlinks the buffer after a failure. Returns error, with its message and that there is no buffer. */
static int buffer_drop(gpub_client *client, const struct load_order *order, const char *name, int error)
{
	struct saved_error said = error_save();

	gpub_unlink(client, name);
	return error_set(error, "%s; so there is no buffer '%s' of it", said.text, order->name);
}

static int load(gpub_client *client, const struct load_order *order, struct content *content)
{
	char name[NAME_SIZE];
	int error;

	first_name(order->name, name);
	error = buffer_create(client, order, content, name);
	if (error)
		return error;
	error = buffer_fill(client, order, content, name);
	if (!error)
		error = buffer_publish(client, order, name);
	return error ? buffer_drop(client, order, name, error) : 0;
}

/* ---- the command ---- */

/* Checks before the work that the final rename will not be refused because the name is in use. */
static int name_is_free(gpub_client *client, const struct load_order *order)
{
	gpub_info info = { .struct_size = sizeof info };
	int error = order->replace ? -ENOENT : gpub_stat(client, order->name, &info);

	if (error == -ENOENT)
		return 0;
	if (error)
		return error;
	if (geteuid() != 0 && info.owner != geteuid())
		return error_set(-EEXIST, "the name '%s' is taken by a buffer of another user: choose another",
				 order->name);
	return error_set(-EEXIST, "the name '%s' is taken: unlink it first, or replace it (--replace)", order->name);
}

static int load_over_connection(const struct load_order *order, struct content *content)
{
	gpub_client *client;
	int error = gpub_connect(&client, order->address);

	if (error)
		return error;
	interrupt_watch();
	error = name_is_free(client, order);
	if (!error)
		error = load(client, order, content);
	SAVE_ERROR();
	gpub_disconnect(client);
	return error;
}

int ctl_load(const struct load_order *order)
{
	struct content content;
	int error;

	if (!(order->mode & S_IWUSR))
		return error_set(-EINVAL, "load writes the buffer, which mode %04o refuses to its owner: add 0200, and --seal so that nobody "
				 "writes it later", order->mode);
	error = content_open(&content, order->file);
	if (error)
		return error;
	error = load_over_connection(order, &content);
	content_close(&content);
	return error;
}
