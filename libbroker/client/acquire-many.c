/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acquire-many.c - gpub_acquire_many: requests all buffers that are not mapped together, not one after the other.
 *
 * Only the requests are made together. Then each buffer is acquired as in acquire.c, which also reports an error. The
 * number of requests without an answer is limited, so that the broker never has to keep more answers than a session may
 * leave unread. A first acquire in a batch takes half the time of a single one (bench/batch). Owns nothing beyond the
 * call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "acquire.h"
#include "cache.h"
#include "call.h"
#include "client.h"
#include "clock.h"
#include "common/error.h"
#include "common/thread.h"
#include "devices.h"
#include "hold.h"
#include "lease.h"
#include "records.h"
#include "send.h"
#include "table.h"
#include "trace.h"

#define SEND_MAX    64  /* number of requests that are sent together at most */
#define PENDING_MAX 128 /* number of requests without an answer at most */

/* What gpub_acquire_many() does for one of its names. */
struct item {
	struct record *record; /* the record for which a request was made; NULL: no request was needed, or none yet */
	struct waiter  waiter;
};

struct many {
	const char *const *names;
	unsigned     count, index, rights;
	int          timeout_ms;
	struct item *items;
	unsigned     asked;    /* number of items, from the first on, whose request is made, failed or not needed */
	unsigned     answered; /* number of items, from the first on, that wait for no answer */
	unsigned     pending;  /* for few_are_pending(): limit on asked - answered */
	struct timespec deadline; /* when the caller's timeout ends */
	struct timespec last;     /* GRACE_MS after `deadline`: when to stop waiting for any answer of the broker */
	struct wire_message out[SEND_MAX];
	unsigned     out_count;
};

/* Returns the timeout of the next request, in milliseconds: what is left of the caller's timeout for all requests. */
static int remaining_ms(const struct many *many)
{
	return many->timeout_ms > 0 ? client_remaining_ms(&many->deadline) : many->timeout_ms;
}

static bool item_answered(const struct item *item)
{
	return !item->record || item->waiter.done || atomic_load(&item->record->state) != item->waiter.state;
}

/*
 * Whether at most many->pending requested items are without an answer. Brings many->answered up to date first. Call it
 * under client->lock.
 */
static bool few_are_pending(struct gpub_client *client, void *context)
{
	struct many *many = context;

	(void)client;
	while (many->answered < many->asked && item_answered(&many->items[many->answered]))
		many->answered++;
	return many->asked - many->answered <= many->pending;
}

/*
 * Sends the requests in many->out, and waits until at most `ahead` requested items are without an answer. Returns 0
 * also after a timeout, because take_all() then reports which name failed. Call it under client->lock, which it
 * releases meanwhile, unless there is nothing to send or to wait for.
 */
static int send_and_wait(struct gpub_client *client, struct many *many, unsigned ahead)
{
	unsigned count = many->out_count;
	int error;

	many->pending = ahead;
	many->out_count = 0;
	if (!count && few_are_pending(client, many)) /* all buffers are mapped: make no system call (invariant 7) */
		return 0;
	error = call_exchange(client, many->out, count, few_are_pending, many,
			      many->timeout_ms < 0 ? NULL : &many->last);
	return error == -ETIMEDOUT ? 0 : error;
}

/* Adds a request for the name number `i` to many->out, if the table has no record of it. Call it under client->lock. */
static int item_ask(struct gpub_client *client, struct many *many, unsigned i)
{
	struct item *item = &many->items[i];
	struct table_key key;
	uint64_t version;
	int error = table_key_make(&client->table, &key, many->names[i], many->index);

	if (error || table_find(&client->table, &key, &version))
		return error;
	item->record = record_bind(client, many->names[i], many->index);
	if (!item->record)
		return -ENOMEM;
	record_request_begin(client, item->record, &item->waiter,
			     acquire_fill(&many->out[many->out_count++], &key, many->rights,
					  remaining_ms(many)));
	return 0;
}

/* Tells the broker to end the waits of all requests that have no answer yet. Call it under client->lock. */
static void cancel_all(struct gpub_client *client, const struct many *many)
{
	for (unsigned i = 0; i < many->asked; i++)
		if (!item_answered(&many->items[i]))
			call_cancel(client, many->items[i].record->request);
}

static int ask_all(struct gpub_client *client, struct many *many)
{
	bool timeout = many->timeout_ms > 0;
	int error = 0;

	pthread_mutex_lock(&client->lock);
	cache_make_room(client);
	for (unsigned i = 0; !error && i < many->count && !(timeout && client_past(&many->deadline)); i++) {
		/* checked under the lock, because a request that is made after CLIENT_LOST was set gets no answer */
		error = atomic_load(&client->guard->state) == CLIENT_OPEN ? item_ask(client, many, i) :
									    client_check_slow(client);
		many->asked = i + 1;
		if (!error && many->out_count == SEND_MAX)
			error = send_and_wait(client, many, PENDING_MAX - SEND_MAX);
	}
	if (!error)
		error = send_and_wait(client, many, 0);
	if (error) { /* the records are REQUESTED, so the requests that were made for them must be sent even now */
		SAVE_ERROR();

		send_and_wait(client, many, many->asked); /* waits for one packet at most, for LOOK_US at most */
		cancel_all(client, many);
	}
	for (unsigned i = 0; i < many->count; i++)
		if (many->items[i].record)
			record_wait_end(many->items[i].record, &many->items[i].waiter);
	pthread_mutex_unlock(&client->lock);
	return error;
}

/* Acquires all buffers into `leases`. After an error it ends the leases that it has taken. */
static int take_all(struct gpub_client *client, const struct many *many, gpub_lease *leases)
{
	int error = 0;
	unsigned i;

	for (i = 0; !error && i < many->count; i++)
		error = acquire_untraced(client, many->names[i], many->index, many->rights, remaining_ms(many),
					 &leases[i]);
	if (!error)
		return 0;
	for (i--; i-- > 0;)
		lease_undo(client, leases[i].token);
	return error;
}

static int many_check(const char *const *names, unsigned count, unsigned rights, int timeout_ms,
		      const gpub_lease *leases)
{
	int error = 0;

	if (!names || !leases || !count)
		return error_set(-EINVAL, "there are no names, or no place for the leases");
	for (unsigned i = 0; !error && i < count; i++)
		error = lease_acquire_check(names[i], rights, timeout_ms, leases);
	return error;
}

int gpub_acquire_many(gpub_client *client, const char *const *names, unsigned count, unsigned rights, int timeout_ms,
		      gpub_lease *leases)
{
	struct many *many;
	gpub_lease *got;
	int error = client_check(client), index;
	HOLD_CANCELLATION();

	if (!error)
		error = many_check(names, count, rights, timeout_ms, leases);
	if (error)
		return error;
	index = client_device_index(client, GPUB_CURRENT);
	if (index < 0)
		return index;
	TRACE("acquire_many %u", count);
	many = calloc(1, sizeof *many);
	got = calloc(count, sizeof *got);
	if (many)
		*many = (struct many){ .names = names, .count = count, .index = (unsigned)index, .rights = rights,
				       .timeout_ms = timeout_ms, .items = calloc(count, sizeof *many->items),
				       .deadline = client_deadline(timeout_ms > 0 ? timeout_ms : 0),
				       .last = client_deadline((timeout_ms > 0 ? timeout_ms : 0) + (int64_t)GRACE_MS) };
	error = many && got && many->items ? ask_all(client, many) :
					     error_set(-ENOMEM, "out of memory for %u leases", count);
	if (!error)
		error = take_all(client, many, got);
	if (!error)
		memcpy(leases, got, count * sizeof *leases);
	if (many)
		free(many->items);
	free(many);
	free(got);
	return error;
}
