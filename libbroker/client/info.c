/* SPDX-License-Identifier: Apache-2.0 */
/* info.c - gpub_stat, gpub_wait_newer, gpub_list: what the broker knows of buffers. Owns nothing. */
#include <errno.h>
#include <fnmatch.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call.h"
#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/name.h"
#include "common/thread.h"
#include "grown.h"

/* Makes a gpub_info of what the broker says of a buffer. */
static int info_make(const struct gpub_client *client, const char *name, const struct wire_info *answer, gpub_info *made)
{
	if (answer->device >= client->board.header->devices || layout_check(&answer->layout))
		return error_set(-EPROTO, "the broker's answer is invalid");
	*made = (gpub_info){ .struct_size = sizeof *made,
			    .flags = answer->flags,
			    .size = answer->size,
			    .generation = answer->generation,
			    .device = client->ordinal_of[answer->device],
			    .mode = answer->mode,
			    .owner = answer->owner,
			    .state = answer->state,
			    .grants = answer->grants,
			    .group = answer->group,
			    .layout = answer->layout,
			    .reserve = answer->reserve };
	strcpy(made->name, name);
	memcpy(made->device_uuid, client->board.header->device[answer->device].uuid, sizeof made->device_uuid);
	return 0;
}

/* For a struct of the size that the caller has. */
static int info_give(const struct gpub_client *client, const char *name, const struct wire_info *answer, gpub_info *info)
{
	gpub_info made;
	int error = info_make(client, name, answer, &made);

	if (!error)
		grown_give(info, &made);
	return error;
}

static int info_check(gpub_info *info)
{
	static const struct grown grown = { "gpub_info",
					    "zeroes and its size",
					    { offsetof(gpub_info, layout), offsetof(gpub_info, reserve), sizeof(gpub_info) } };
	gpub_info known;

	if (!info)
		return error_set(-EINVAL, "there is no gpub_info: pass the address of one");
	return grown_take(&known, &grown, info);
}

int gpub_stat(gpub_client *client, const char *name, gpub_info *info)
{
	struct wire_message reply;
	int error = info_check(info);

	if (!error)
		error = call_named(client, WIRE_STAT, name, &reply);
	return error ? error : info_give(client, name, &reply.info, info);
}

/* A buffer that was being made when the caller learned its generation may come below it: then it waits for the next. */
static int newer_ask(struct gpub_client *client, const char *name, uint64_t generation, int timeout_ms, struct wire_message *reply)
{
	struct timespec deadline = client_deadline(timeout_ms), last = client_deadline((int64_t)timeout_ms + GRACE_MS);
	struct wire_message request;
	int error;

	wire_init(&request, WIRE_NEWER, 0);
	strcpy(request.newer.name, name);
	request.newer.generation = generation;
	request.newer.timeout_ms = timeout_ms;
	do {
		error = call_broker(client, &request, reply, NULL, timeout_ms < 0 ? NULL : &last);
		if (timeout_ms > 0)
			request.newer.timeout_ms = client_remaining_ms(&deadline);
		if (error || reply->info.generation > generation)
			return error;
	} while (!client_past(timeout_ms < 0 ? NULL : &deadline));
	return error_set(-ETIMEDOUT, "no newer buffer '%s' appeared within %d ms", name, timeout_ms);
}

int gpub_wait_newer(gpub_client *client, const char *name, uint64_t generation, int timeout_ms, gpub_info *info)
{
	struct wire_message reply;
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error)
		error = info_check(info);
	if (!error)
		error = name_check(name);
	if (!error && timeout_ms < -1)
		error = error_set(-EINVAL, "a timeout is at least 0, or -1 for no limit");
	if (!error)
		error = newer_ask(client, name, generation, timeout_ms, &reply);
	return error ? error : info_give(client, name, &reply.info, info);
}

/* ---- lists ---- */

/* What all names begin with that the pattern matches. */
static void prefix_of(const char *pattern, char prefix[NAME_SIZE])
{
	size_t length = strcspn(pattern, "*?[\\");

	if (length > NAME_SIZE - 1)
		length = NAME_SIZE - 1;
	memcpy(prefix, pattern, length);
	prefix[length] = 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct wire_listed *)a)->name, ((const struct wire_listed *)b)->name);
}

/* Calls each() for the buffers of the answer, in the order of their names. */
static int listed_give(const struct gpub_client *client, const char *pattern, struct wire_listed *listed, size_t count,
		gpub_each *each, void *context)
{
	gpub_info info;
	int result = 0;

	for (size_t i = 0; i < count; i++)
		listed[i].name[NAME_SIZE - 1] = 0;
	qsort(listed, count, sizeof *listed, by_name);
	for (size_t i = 0; i < count && !result; i++) {
		if (fnmatch(pattern, listed[i].name, 0))
			continue;
		result = info_make(client, listed[i].name, &listed[i].info, &info);
		if (!result)
			result = each(&info, context);
	}
	return result;
}

static int file_read(int file, void *bytes, size_t size)
{
	ssize_t got = pread(file, bytes, size, 0);

	return got == (ssize_t)size ? 0 : error_set(got < 0 ? -errno : -EPROTO, "the broker's answer cannot be read");
}

int gpub_list(gpub_client *client, const char *pattern, gpub_each *each, void *context)
{
	int error = client_check(client), file;
	struct wire_message request;
	struct wire_listed *listed;
	struct wire_view view;
	HOLD_CANCELLATION();

	if (!error && !each)
		error = error_set(-EINVAL, "there is no function to call for each buffer: pass one");
	if (error)
		return error;
	pattern = pattern ? pattern : "*";
	wire_init(&request, WIRE_LIST, 0);
	prefix_of(pattern, request.name.name);
	error = call_for_file(client, &request, &file, &view);
	if (error)
		return error;
	listed = malloc(view.size ? view.size : 1);
	error = listed ? file_read(file, listed, view.size) : error_set(-ENOMEM, "out of memory for the list of buffers");
	close(file);
	if (!error)
		error = listed_give(client, pattern, listed, view.size / sizeof *listed, each, context);
	free(listed);
	return error;
}
