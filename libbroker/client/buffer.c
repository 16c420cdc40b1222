/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c - gpub_create, gpub_resize, gpub_unlink: requests to the broker. Owns nothing. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cache.h"
#include "call.h"
#include "client.h"
#include "clock.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/name.h"
#include "common/thread.h"
#include "devices.h"
#include "grown.h"
#include "hold.h"

/*
 * Copies the program's spec to the struct of this library's version, and checks its layout. Fills in the size that
 * follows from the layout, if the program gave none.
 */
static int spec_take(gpub_spec *spec, const gpub_spec *given)
{
	static const struct grown grown = { "spec",
					    "GPUB_SPEC_INIT",
					    { offsetof(gpub_spec, layout), offsetof(gpub_spec, reserve),
					      sizeof(gpub_spec) } };
	uint64_t bytes;
	int error;

	if (!given)
		return error_set(-EINVAL, "there is no spec: start from GPUB_SPEC_INIT");
	error = grown_take(spec, &grown, given);
	if (!error)
		error = layout_check(&spec->layout);
	if (error)
		return error;
	bytes = layout_bytes(&spec->layout);
	if (!spec->size && !layout_is_none(&spec->layout))
		spec->size = bytes ? bytes : 1;
	if (spec->size && spec->size < bytes)
		return error_set(-EINVAL, "the layout needs %llu bytes, and the spec's size is %llu: leave it 0",
				 (unsigned long long)bytes, (unsigned long long)spec->size);
	return 0;
}

static int spec_check(const gpub_spec *spec)
{
	if (spec->reserved || spec->timeout_ms < -1)
		return error_set(-EINVAL, "the spec has reserved bits set, or a timeout below -1");
	if (spec->flags & ~(GPUB_EPHEMERAL | GPUB_TIMELINE | GPUB_DEDICATED | GPUB_SAME_ADDRESS) || spec->mode & ~0777u)
		return error_set(-EINVAL, "the spec has unknown flags or mode bits: use GPUB_EPHEMERAL, "
					  "GPUB_TIMELINE, GPUB_DEDICATED, GPUB_SAME_ADDRESS, and a mode up to 0777");
	if (!spec->size)
		return error_set(-EINVAL, "a buffer has at least 1 byte");
	if (spec->reserve && spec->reserve < spec->size)
		return error_set(-EINVAL, "the spec's reserve is less than its size: it is the size that the buffer "
					  "may grow to, or 0");
	return 0;
}

static int create_once(struct gpub_client *client, const char *name, const gpub_spec *spec, int index,
		       int timeout_ms)
{
	struct wire_message request, reply;

	wire_init(&request, WIRE_CREATE, 0);
	strcpy(request.create.name, name);
	request.create.size = spec->size;
	request.create.device = (uint32_t)index;
	request.create.mode = spec->mode;
	request.create.flags = spec->flags;
	request.create.timeout_ms = timeout_ms;
	request.create.layout = spec->layout;
	request.create.reserve = spec->reserve;
	return call_broker(client, &request, &reply, NULL, NULL);
}

int gpub_create(gpub_client *client, const char *name, const gpub_spec *given)
{
	int error = client_check(client), index;
	gpub_spec wanted, *spec = &wanted;
	HOLD_CANCELLATION();

	if (!error)
		error = spec_take(spec, given);
	if (!error)
		error = spec_check(spec);
	if (!error)
		error = name_check(name);
	if (error)
		return error;
	index = client_device_index(client, spec->device);
	if (index < 0)
		return index;
	CRASH_POINT(create_begin);
	error = create_once(client, name, spec, index, 0);
	CRASH_POINT(create_answered);
	if (error != -ENOMEM)
		return error;
	CRASH_POINT(create_short);
	/* unused mappings of this process may keep the memory that is missing from being freed */
	error = cache_close_all(client);
	CRASH_POINT(create_again);
	return error ? error : create_once(client, name, spec, index, spec->timeout_ms);
}

static int resize_once(struct gpub_client *client, const char *name, uint64_t size, int timeout_ms)
{
	struct wire_message request, reply;

	wire_init(&request, WIRE_RESIZE, 0);
	strcpy(request.resize.name, name);
	request.resize.size = size;
	request.resize.timeout_ms = timeout_ms;
	return call_broker(client, &request, &reply, NULL, NULL);
}

/* Whether this process holds a lease of a buffer that has, or had, this name and is larger than `size` bytes. */
static bool is_held_here(struct gpub_client *client, const char *name, uint64_t size)
{
	const struct record *record;
	bool held = false;

	pthread_mutex_lock(&client->lock);
	for (record = client->records.all; record && !held; record = record->next)
		if (record->size > size && !strcmp((const char *)record->name, name))
			record_unused(record, &held);
	pthread_mutex_unlock(&client->lock);
	return held;
}

/*
 * Repeats a resize. After -EBUSY, sets another error message if this process holds a lease of the buffer, because the
 * broker knows only that this process maps the buffer.
 */
static int resize_again(struct gpub_client *client, const char *name, uint64_t size, int timeout_ms)
{
	int error = resize_once(client, name, size, timeout_ms);

	if (error == -EBUSY && is_held_here(client, name, size))
		return error_set(error, "'%s' cannot shrink while this process holds a lease of it: return that first",
				 name);
	return error;
}

int gpub_resize(gpub_client *client, const char *name, uint64_t size, int timeout_ms)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error)
		error = name_check(name);
	if (!error && timeout_ms < -1)
		error = error_set(-EINVAL, "a timeout is at least 0, or -1 for no limit");
	if (error)
		return error;
	CRASH_POINT(resize_begin);
	error = resize_once(client, name, size, 0);
	CRASH_POINT(resize_answered);
	if (error != -ENOMEM && error != -EBUSY)
		return error;
	/* unused mappings of this process may keep the missing memory from being freed, or the buffer from shrinking */
	error = cache_close_all(client);
	return error ? error : resize_again(client, name, size, timeout_ms);
}

int gpub_unlink(gpub_client *client, const char *name)
{
	struct wire_message reply;
	int error;

	CRASH_POINT(unlink_begin);
	error = call_named(client, WIRE_UNLINK, name, &reply);
	CRASH_POINT(unlink_answered);
	return error;
}
