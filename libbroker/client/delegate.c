/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delegate.c - gpub_ticket_issue, gpub_redeem: a right to one buffer, handed on as text (common/ticket.h).
 *
 * A redeemed buffer has a record of its own, whose key is no valid name, because the ticket's rights differ from the
 * rights by name, and the broker checks every redemption. Never keeps a ticket, and never puts a ticket into an error
 * message.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "acquire.h"
#include "call.h"
#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "common/name.h"
#include "common/thread.h"
#include "common/ticket.h"
#include "devices.h"
#include "hold.h"
#include "records.h"
#include "trace.h"

static int terms_check(const gpub_ticket_terms *terms)
{
	if (terms->struct_size != sizeof *terms)
		return error_set(-EINVAL, "the terms' struct_size is %u where this library knows %zu: start from "
					  "GPUB_TICKET_TERMS_INIT",
				 terms->struct_size, sizeof *terms);
	if (terms->reserved || terms->flags & ~GPUB_TICKET_ONCE)
		return error_set(-EINVAL,
				 "the terms have reserved bits or unknown flags set: GPUB_TICKET_ONCE is the only one");
	return 0;
}

int gpub_ticket_issue(gpub_client *client, const char *name, unsigned rights, const gpub_ticket_terms *terms,
		      char *text)
{
	static const gpub_ticket_terms standard = GPUB_TICKET_TERMS_INIT;
	struct wire_message request, reply;
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error)
		error = name_check(name);
	if (!error && !text)
		error = error_set(-EINVAL, "there is no place for the ticket: pass GPUB_TICKET_MAX bytes");
	if (!terms)
		terms = &standard;
	if (!error)
		error = terms_check(terms);
	if (error)
		return error;
	wire_init(&request, WIRE_ISSUE, 0);
	strcpy(request.issue.name, name);
	request.issue.rights = rights & ~(unsigned)GPUB_MINE; /* GPUB_MINE is in the rights of leases only */
	request.issue.uid = terms->user;
	request.issue.once = terms->flags & GPUB_TICKET_ONCE;
	request.issue.lifetime_ms = terms->lifetime_ms;
	error = call_broker(client, &request, &reply, NULL, NULL);
	if (error)
		return error;
	ticket_encode(&reply.ticket, text);
	sodium_memzero(&reply, sizeof reply);
	return 0;
}

/*
 * Makes a record in state NONE for a REDEEM. The name of the ticket's buffer is not known, so the record's key in the
 * table is one that no acquire looks up. index: the broker's index of the device.
 * NULL: out of memory. Call it under client->lock.
 */
static struct record *record_for_redeeming(struct gpub_client *client, unsigned index)
{
	char key[NAME_SIZE];

	snprintf(key, sizeof key, "#%llu", (unsigned long long)++client->next_number);
	return record_bind(client, key, index);
}

/*
 * Takes a lease of the record for which REDEEM number `request` was answered. -ESTALE, error message set: the buffer
 * was unlinked or sealed meanwhile, or the device was reset. Call it under client->lock.
 */
static int take(struct gpub_client *client, struct record *record, uint64_t request, gpub_lease *lease)
{
	unsigned rights = record->rights & ~GPUB_MINE;
	void *ptr = record_ptr(record, rights);
	uint64_t token;
	int error = -ESTALE;

	if (record->request == request && RECORD_STATE(atomic_load(&record->state)) == RECORD_OPEN && ptr)
		error = record_hold_growing(client, record, &token);
	if (error == -ESTALE)
		return error_set(error, "the ticket's buffer was unlinked, or sealed: get a new ticket");
	if (error)
		return error;
	lease_fill(lease, client, record, ptr, rights, token);
	return 0;
}

static int redeem(struct gpub_client *client, struct wire_message *message, gpub_lease *lease)
{
	struct timespec deadline = client_deadline(GRACE_MS);
	struct record *record;
	int error;

	pthread_mutex_lock(&client->lock);
	/* checked under the lock, because a request that is made after CLIENT_LOST was set gets no answer */
	error = client_check(client);
	if (error) {
		pthread_mutex_unlock(&client->lock);
		return error;
	}
	record = record_for_redeeming(client, message->redeem.device);
	error = record ? record_ask(client, record, message, &deadline) : -ENOMEM;
	if (!error)
		error = take(client, record, message->request, lease);
	pthread_mutex_unlock(&client->lock);
	return error;
}

int gpub_redeem(gpub_client *client, const char *text, gpub_lease *lease)
{
	struct wire_message message;
	int error = client_check(client), index;
	HOLD_CANCELLATION();

	if (!error && (!text || !lease))
		error = error_set(-EINVAL, "there is no ticket, or no place for the lease");
	wire_init(&message, WIRE_REDEEM, 0);
	if (!error)
		error = ticket_decode(text, &message.redeem.ticket);
	if (error)
		return error;
	TRACE("redeem");
	index = client_device_index(client, GPUB_CURRENT);
	message.redeem.device = (uint32_t)index;
	error = index < 0 ? index : redeem(client, &message, lease);
	sodium_memzero(&message, sizeof message);
	return error;
}
