/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c - acquire, renew, return: the fast path.
 *
 * While the buffer is mapped and live, leases may have the rights, and a slot is idle, gpub_acquire(), gpub_renew() and
 * gpub_return() do not block, allocate or make a system call. An acquire is a hash, a look-up in the table, one
 * exchange in a slot, two loads, and a check of the device's epoch. If the buffer is not mapped, acquire.c acquires it.
 * tests/model checks the rules, and names each step after the function of this file that makes it.
 */
#include "lease.h"

#include <errno.h>
#include <stddef.h>

#include "acquire.h"
#include "client.h"
#include "close.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/thread.h"
#include "devices.h"
#include "grown.h"
#include "hold.h"
#include "table.h"

#define LIKELY(condition)   __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define NOINLINE            __attribute__((noinline))

static const char stale[] =
	"the lease was returned before, or its buffer is gone, or its device was reset: acquire it again";

int lease_slot(const gpub_lease *lease, struct slot **slot)
{
	int error;

	if (!lease)
		return error_set(-EINVAL, "there is no lease: pass the address of one");
	if (!lease->client || !lease->token)
		return error_set(-EINVAL, "this lease was never acquired");
	if (lease->client != &client_first && !client_is_known(lease->client))
		return error_set(-EINVAL, "this lease is damaged: its client is not from gpub_connect()");
	error = client_check(lease->client);
	if (error)
		return error;
	*slot = slot_at(&lease->client->slots, token_index(lease->token));
	if (!*slot || !(*slot)->record)
		return error_set(-EINVAL, "this lease is damaged: its token names no slot");
	return 0;
}

/* Returns the slot of a lease of client_first. NULL: the lease is another client's, or its token names no slot. */
static inline struct slot *slot_of(const gpub_lease *lease)
{
	return LIKELY(lease && lease->client == &client_first) ?
		       slot_at(&client_first.slots, token_index(lease->token)) :
		       NULL;
}

/*
 * Returns the slot of a lease of any client. NULL: the client is unknown, or the token names no slot. Does not check
 * the client's state.
 */
static struct slot *slot_of_any(const gpub_lease *lease)
{
	return lease && client_is_known(lease->client) ? slot_at(&lease->client->slots, token_index(lease->token)) :
							 NULL;
}

static inline bool client_open(const struct gpub_client *client)
{
	return atomic_load_explicit(&client->guard->state, memory_order_relaxed) == CLIENT_OPEN;
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

int lease_acquire_check(const char *name, unsigned rights, int timeout_ms, const gpub_lease *lease)
{
	if (!lease)
		return error_set(-EINVAL, "there is no place for the lease: pass the address of one");
	if (!(rights & (GPUB_READ | GPUB_WRITE)) || rights & ~(GPUB_READ | GPUB_WRITE | GPUB_MINE))
		return error_set(-EINVAL, "the rights are none or unknown: use GPUB_READ, GPUB_WRITE or both, with or "
					  "without GPUB_MINE");
	if (timeout_ms < -1)
		return error_set(-EINVAL, "a timeout is milliseconds, 0, or -1 for no limit");
	return name ? 0 : error_set(-EINVAL, "there is no name: pass one");
}

/*
 * Acquires the buffer without the lock if this process has it mapped with these rights. -EAGAIN: the buffer is not
 * mapped, changes, or has no idle slot, or its leases do not have these rights; the caller takes the slow path, which
 * finds out what to do. The table's version is compared after the hold is published, because until then the record may
 * be given to another name.
 */
static inline int acquire_fast(struct gpub_client *client, const char *name, unsigned index, unsigned rights,
			       gpub_lease *lease)
{
	uint64_t version, token;
	struct table_key key;
	struct record *record;
	struct slot *slot;
	void *ptr;

	if (!table_key_look(&client->table, &key, name, index))
		return -EAGAIN;
	record = table_guess(&client->table, &key, &version);
	if (!record)
		return -EAGAIN;
	slot = hold_slot(record);
	hold_prefetch(record, slot);
	if (!table_is(record, &key) || version & 1 || record_hold_at(record, slot, &token))
		return -EAGAIN;
	/*
	 * compare the epoch before the version, because client_notice_reset() changes the table before it stores the
	 * epoch
	 */
	if (UNLIKELY(client_was_reset(client, index)) || !table_unchanged(&client->table, version) ||
	    UNLIKELY(!(ptr = record_ptr(record, rights)))) {
		lease_undo(client, token);
		return -EAGAIN;
	}
	lease_fill(lease, client, record, ptr, rights, token);
	return 0;
}

int gpub_acquire(gpub_client *client, const char *name, unsigned rights, int timeout_ms, gpub_lease *lease)
{
	int error = client_check(client), index;

	if (!error)
		error = lease_acquire_check(name, rights, timeout_ms, lease);
	if (error)
		return error;
	index = client_device_index(client, GPUB_CURRENT);
	if (index < 0)
		return index;
	error = acquire_fast(client, name, (unsigned)index, rights, lease);
	return error == -EAGAIN ? acquire_slow(client, name, (unsigned)index, NULL, rights, timeout_ms, lease) : error;
}

static int expectation_take(gpub_expectation *expectation, const gpub_expectation *given)
{
	static const struct grown grown = { "expectation",
					    "GPUB_EXPECTATION_INIT",
					    { offsetof(gpub_expectation, layout), sizeof(gpub_expectation) } };
	gpub_layout layout;
	int error = grown_take(expectation, &grown, given);

	if (error)
		return error;
	layout = expectation->layout;
	for (unsigned i = 0; i < layout.ndim && i < GPUB_DIMS_MAX; i++)
		if (layout.shape[i] == GPUB_ANY_EXTENT)
			layout.shape[i] = 0;
	return layout_check(&layout);
}

/*
 * With an expectation, takes the slow path even if the buffer is mapped, because client->lock keeps the record's owner
 * from being changed.
 */
int gpub_acquire_as(gpub_client *client, const char *name, const gpub_expectation *expectation, unsigned rights,
		    int timeout_ms, gpub_lease *lease)
{
	int error = client_check(client), index;
	gpub_expectation expected;

	if (!expectation)
		return gpub_acquire(client, name, rights, timeout_ms, lease);
	if (!error)
		error = lease_acquire_check(name, rights, timeout_ms, lease);
	if (!error)
		error = expectation_take(&expected, expectation);
	if (error)
		return error;
	index = client_device_index(client, GPUB_CURRENT);
	return index < 0 ? index : acquire_slow(client, name, (unsigned)index, &expected, rights, timeout_ms, lease);
}

/* Whether the token is of a lease of the record's present buffer, not of an earlier buffer of the record. */
static bool token_current(const struct slot *slot, uint64_t token)
{
	return slot_later(token_sequence(token), atomic_load(&slot->base));
}

/*
 * Whether the slot has given out `sequence` since its record got its present buffer: it lies between slot->base and the
 * sequence of `hold`, which was read from the slot. False for a token of an earlier buffer, and for a damaged one.
 */
static bool token_was_given(const struct slot *slot, uint64_t hold, uint64_t sequence)
{
	uint64_t last = SLOT_SEQUENCE(hold), base = atomic_load(&slot->base);

	return (last - sequence) << SLOT_INDEX_BITS < (last - base) << SLOT_INDEX_BITS;
}

/*
 * Renews a lease of a buffer that came by a ticket, and so cannot be requested by name. -ESTALE: the buffer was
 * unlinked, or its mapping closed. -EROFS: it was sealed. If all slots are busy, adds slots to the record. Call it
 * under client->lock, which it releases meanwhile if the device was reset.
 */
static int renew_redeemed(gpub_lease *lease, struct record *record, const struct slot *slot)
{
	uint64_t token;
	void *ptr;
	int error;

	error = client_notice_reset(lease->client, record->ordinal);
	if (error < 0)
		return error;
	error = token_current(slot, lease->token) ? record_hold_growing(lease->client, record, &token) : -ESTALE;
	if (error == -ESTALE)
		return error_set(error, "the buffer of this ticket was unlinked, or its mapping closed: redeem another "
					"ticket");
	if (error)
		return error;
	ptr = record_ptr(record, lease->rights);
	if (!ptr) {
		lease_undo(lease->client, token);
		return error_set(-EROFS, "the buffer of this ticket was sealed: redeem a ticket with GPUB_READ alone");
	}
	lease_fill(lease, lease->client, record, ptr, lease->rights, token);
	return 0;
}

/*
 * For a lease whose mapping was closed, whose device was reset, or whose record has no idle slot: acquires the buffer
 * by its name or, if it came by a ticket, calls renew_redeemed(). -ESTALE, error message set: the name belongs to
 * another buffer now, or to none.
 */
static int renew_by_name(gpub_lease *lease, struct record *record, const struct slot *slot)
{
	struct gpub_client *client = lease->client;
	uint64_t name[NAME_WORDS], serial;
	gpub_lease fresh;
	unsigned index;
	bool redeemed;
	int error;
	HOLD_CANCELLATION();

	pthread_mutex_lock(&client->lock);
	for (int i = 0; i < NAME_WORDS; i++)
		name[i] = atomic_load_explicit(&record->name[i], memory_order_relaxed);
	index = atomic_load(&record->index);
	serial = atomic_load(&record->serial);
	error = token_current(slot, lease->token) ? 0 : error_set(-ESTALE, "%s", stale);
	redeemed = *(const char *)name == '#'; /* not a name, but a key of delegate.c */
	if (!error && redeemed)
		error = renew_redeemed(lease, record, slot);
	pthread_mutex_unlock(&client->lock);
	if (redeemed)
		return error;
	if (!error)
		error = acquire_slow(client, (const char *)name, index, NULL, lease->rights, 0, &fresh);
	if (error == -ENOENT)
		return error_set(-ESTALE, "'%s' was unlinked, renamed or resized since this lease: acquire it again",
				 (const char *)name);
	if (error)
		return error;
	if (atomic_load(&slot_at(&client->slots, token_index(fresh.token))->record->serial) != serial) {
		lease_undo(client, fresh.token);
		return error_set(-ESTALE, "'%s' was unlinked, renamed or resized since this lease: acquire it again",
				 (const char *)name);
	}
	*lease = fresh;
	return 0;
}

/* Takes the slot that the lease had, if that slot is idle, else any idle slot of the record. As record_hold_in(). */
static int renew_in(struct record *record, struct slot *slot, uint64_t *token)
{
	uint64_t hold = atomic_load_explicit(&slot->hold, memory_order_acquire);
	int error = slot_unused(slot, hold) ? record_hold_in(record, slot, hold, token) : -EAGAIN;

	return error == -EAGAIN ? record_hold_any(record, token) : error;
}

/*
 * Renews a lease that was returned in stream order, or whose slot is taken, or of another client than client_first, or
 * refuses one that cannot be renewed.
 */
static NOINLINE int renew_slow(gpub_lease *lease)
{
	struct slot *slot;
	uint64_t token, hold, sequence;
	void *ptr;
	int error = lease_slot(lease, &slot);

	if (error)
		return error;
	hold = atomic_load(&slot->hold);
	sequence = token_sequence(lease->token);
	if (hold == SLOT_HOLD(sequence, SLOT_HELD))
		return error_set(-EBUSY, "the lease of '%s' is still held: return it before you renew it",
				 record_title(slot->record));
	if (!token_was_given(slot, hold, sequence))
		return error_set(-ESTALE, "%s", stale);
	if (renew_in(slot->record, slot, &token))
		return renew_by_name(lease, slot->record, slot);
	/* the record may have been reused for another buffer before this thread took the hold */
	if (!token_current(slot, lease->token)) {
		lease_undo(lease->client, token);
		return error_set(-ESTALE, "%s", stale);
	}
	if (client_was_reset(lease->client, atomic_load(&slot->record->index)) ||
	    !(ptr = record_ptr(slot->record, lease->rights)) ||
	    !hold_stands(slot_at(&lease->client->slots, token_index(token)), token)) {
		lease_undo(lease->client, token);
		return renew_by_name(lease, slot->record, slot);
	}
	lease_fill(lease, lease->client, slot->record, ptr, lease->rights, token);
	CRASH_POINT(renewed);
	return 0;
}

/* Ends the hold that gpub_renew() took and that cannot become the lease, then renews on the slow path. */
static NOINLINE int renew_undo(gpub_lease *lease, uint64_t token)
{
	lease_undo(lease->client, token);
	return renew_slow(lease);
}

/*
 * An exchange waits for all loads before it. So the exchange comes first, without a load of slot->hold, which most
 * often is as gpub_return() left it, and the client's state is checked after the exchange. Leases of other clients than
 * client_first go to renew_slow().
 */
int gpub_renew(gpub_lease *lease)
{
	struct slot *slot = slot_of(lease);
	struct record *record = LIKELY(slot != NULL) ? slot->record : NULL;
	uint64_t token;
	void *ptr;

	if (UNLIKELY(!record ||
		     record_hold_in(record, slot, SLOT_HOLD(token_sequence(lease->token), SLOT_FREE), &token)))
		return renew_slow(lease);
	if (UNLIKELY(!token_current(slot, lease->token) || !client_open(lease->client) ||
		     client_was_reset(lease->client, atomic_load_explicit(&record->index, memory_order_relaxed)) ||
		     !hold_stands(slot, token) || !(ptr = record_ptr(record, lease->rights))))
		return renew_undo(lease, token);
	lease_fill(lease, lease->client, record, ptr, lease->rights, token);
	CRASH_POINT(renewed);
	return 0;
}

/* Ends the lease's hold: sets the slot's state to `state`. False: the slot does not have the lease's hold. */
static inline bool lease_take_back(const gpub_lease *lease, struct slot *slot, enum slot_state state)
{
	uint64_t held = SLOT_HOLD(token_sequence(lease->token), SLOT_HELD);

	return atomic_compare_exchange_strong_explicit(&slot->hold, &held,
						       SLOT_HOLD(token_sequence(lease->token), state),
						       memory_order_release, memory_order_relaxed);
}

/* Returns the error of a return whose lease has no hold, and sets the error message. */
static NOINLINE int return_refused(const gpub_lease *lease)
{
	struct slot *slot;
	int error = lease_slot(lease, &slot);

	/* -ECONNRESET is not the reason, because a lease can be returned after the broker has ended */
	return error && (error != -ECONNRESET || !slot_of_any(lease)) ? error : error_set(-ESTALE, "%s", stale);
}

static inline int return_in(gpub_lease *lease, struct slot *slot)
{
	bool done;

	CRASH_POINT(return_begin);
	slot_mark_unordered(slot);
	done = lease_take_back(lease, slot, SLOT_FREE);
	CRASH_POINT(returned);
	return LIKELY(done) ? 0 : return_refused(lease);
}

/* Returns a lease of another client than client_first, or refuses a lease without a known client. */
static NOINLINE int return_other(gpub_lease *lease)
{
	struct slot *slot = slot_of_any(lease);

	return slot ? return_in(lease, slot) : return_refused(lease);
}

/*
 * Does not check the client's state, because a lease can be returned after the broker has ended, and in a forked child
 * no slot is held.
 */
int gpub_return(gpub_lease *lease)
{
	struct slot *slot = slot_of(lease);

	return LIKELY(slot != NULL) ? return_in(lease, slot) : return_other(lease);
}

static inline int return_on_in(gpub_lease *lease, struct slot *slot, void *stream)
{
	uint64_t sequence;
	int error;

	if (UNLIKELY(!lease_take_back(lease, slot, SLOT_RETURNING)))
		return return_refused(lease);
	CRASH_POINT(return_claimed);
	sequence = token_sequence(lease->token);
	error = lease->client->device->stream_write(stream, (uint64_t *)slot->word, sequence);
	CRASH_POINT(return_queued);
	/* if the GPU's write could not be queued, the lease stays held */
	atomic_store_explicit(&slot->hold, SLOT_HOLD(sequence, error ? SLOT_HELD : SLOT_RETURNED),
			      memory_order_release);
	CRASH_POINT(return_marked);
	return error;
}

static NOINLINE int return_on_other(gpub_lease *lease, void *stream)
{
	struct slot *slot = slot_of_any(lease);

	return slot ? return_on_in(lease, slot, stream) : return_refused(lease);
}

int gpub_return_on(gpub_lease *lease, void *stream)
{
	struct slot *slot = slot_of(lease);

	return LIKELY(slot != NULL) ? return_on_in(lease, slot, stream) : return_on_other(lease, stream);
}
