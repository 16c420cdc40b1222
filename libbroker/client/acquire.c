/* SPDX-License-Identifier: Apache-2.0 */
/* acquire.c - see acquire.h */
#include "acquire.h"

#include <errno.h>
#include <string.h>

#include "cache.h"
#include "call.h"
#include "client.h"
#include "clock.h"
#include "close.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/thread.h"
#include "hold.h"
#include "interrupt.h"
#include "mapping.h"
#include "records.h"
#include "trace.h"

/* The arguments and the progress of an acquire. */
struct wanted {
	const char     *name;
	struct table_key key;
	const gpub_expectation *expected; /* what the buffer must be; NULL: any owner and layout */
	unsigned        rights;
	int             timeout_ms;
	bool            trimmed; /* cache_make_room() made a pass for this acquire */
	struct timespec deadline; /* when the caller's timeout ends */
	struct timespec last;     /* GRACE_MS after `deadline`: when to stop waiting for any answer of the broker */
};

static int remaining_ms(const struct wanted *wanted)
{
	return wanted->timeout_ms > 0 ? client_remaining_ms(&wanted->deadline) : wanted->timeout_ms;
}

static int refuse_late(const struct wanted *wanted)
{
	if (!wanted->timeout_ms)
		return error_set(-ETIMEDOUT, "the broker does not answer: it is stopped or overloaded");
	return error_set(-ETIMEDOUT, "no buffer '%s' appeared within %d ms", wanted->name, wanted->timeout_ms);
}

struct wire_message *acquire_fill(struct wire_message *message, const struct table_key *key, unsigned rights,
				  int timeout_ms)
{
	wire_init(message, WIRE_ACQUIRE, 0);
	memcpy(message->acquire.name, key->word, key->words * 8);
	message->acquire.rights = rights;
	message->acquire.device = key->index;
	message->acquire.timeout_ms = timeout_ms;
	return message;
}

struct asked {
	struct record *record;
	struct waiter *waiter;
};

static bool is_answered(struct gpub_client *client, void *context)
{
	const struct asked *asked = context;

	(void)client;
	return asked->waiter->done || atomic_load(&asked->record->state) != asked->waiter->state;
}

/*
 * Uses only -EINTR of the errors of call_exchange(): record_wait() finds out itself that the deadline has passed, and
 * after a lost connection the reader releases the record, and record_wait() returns why. An acquire that was
 * interrupted may have been granted nevertheless, and then it succeeds.
 */
int record_ask(struct gpub_client *client, struct record *record, struct wire_message *message,
	       const struct timespec *deadline)
{
	struct timespec now = { 0 }; /* a deadline that has passed */
	struct waiter waiter;
	struct asked asked = { record, &waiter };
	bool interrupted;
	int error;

	record_request_begin(client, record, &waiter, message);
	CRASH_POINT(acquire_requested);
	interrupted = call_exchange(client, message, 1, is_answered, &asked, deadline) == -EINTR;
	error = record_wait(client, record, &waiter, interrupted ? &now : deadline);
	CRASH_POINT(acquire_answered);
	return interrupted && error ? interrupt_refuse() : error;
}

static int request(struct gpub_client *client, struct record *record, const struct wanted *wanted)
{
	struct wire_message message;
	int error;

	acquire_fill(&message, &wanted->key, wanted->rights, remaining_ms(wanted));
	message.acquire.owner = wanted->expected ? wanted->expected->owner : GPUB_ANY_USER;
	message.acquire.expects = message.acquire.owner != GPUB_ANY_USER;
	error = record_ask(client, record, &message, wanted->timeout_ms < 0 ? NULL : &wanted->last);
	return error == -ETIMEDOUT ? refuse_late(wanted) : error;
}

/*
 * Asks the broker whether the wanted buffer exists. For an acquire that must not wait, while another thread's ACQUIRE
 * of the same name may wait until the name exists. Returns 0 if the buffer exists, else the broker's error. Releases
 * client->lock meanwhile.
 */
static int name_exists(struct gpub_client *client, const struct wanted *wanted)
{
	struct wire_message request, reply;
	int error;

	wire_init(&request, WIRE_STAT, 0);
	strcpy(request.name.name, wanted->name);
	pthread_mutex_unlock(&client->lock);
	error = call_broker(client, &request, &reply, NULL, &wanted->last);
	pthread_mutex_lock(&client->lock);
	return error;
}

/* Returns until when to wait for the answer to another thread's request. NULL: without limit. */
static const struct timespec *join_deadline(const struct wanted *wanted)
{
	if (wanted->timeout_ms < 0)
		return NULL;
	return wanted->timeout_ms ? &wanted->deadline : &wanted->last;
}

/*
 * Waits for the answer to another thread's request for the record. Returns 0 also if that request fails, so that this
 * thread then sends a request of its own.
 */
static int join(struct gpub_client *client, struct record *record, const struct wanted *wanted)
{
	uint64_t number = record->request;
	struct waiter waiter;
	int error = wanted->timeout_ms ? 0 : name_exists(client, wanted);

	if (error)
		return error;
	if (RECORD_STATE(atomic_load(&record->state)) != RECORD_REQUESTED || record->request != number)
		return 0;
	record_wait_begin(record, &waiter);
	CRASH_POINT(acquire_joined);
	error = record_wait(client, record, &waiter, join_deadline(wanted));
	if (error == -ECONNRESET || error == -EINTR)
		return error;
	return error == -ETIMEDOUT && client_past(join_deadline(wanted)) ? refuse_late(wanted) : 0;
}

/*
 * Waits until a CLOSING record is released, or OPEN again. No deadline is needed, because a close waits for the device,
 * but not for leases.
 */
static int wait_closing(struct gpub_client *client, struct record *record)
{
	struct waiter waiter;

	record_wait_begin(record, &waiter);
	return record_wait(client, record, &waiter, NULL);
}

/*
 * Asks the broker for those of the wanted rights that leases of the record may not have yet. (A session first has only
 * the rights that it asked for, so that the broker knows which sessions may write a buffer.) token: names the caller's
 * hold of the record. -EAGAIN: the buffer has lost its name meanwhile, or a reset has ended the hold. Call it under
 * client->lock, which it releases meanwhile.
 */
static int rights_ask(struct gpub_client *client, struct record *record, const struct wanted *wanted, uint64_t token)
{
	unsigned missing = record_lacks(record, wanted->rights);
	struct wire_message request, reply;
	int error;

	if (!missing)
		return 0;
	CRASH_POINT(rights_begin);
	wire_init(&request, WIRE_RIGHTS, 0);
	request.rights.mapping = RECORD_MAPPING(atomic_load(&record->state));
	request.rights.serial = atomic_load(&record->serial);
	request.rights.rights = missing;
	pthread_mutex_unlock(&client->lock);
	error = call_broker(client, &request, &reply, NULL, wanted->timeout_ms < 0 ? NULL : &wanted->last);
	pthread_mutex_lock(&client->lock);
	CRASH_POINT(rights_answered);
	if (!hold_stands(slot_at(&client->slots, token_index(token)), token))
		return -EAGAIN;
	if (!error)
		record_add_rights(record, missing);
	return error == -ESTALE ? -EAGAIN : error;
}

/*
 * Maps the view that leases with `rights` need, if it is not mapped. token: names the caller's hold of the record.
 * -EAGAIN: a reset has ended the hold. Releases client->lock meanwhile.
 */
static int view_ready(struct gpub_client *client, struct record *record, unsigned rights, uint64_t token)
{
	enum view view = view_of(rights);
	int error = mapping_view(client, record->mapping, view);

	if (!hold_stands(slot_at(&client->slots, token_index(token)), token))
		return -EAGAIN;
	if (!error && !atomic_load(&record->ptr[view]))
		record_view(client, record, view);
	return error;
}

/* Takes a lease of an OPEN record. -EAGAIN: the record has changed, so the caller looks the name up again. */
static int take_open(struct gpub_client *client, struct record *record, const struct wanted *wanted,
		     gpub_lease *lease)
{
	uint64_t token;
	void *ptr = NULL;
	int error = record_hold_growing(client, record, &token);

	if (error == -ESTALE) { /* the buffer was unlinked, renamed or resized */
		record_detach(client, record);
		return -EAGAIN;
	}
	if (error)
		return error;
	error = lease_expect(record, wanted->expected, wanted->rights);
	if (!error)
		error = rights_ask(client, record, wanted, token);
	if (!error)
		error = view_ready(client, record, wanted->rights, token);
	if (!error)
		ptr = record_ptr(record, wanted->rights); /* NULL: the buffer was sealed meanwhile */
	if (!ptr) {
		lease_undo(client, token);
		return error ? error : -EAGAIN;
	}
	lease_fill(lease, client, record, ptr, wanted->rights, token);
	return 0;
}

/*
 * Makes one step towards the lease, such as to request the buffer, to wait for it, or to take the lease. Returns 0 if
 * *lease is filled in; -EAGAIN if another step is needed; or the error of the acquire. Call it under client->lock.
 */
static int step(struct gpub_client *client, struct wanted *wanted, gpub_lease *lease)
{
	uint64_t version;
	struct record *record;
	int error;

	if (atomic_load(&client->guard->state) != CLIENT_OPEN)
		return client_check_slow(client);
	error = client_notice_reset(client, client->ordinal_of[wanted->key.index]);
	if (error)
		return error < 0 ? error : -EAGAIN;
	record = table_find(&client->table, &wanted->key, &version);
	if (!record) {
		if (!wanted->trimmed && cache_make_room(client)) {
			wanted->trimmed = true;
			return -EAGAIN;
		}
		record = record_bind(client, wanted->name, wanted->key.index);
		error = record ? request(client, record, wanted) : -ENOMEM;
		return error ? error : -EAGAIN;
	}
	switch (RECORD_STATE(atomic_load(&record->state))) {
	case RECORD_OPEN:
		return take_open(client, record, wanted, lease);
	case RECORD_REQUESTED:
		error = join(client, record, wanted);
		return error ? error : -EAGAIN;
	default:
		error = wait_closing(client, record);
		return error ? error : -EAGAIN;
	}
}

static int acquire_from(struct gpub_client *client, const char *name, unsigned index, const gpub_expectation *expected,
			unsigned rights, int timeout_ms, gpub_lease *lease)
{
	struct wanted wanted = { .name = name, .expected = expected, .rights = rights, .timeout_ms = timeout_ms };
	int error = table_key_make(&client->table, &wanted.key, name, index);

	if (error)
		return error;
	wanted.deadline = client_deadline(timeout_ms > 0 ? timeout_ms : 0);
	wanted.last = client_deadline((timeout_ms > 0 ? timeout_ms : 0) + (int64_t)GRACE_MS);
	pthread_mutex_lock(&client->lock);
	do
		error = step(client, &wanted, lease);
	while (error == -EAGAIN);
	pthread_mutex_unlock(&client->lock);
	return error;
}

int acquire_untraced(struct gpub_client *client, const char *name, unsigned index, unsigned rights, int timeout_ms,
		     gpub_lease *lease)
{
	return acquire_from(client, name, index, NULL, rights, timeout_ms, lease);
}

int acquire_slow(struct gpub_client *client, const char *name, unsigned index, const gpub_expectation *expected,
		 unsigned rights, int timeout_ms, gpub_lease *lease)
{
	HOLD_CANCELLATION();
	TRACE("acquire %s", name);
	return acquire_from(client, name, index, expected, rights, timeout_ms, lease);
}
