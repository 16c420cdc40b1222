/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c - gpub_set_device, gpub_stream_* and gpub_copy_on: a program's current device and its streams, on both kinds
 * of device.
 *
 * On CUDA a stream is a cudaStream_t, and these functions are thin wrappers. On the host device they are the only way
 * to create a stream. Owns nothing. Never waits for ever for a timeline that no process can signal.
 */
#include <errno.h>

#include "client/client.h"
#include "client/devices.h"
#include "client/fork.h"
#include "client/interrupt.h"
#include "client/timeline-wait.h"
#include "common/error.h"
#include "common/thread.h"
#include "module.h"

int gpub_set_device(gpub_client *client, int device)
{
	int error = client_check(client), index;
	HOLD_CANCELLATION();

	if (error)
		return error;
	index = client_device_index(client, device);
	if (index < 0)
		return index;
	error = client->device->set_current(device);
	if (!error)
		modules_ready(client, device);
	return error;
}

int gpub_stream_create_priority(gpub_client *client, int device, int priority, void **stream)
{
	int error = client_check(client), index;
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!stream)
		return error_set(-EINVAL, "there is no place for the stream: pass the address of a pointer");
	index = client_device_index(client, device);
	if (index < 0)
		return index;
	error = client->device->stream_create(client->ordinal_of[index], priority, stream);
	if (!error)
		modules_ready(client, client->ordinal_of[index]);
	return error;
}

int gpub_stream_create(gpub_client *client, int device, void **stream)
{
	return gpub_stream_create_priority(client, device, 0, stream);
}

/* State of the checks that may end gpub_stream_sync() before the stream's work is done. */
struct sync_end {
	struct timeline_watch watch;
	struct timespec       next; /* when to call this thread's interrupt function next */
};

/*
 * The function over() for device->stream_sync_until(). Ends the wait with an error if no process can signal an awaited
 * timeline, or if this thread's interrupt function interrupts.
 */
static int sync_over(void *argument)
{
	struct sync_end *end = argument;
	int verdict = timeline_waits_none() ? 1 : timeline_waits_ended(&end->watch);

	if (verdict < 0 || !interrupt_is_set())
		return verdict;
	return interrupt_ask_now_and_then(&end->next);
}

int gpub_stream_sync(void *stream)
{
	const struct device *device = devices_used();
	struct sync_end end = { 0 };
	int error = client_check_process();
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!device)
		return error_set(-EINVAL, "this process is not connected to a broker: gpub_connect() first");
	if (timeline_waits_none() && !interrupt_is_set())
		return device->stream_sync(stream);
	return device->stream_sync_until(stream, sync_over, &end);
}

int gpub_stream_wait(void *stream, void *other)
{
	const struct device *device = devices_used();
	int error = client_check_process();
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!device)
		return error_set(-EINVAL, "this process is not connected to a broker: gpub_connect() first");
	return device->stream_after(stream, other);
}

void gpub_stream_destroy(void *stream)
{
	const struct device *device = devices_used();
	HOLD_CANCELLATION();

	if (device && stream && !client_check_process())
		device->stream_destroy(stream);
}

int gpub_copy_on(gpub_client *client, void *dst, const void *src, uint64_t size, void *stream)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (error)
		return error;
	if (!dst || !src)
		return error_set(-EINVAL, "a copy needs a source and a destination");
	return size ? client->device->copy(stream, dst, src, size) : 0;
}
