/* SPDX-License-Identifier: Apache-2.0 */
/* lease-info.c - gpub_lease_layout, gpub_lease_generation: what a lease tells of its buffer without asking the broker. Owns nothing. */
#include <errno.h>

#include "client.h"
#include "common/error.h"
#include "common/thread.h"
#include "lease.h"
#include "record.h"

/*
 * The record that the lease holds. The caller unlocks where it is 0: the lock keeps the record as it is, while a reset, which another thread
 * may notice at any moment, ends leases by force.
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
