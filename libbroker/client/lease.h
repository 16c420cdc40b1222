/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - what a lease leads to. Owns nothing. */
#ifndef GPUB_LEASE_H
#define GPUB_LEASE_H

#include "client.h"

/* The slot that a lease names. 0, or -EINVAL, -ESTALE, or the client's own state. */
int lease_slot(const gpub_lease *lease, struct slot **slot);

/* The record of a lease that is held now: pinned for as long as it is. -ESTALE: it was returned. */
int lease_record(const gpub_lease *lease, struct record **record);

/* Fills a lease from a record that the token's hold pins. */
static inline void lease_fill(gpub_lease *lease, struct gpub_client *client, const struct record *record, unsigned rights,
			      uint64_t token)
{
	lease->ptr = record->ptr;
	lease->size = record->size;
	lease->device = record->lease_device;
	lease->rights = rights;
	lease->token = token;
	lease->client = client;
	CRASH_POINT(acquired);
}

/* Whether what gpub_acquire() is given makes sense, but for the name's form. */
int lease_acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease);

/* Whether the record's buffer gives those rights and is that owner's, or anybody's where GPUB_ANY_USER. -EACCES, -EPERM. */
int lease_expect(const struct record *record, uint32_t owner, unsigned rights);

/* Gives back a hold that was taken and is not to be a lease. */
void lease_undo(struct gpub_client *client, uint64_t token);

#endif
