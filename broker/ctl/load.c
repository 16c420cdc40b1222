/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - see load.h */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"
#include "common/error.h"
#include "common/name.h"
#include "create.h"
#include "formats.h"
#include "interrupt.h"
#include "transfer.h"
#include "whole.h"

/* ---- the file ---- */

struct source {
	int         fd;
	const char *path; /* path of the file, for error messages; owned by the caller */
	uint64_t    size; /* bytes of the file when it was opened: the size of the buffer */
};

/* Checks that the open file may be loaded, and sets source->size. Returns 0 or negative errno. */
static int source_check(struct source *source, bool is_input)
{
	char begin[FORMATS_MAGIC_SIZE] = "";
	struct stat st;

	if (fstat(source->fd, &st))
		return error_set(-errno, "%.100s: it cannot be read: %m", source->path);
	if (!S_ISREG(st.st_mode))
		return error_set(-EINVAL, "%.100s: it is no regular file, so its size is not known: write it into one "
				 "first", source->path);
	if (!st.st_size)
		return error_set(-EINVAL, "%.100s: it is empty, and a buffer has at least 1 byte", source->path);
	source->size = (uint64_t)st.st_size;
	if (is_input)
		return 0;
	(void)!pread(source->fd, begin, sizeof begin, 0); /* an error is noticed again when the file is read */
	return formats_check("load", source->path, begin);
}

/*
 * Opens the file at path; "-": standard input. Returns 0 or negative errno with the error message, and then no file is
 * open.
 */
static int source_open(struct source *source, const char *path)
{
	/* O_NONBLOCK: open(2) of a FIFO without a writer would not return */
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	bool is_input = !strcmp(path, "-");
	int error;

	source->path = is_input ? "standard input" : path;
	source->fd = is_input ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, flags);
	if (source->fd < 0)
		return error_set(-errno, "%.100s: it cannot be opened: %m", source->path);
	error = source_check(source, is_input);
	if (error)
		close(source->fd);
	return error;
}

/* ---- the buffer's content ---- */

/* A transfer_fill, which reads the bytes from the file. context: struct source. */
static int fill(void *context, void *bytes, size_t size, uint64_t at)
{
	const struct source *source = context;
	int error = whole_read(source->fd, bytes, size, at);
	struct saved_error said = error_save();

	return error ? error_set(error, "%.100s: %s", source->path, said.text) : 0;
}

static int lease_fill(gpub_client *client, const struct load_order *order, struct source *source,
		      const gpub_lease *lease)
{
	struct transfer transfer;
	int error = transfer_open(&transfer, client, source->size, order->quiet ? NULL : order->name);

	if (error)
		return error;
	error = transfer_in(&transfer, lease->ptr, fill, source);
	transfer_close(&transfer);
	return error;
}

static int buffer_fill(gpub_client *client, const struct load_order *order, struct source *source, const char *name)
{
	int ordinal = client->ordinal_of[order->device], error;
	gpub_lease lease;

	if (ordinal < 0)
		return error_set(-ENODEV, "the broker's device %u is not seen here: broker-ctl doctor says which ones "
				 "are", order->device);
	error = gpub_set_device(client, ordinal);
	if (!error)
		error = gpub_acquire(client, name, GPUB_WRITE, 0, &lease);
	if (error)
		return error;
	error = lease_fill(client, order, source, &lease);
	gpub_return(&lease);
	return error;
}

/* ---- from the temporary to the final name ---- */

/* Sets first to a temporary name: the final name, by which users recognise the buffer, and random digits. */
static void first_name(const char *name, char first[NAME_SIZE])
{
	snprintf(first, NAME_SIZE, "%.72s.loading-%08x", name, randombytes_random());
}

static int buffer_create(gpub_client *client, const struct load_order *order, uint64_t size, const char *name)
{
	struct create_order create = { .name = name,
				       .amount = { .size = size, .reserve = order->reserve, .device = order->device },
				       .mode = order->mode,
				       .flags = order->flags | GPUB_EPHEMERAL,
				       .wait_ms = order->wait_ms };

	return ctl_create(client, &create);
}

static int buffer_publish(gpub_client *client, const struct load_order *order, const char *name)
{
	int error = order->seal ? gpub_seal(client, name) : 0;

	if (error)
		return error;
	return gpub_rename(client, name, order->name, GPUB_PERSIST | (order->replace ? GPUB_REPLACE : 0));
}

/* Unlinks the buffer after a failure. Returns `error`, and adds to its message that there is no buffer. */
static int buffer_drop(gpub_client *client, const struct load_order *order, const char *name, int error)
{
	struct saved_error said = error_save();

	gpub_unlink(client, name);
	return error_set(error, "%s; so there is no buffer '%s' of it", said.text, order->name);
}

static int load(gpub_client *client, const struct load_order *order, struct source *source)
{
	char name[NAME_SIZE];
	int error;

	first_name(order->name, name);
	error = buffer_create(client, order, source->size, name);
	if (error)
		return error;
	error = buffer_fill(client, order, source, name);
	if (!error)
		error = buffer_publish(client, order, name);
	return error ? buffer_drop(client, order, name, error) : 0;
}

/* ---- the command ---- */

/*
 * Checks before the work, unless order->replace is set, that the name is not in use: the final rename would be refused.
 */
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

static int load_over_connection(const struct load_order *order, struct source *source)
{
	gpub_client *client;
	int error = gpub_connect(&client, order->address);

	if (error)
		return error;
	interrupt_watch();
	error = name_is_free(client, order);
	if (!error)
		error = load(client, order, source);
	SAVE_ERROR();
	gpub_disconnect(client);
	return error;
}

int ctl_load(const struct load_order *order)
{
	struct source source;
	int error;

	if (!(order->mode & S_IWUSR))
		return error_set(-EINVAL, "load writes the buffer, which mode %04o refuses to its owner: add 0200, and "
				 "--seal so that nobody writes it later", order->mode);
	error = source_open(&source, order->file);
	if (error)
		return error;
	error = load_over_connection(order, &source);
	close(source.fd);
	return error;
}
