/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - gpub_set_flags, gpub_set_cache: what the program decides about its client.
 *
 * Owns nothing: the settings are members of the client. The closer thread applies them; nothing is closed here.
 */
#include <errno.h>

#include "client.h"
#include "closer.h"
#include "common/error.h"
#include "common/thread.h"

int gpub_set_flags(gpub_client *client, unsigned flags)
{
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error && flags & ~GPUB_BACKGROUND_CLOSE)
		error = error_set(-EINVAL, "unknown flags: GPUB_BACKGROUND_CLOSE is the only one");
	if (error)
		return error;
	atomic_store(&client->flags, flags);
	return closer_wake(client);
}

int gpub_set_cache(gpub_client *client, unsigned mappings, uint64_t bytes)
{
	int error = client_check(client);

	if (error)
		return error;
	pthread_mutex_lock(&client->lock);
	client->cache.mappings = mappings;
	client->cache.bytes = bytes;
	pthread_mutex_unlock(&client->lock);
	return closer_wake(client);
}
