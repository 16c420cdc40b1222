/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - acquire, renew, return: the fast path.
 *
 * Nothing here blocks, allocates or makes a system call as long as the buffer is mapped and live: a hash, a
 * look into the table, one exchange in a slot, two loads. What is not mapped goes to acquire.c. The rules are
 * checked in tests/model, each step named after the function here.
 */
#include "lease.h"

#include <errno.h>

static const char stale[] = "the lease was returned before, or belongs to a buffer that is gone: acquire it anew";

int lease_slot(const gpub_lease *lease, struct slot **slot)
{
	int error;

	if (!lease)
		return error_set(-EINVAL, "there is no lease: pass the address of one");
	if (!lease->client || !lease->token)
		return error_set(-EINVAL, "this lease was never acquired");
	error = client_check(lease->client);
	if (error)
		return error;
	*slot = slot_at(&lease->client->slots, token_index(lease->token));
	if (!*slot || !(*slot)->record)
		return error_set(-EINVAL, "this lease is damaged: its token names no slot");
	return 0;
}

int lease_record(const gpub_lease *lease, struct record **record)
{
	struct slot *slot;
	int error = lease_slot(lease, &slot);

	if (error)
		return error;
	if (atomic_load_explicit(&slot->hold, memory_order_acquire) !=
	    SLOT_HOLD(token_sequence(lease->token), SLOT_HELD))
		return error_set(-ESTALE, "%s", stale);
	*record = slot->record;
	return 0;
}

void lease_fill(gpub_lease *lease, struct gpub_client *client, const struct record *record, unsigned rights,
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

void lease_undo(struct gpub_client *client, uint64_t token)
{
	struct slot *slot = slot_at(&client->slots, token_index(token));

	atomic_store_explicit(&slot->hold, SLOT_HOLD(token_sequence(token), SLOT_FREE), memory_order_release);
}

static int acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease)
{
	if (!lease)
		return error_set(-EINVAL, "there is no place for the lease: pass the address of one");
	if (!rights || rights & ~(GPUB_READ | GPUB_WRITE))
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both");
	if (timeout_ms < -1)
		return error_set(-EINVAL, "a timeout is milliseconds, 0, or -1 for ever");
	return name ? 0 : error_set(-EINVAL, "there is no name: pass one");
}

/*
 * -EAGAIN: not mapped, or changing, or out of slots: the slow path sorts it out. The version is compared
 * after the hold is published: until then the record may have been given to another name.
 */
static int acquire_fast(struct gpub_client *client, const struct table_key *key, unsigned rights, gpub_lease *lease)
{
	uint64_t version, token;
	struct record *record = table_find(&client->table, key, &version);

	if (!record || version & 1 || record_hold(record, &token))
		return -EAGAIN;
	if (!table_unchanged(&client->table, version)) {
		lease_undo(client, token);
		return -EAGAIN;
	}
	if (rights & ~record->rights) {
		lease_undo(client, token);
		return error_set(-EACCES, "the buffer's mode refuses these rights to this user");
	}
	lease_fill(lease, client, record, rights, token);
	return 0;
}

int gpub_acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms, gpub_lease *lease)
{
	struct table_key key;
	int error = client_check(client), index;

	if (!error)
		error = acquire_check(name, rights, timeout_ms, lease);
	if (error)
		return error;
	index = client_device_index(client, GPUB_CURRENT);
	if (index < 0)
		return index;
	error = table_key_make(&client->table, &key, name, (unsigned)index);
	if (!error)
		error = acquire_fast(client, &key, rights, lease);
	return error == -EAGAIN ? acquire_slow(client, name, (unsigned)index, rights, timeout_ms, lease) : error;
}

/* Of the buffer that this token was for, not of one that the record stands for by now. */
static bool token_current(const struct slot *slot, uint64_t token)
{
	return slot_later(token_sequence(token), atomic_load(&slot->base));
}

/* A redeemed one has no name to ask for: what is closed stays closed, but there may be more slots. Locked. */
static int renew_redeemed(gpub_lease *lease, struct record *record, const struct slot *slot)
{
	uint64_t token;
	int error;

	do
		error = token_current(slot, lease->token) ? record_hold(record, &token) : -ESTALE;
	while (error == -EAGAIN && !(error = record_grow(lease->client, record)));
	if (error == -ESTALE)
		return error_set(error, "the buffer of this ticket was unlinked, or its mapping closed: redeem a ticket anew");
	if (!error)
		lease_fill(lease, lease->client, record, lease->rights, token);
	return error;
}

/* Its mapping was closed meanwhile, or all slots are busy: by name, if it still is the same buffer. */
static int renew_slow(gpub_lease *lease, struct record *record, const struct slot *slot, uint64_t serial)
{
	struct gpub_client *client = lease->client;
	uint64_t name[NAME_WORDS];
	gpub_lease fresh;
	unsigned index;
	bool redeemed;
	int error;

	pthread_mutex_lock(&client->lock);
	for (int i = 0; i < NAME_WORDS; i++)
		name[i] = atomic_load_explicit(&record->name[i], memory_order_relaxed);
	index = atomic_load(&record->index);
	error = token_current(slot, lease->token) ? 0 : error_set(-ESTALE, "%s", stale);
	redeemed = *(const char *)name == '#'; /* delegate.c's, and no name */
	if (!error && redeemed)
		error = renew_redeemed(lease, record, slot);
	pthread_mutex_unlock(&client->lock);
	if (redeemed)
		return error;
	if (!error)
		error = acquire_slow(client, (const char *)name, index, lease->rights, 0, &fresh);
	if (error == -ENOENT)
		return error_set(-ESTALE, "the buffer of this lease was unlinked: acquire its name anew");
	if (error)
		return error;
	if (atomic_load(&slot_at(&client->slots, token_index(fresh.token))->record->serial) != serial) {
		lease_undo(client, fresh.token);
		return error_set(-ESTALE, "the buffer of this lease was unlinked: acquire its name anew");
	}
	*lease = fresh;
	return 0;
}

int gpub_renew(gpub_lease *lease)
{
	struct slot *slot;
	struct record *record;
	uint64_t hold, token, serial;
	int error = lease_slot(lease, &slot);

	if (error)
		return error;
	record = slot->record;
	/* a later buffer's, if the record stands for one by now: the token is not current then, as is seen below */
	serial = atomic_load_explicit(&record->serial, memory_order_acquire);
	hold = atomic_load_explicit(&slot->hold, memory_order_acquire);
	if (hold == SLOT_HOLD(token_sequence(lease->token), SLOT_HELD))
		return error_set(-EBUSY, "the lease is still held: return it before you renew it");
	if (!token_current(slot, lease->token))
		return error_set(-ESTALE, "%s", stale);
	error = slot_idle(slot, hold) ? record_hold_in(record, slot, token_index(lease->token), hold, &token) :
					-EAGAIN;
	if (error == -EAGAIN)
		error = record_hold(record, &token);
	if (error)
		return renew_slow(lease, record, slot, serial);
	if (!token_current(slot, lease->token)) {
		lease_undo(lease->client, token);
		return error_set(-ESTALE, "%s", stale);
	}
	lease_fill(lease, lease->client, record, lease->rights, token);
	CRASH_POINT(renewed);
	return 0;
}

/* Also when the broker is gone: a return needs nobody. */
static int return_check(const gpub_lease *lease, struct slot **slot)
{
	int error = lease_slot(lease, slot);

	if (error != -ECONNRESET)
		return error;
	*slot = slot_at(&lease->client->slots, token_index(lease->token));
	return *slot ? 0 : error;
}

static bool lease_take_back(const gpub_lease *lease, struct slot *slot, enum slot_state state)
{
	uint64_t held = SLOT_HOLD(token_sequence(lease->token), SLOT_HELD);

	return atomic_compare_exchange_strong_explicit(&slot->hold, &held,
						       SLOT_HOLD(token_sequence(lease->token), state),
						       memory_order_release, memory_order_relaxed);
}

int gpub_return(gpub_lease *lease)
{
	struct slot *slot;
	int error = return_check(lease, &slot);

	if (error)
		return error;
	CRASH_POINT(return_begin);
	error = lease_take_back(lease, slot, SLOT_FREE) ? 0 : error_set(-ESTALE, "%s", stale);
	CRASH_POINT(returned);
	return error;
}

int gpub_return_on(gpub_lease *lease, void *stream)
{
	uint64_t sequence;
	struct slot *slot;
	int error = return_check(lease, &slot);

	if (error)
		return error;
	if (!lease_take_back(lease, slot, SLOT_RETURNING))
		return error_set(-ESTALE, "%s", stale);
	CRASH_POINT(return_claimed);
	sequence = token_sequence(lease->token);
	error = lease->client->device->stream_write(stream, (uint64_t *)slot->word, sequence);
	CRASH_POINT(return_queued);
	/* the lease is the caller's again when the write could not be queued */
	atomic_store_explicit(&slot->hold, SLOT_HOLD(sequence, error ? SLOT_HELD : SLOT_RETURNED),
			      memory_order_release);
	CRASH_POINT(return_marked);
	return error;
}
