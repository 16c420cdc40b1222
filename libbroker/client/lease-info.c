/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease-info.c - gpub_lease_layout, gpub_lease_generation: what this process knows of a lease's buffer. Owns nothing.
 */
#include <errno.h>

#include "client.h"
#include "common/error.h"
#include "common/thread.h"
#include "lease.h"
#include "record.h"

/*
 * Finds the record that the lease holds, and returns 0 with client->lock held, for the caller to release. The lock
 * keeps the record as it is, even if a reset ends the lease by force. place: where the caller will store its answer;
 * -EINVAL if NULL.
 */
static int lease_lock(const gpub_lease *lease, const void *place, struct record **record)
{
	int error = lease_record(lease, record);

	if (!error && !place)
		error = error_set(-EINVAL, "there is no place for the answer: pass the address of one");
	if (error)
		return error;
	pthread_mutex_lock(&lease->client->lock);
	error = lease_record(lease, record);
	if (error)
		pthread_mutex_unlock(&lease->client->lock);
	return error;
}

int gpub_lease_layout(const gpub_lease *lease, gpub_layout *layout)
{
	struct record *record;
	HOLD_CANCELLATION();
	int error = lease_lock(lease, layout, &record);

	if (error)
		return error;
	*layout = record->layout;
	pthread_mutex_unlock(&lease->client->lock);
	return 0;
}

int gpub_lease_generation(const gpub_lease *lease, uint64_t *generation)
{
	struct record *record;
	HOLD_CANCELLATION();
	int error = lease_lock(lease, generation, &record);

	if (error)
		return error;
	*generation = atomic_load(&record->serial);
	pthread_mutex_unlock(&lease->client->lock);
	return 0;
}
