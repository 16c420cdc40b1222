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

/* Makes a gpub_info from the broker's answer about the buffer `name`. -EPROTO: the answer is invalid. */
static int info_make(const struct gpub_client *client, const char *name, const struct wire_info *answer,
		     gpub_info *made)
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

/* Fills in the program's gpub_info, which may be of an earlier, smaller version, from the broker's answer. */
static int info_give(const struct gpub_client *client, const char *name, const struct wire_info *answer,
		     gpub_info *info)
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
					    { offsetof(gpub_info, layout), offsetof(gpub_info, reserve),
					      sizeof(gpub_info) } };
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

/*
 * Asks for a buffer with this name and a generation above `generation`, and asks again if the answer has a lower one: a
 * buffer that was being made when the caller learned `generation` may have a lower generation.
 */
static int newer_ask(struct gpub_client *client, const char *name, uint64_t generation, int timeout_ms,
		     struct wire_message *reply)
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

/* Stores the text with which all names that match the pattern begin. */
static void prefix_of(const char *pattern, char prefix[NAME_SIZE])
{
	size_t length = strcspn(pattern, "*?[\\");

	if (length > NAME_SIZE - 1)
		length = NAME_SIZE - 1;
	memcpy(prefix, pattern, length);
	prefix[length] = 0;
}

/*
 * Comparison for a sort by name. If two buffers are listed under one name, because the name went from one to the other,
 * the newer buffer comes first.
 */
static int by_name(const void *a, const void *b)
{
	const struct wire_listed *one = a, *other = b;
	int order = strcmp(one->name, other->name);

	if (order)
		return order;
	return (one->info.generation < other->info.generation) - (one->info.generation > other->info.generation);
}

/*
 * Fills one gpub_info for each name that matches the pattern, from the first entry of `listed` with that name. *count:
 * how many it has filled.
 */
static int listed_take(const struct gpub_client *client, const char *pattern, const struct wire_listed *listed,
		       size_t entries, gpub_info *infos, size_t *count)
{
	int error = 0;

	*count = 0;
	for (size_t i = 0; i < entries && !error; i++) {
		if ((i && !strcmp(listed[i].name, listed[i - 1].name)) || fnmatch(pattern, listed[i].name, 0))
			continue;
		error = info_make(client, listed[i].name, &listed[i].info, &infos[*count]);
		*count += !error;
	}
	return error;
}

/*
 * Reads, checks and sorts the broker's answer, `size` bytes in `file`. *entries: number of its entries. The caller
 * frees the result, which after an error may be NULL.
 */
static struct wire_listed *listed_read(const struct gpub_client *client, int file, uint64_t size, size_t *entries,
				       int *error)
{
	struct wire_listed *listed;

	*entries = size / sizeof *listed;
	/* a buffer that was renamed meanwhile may be listed under two names, but not under more */
	if (size % sizeof *listed || *entries > 2ull * client->board.header->buffers) {
		*error = error_set(-EPROTO, "the broker's answer is invalid");
		return NULL;
	}
	listed = malloc(size ? size : 1);
	if (!listed) {
		*error = error_set(-ENOMEM, "out of memory for the list of buffers");
		return NULL;
	}
	*error = pread(file, listed, size, 0) == (ssize_t)size ? 0 : error_set(-EPROTO, "the broker's answer is cut");
	for (size_t i = 0; i < *entries && !*error; i++) {
		listed[i].name[NAME_SIZE - 1] = 0;
		*error = name_check(listed[i].name) ? error_set(-EPROTO, "the broker's answer is invalid") : 0;
	}
	if (!*error)
		qsort(listed, *entries, sizeof *listed, by_name);
	return listed;
}

/* Asks the broker for the buffers whose names match the pattern. *infos: *count of them, for the caller to free. */
static int list_ask(struct gpub_client *client, const char *pattern, gpub_info **infos, size_t *count)
{
	struct wire_message request;
	struct wire_listed *listed;
	struct wire_view view;
	size_t entries;
	int error, file;

	wire_init(&request, WIRE_LIST, 0);
	prefix_of(pattern, request.name.name);
	error = call_for_file(client, &request, &file, &view);
	if (error)
		return error;
	listed = listed_read(client, file, view.size, &entries, &error);
	close(file);
	/* 1 more, so that the result for an empty list is not NULL */
	*infos = error ? NULL : calloc(entries + 1, sizeof **infos);
	if (!error && !*infos)
		error = error_set(-ENOMEM, "out of memory for the list of buffers");
	if (!error)
		error = listed_take(client, pattern, listed, entries, *infos, count);
	free(listed);
	return error;
}

/* Uses nothing of the client after the first call of each(), which may disconnect the client. */
int gpub_list(gpub_client *client, const char *pattern, gpub_each *each, void *context)
{
	int result = client_check(client);
	gpub_info *infos = NULL;
	size_t count = 0;
	HOLD_CANCELLATION();

	if (!result && !each)
		result = error_set(-EINVAL, "there is no function to call for each buffer: pass one");
	if (!result)
		result = list_ask(client, pattern ? pattern : "*", &infos, &count);
	for (size_t i = 0; i < count && !result; i++)
		result = each(&infos[i], context);
	free(infos);
	return result;
}
