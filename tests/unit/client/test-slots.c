/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-slots.c - holds on a mapped buffer: one holder a slot, no hold on what is being closed, and no token that is
 * older than what its slot stands for.
 *
 * Records are made open by hand here, without a broker: the word in the board is a variable of the test, and the
 * device is a table that only registers memory. The stress tests are races on purpose: each counts what must never be.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "client/client.h"
#include "client/clock.h"
#include "client/close.h"
#include "client/hold.h"
#include "client/lease.h"
#include "client/mapping.h"
#include "client/records.h"
#include "client/table.h"

#define BLOCKS 2
#define SLOTS (SLOTS_FIRST * 3) /* of two blocks */
#define GRANT 9
#define LIVE  BOARD_WORD(5, BOARD_LIVE)

static int fake_register_error;
static unsigned fake_registered;

static int fake_register(void *page, size_t size, bool writable)
{
	assert_true(writable && !((uintptr_t)page % 4096) && size % 4096 == 0);
	fake_registered++;
	return fake_register_error;
}

static int fake_close_error;
static unsigned fake_closed;

static int fake_close(int ordinal, void *base)
{
	(void)ordinal;
	(void)base;
	fake_closed++;
	return fake_close_error;
}

static int fake_check(int ordinal)
{
	(void)ordinal;
	return 0;
}

/* What a stream does with a release word is the test's to decide: it lands when the test lets it. */
static uint64_t *landing_word, landing_value;
static int fake_write_error;

static int fake_stream_write(void *stream, uint64_t *word, uint64_t value)
{
	(void)stream;
	landing_word = word;
	landing_value = value;
	return fake_write_error;
}

static void land(void)
{
	atomic_store((_Atomic uint64_t *)landing_word, landing_value);
}

static const struct device fake = { .kind = DEVICE_HOST,
				    .page_register = fake_register,
				    .close = fake_close,
				    .check = fake_check,
				    .stream_write = fake_stream_write };

static _Atomic uint64_t board_word;
static struct gpub_client *client;
static struct record *record;
static char memory[64];

/* As messages.c's mapping_settle() leaves it; one for each record here. */
static struct mapping *mapping_made(uint64_t grant)
{
	struct mapping *mapping = calloc(1, sizeof *mapping);

	assert_non_null(mapping);
	mapping->grant = grant;
	mapping->base = memory;
	assert_int_equal(mapping_add(client, mapping), 0);
	return mapping;
}

/* As messages.c's record_open() leaves it. */
static void open_record(struct record *which, uint64_t grant)
{
	which->word = &board_word;
	which->live = LIVE;
	which->ptr = memory;
	which->size = sizeof memory;
	which->rights = GPUB_READ | GPUB_WRITE;
	which->serial = 5;
	mapping_attach(mapping_made(grant), which);
	atomic_store(&which->mapping, RECORD_MAPPING(grant, RECORD_OPEN));
}

static int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	fake_register_error = fake_close_error = fake_write_error = 0;
	fake_registered = fake_closed = 0;
	atomic_store(&board_word, LIVE);
	client = client_alloc();
	if (!client)
		return -1;
	client->device = &fake;
	client->sock = -1;
	client->records.rest = 0; /* a record serves again at once */
	atomic_store(&client->guard->state, CLIENT_OPEN);
	record = record_bind(client, "a", 0);
	for (int b = 0; b < BLOCKS; b++)
		if (!record || record_grow(client, record))
			return -1;
	open_record(record, GRANT);
	return 0;
}

/* A client is never freed, for leases may lead to it: its parts are, so that each test begins anew. */
static int teardown(void **state)
{
	struct record *next;

	(void)state;
	for (; client->records.all; client->records.all = next) {
		next = client->records.all->next;
		free(client->records.all);
	}
	munmap(client->slots.slot, SLOTS_MAX * sizeof(struct slot));
	memset(&client->slots, 0, sizeof client->slots);
	client->records.resting = 0;
	client->records.rested = NULL;
	table_deinit(&client->table);
	table_init(&client->table);
	sodium_free(client->key);
	atomic_store(&client->guard->state, CLIENT_ENDED);
	client_recycle(client);
	return 0;
}

/* ---- short words ---- */

static uint64_t hold(void)
{
	uint64_t token = 0;

	assert_int_equal(record_hold(record, &token), 0);
	return token;
}

static gpub_lease lease_of(uint64_t token)
{
	return (gpub_lease){ .client = client, .token = token, .rights = GPUB_READ };
}

static int give_back(uint64_t token)
{
	gpub_lease lease = lease_of(token);

	return gpub_return(&lease);
}

static int give_back_on(uint64_t token)
{
	gpub_lease lease = lease_of(token);

	return gpub_return_on(&lease, NULL);
}

static bool idle(void)
{
	bool held;

	return record_idle(record, &held);
}

/* ---- tokens ---- */

static void test_token_carries_slot_and_sequence(void **state)
{
	static const uint64_t sequences[] = { 1, 2, 1ull << 32, (1ull << SLOT_SEQUENCE_BITS) - 1 };

	(void)state;
	for (uint32_t index = 0; index < SLOTS_MAX; index += 4093)
		for (int i = 0; i < 4; i++) {
			uint64_t token = slot_token(index, sequences[i]);

			assert_int_equal(token_index(token), index);
			assert_true(token_sequence(token) == sequences[i]);
		}
}

static void test_each_hold_has_its_own_slot_and_sequence(void **state)
{
	uint64_t token[SLOTS], before, again;

	(void)state;
	for (unsigned i = 0; i < SLOTS; i++) {
		token[i] = hold();
		for (unsigned k = 0; k < i; k++)
			assert_int_not_equal(token_index(token[i]), token_index(token[k]));
	}
	before = token[3];
	assert_int_equal(give_back(before), 0);
	again = hold();
	assert_int_equal(token_index(again), token_index(before));
	assert_true(token_sequence(again) > token_sequence(before));
	token[3] = again;
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(give_back(token[i]), 0);
	assert_true(idle());
}

static void invariant_8_stale_tokens_are_refused(void **state)
{
	uint64_t old = hold(), current;
	struct record *found;
	gpub_lease lease = lease_of(old);

	(void)state;
	assert_int_equal(lease_record(&lease, &found), 0);
	assert_ptr_equal(found, record);
	assert_int_equal(give_back(old), 0);
	assert_int_equal(give_back(old), -ESTALE);
	assert_int_equal(give_back_on(old), -ESTALE);
	assert_int_equal(lease_record(&lease, &found), -ESTALE);
	current = hold();
	assert_int_equal(token_index(current), token_index(old));
	assert_int_equal(give_back(old), -ESTALE);
	assert_false(idle());
	assert_int_equal(give_back(current), 0);
	/* what no lease ever carried */
	assert_int_equal(give_back(slot_token(token_index(old), 77)), -ESTALE);
	assert_int_equal(give_back(slot_token(SLOTS, 1)), -EINVAL);
	assert_int_equal(give_back(slot_token(SLOTS_MAX - 1, 1)), -EINVAL);
	assert_int_equal(give_back(0), -EINVAL);
}

/* ---- slots ---- */

static void test_slots_grow_and_end(void **state)
{
	uint32_t most = (SLOTS_FIRST << SLOT_BLOCKS) - SLOTS_FIRST, held = 0;
	bool *taken = calloc(SLOTS_MAX, sizeof *taken);
	uint64_t token;

	(void)state;
	for (;;) {
		int error = record_hold(record, &token);

		if (error == -EAGAIN && !record_grow(client, record))
			continue;
		if (error)
			break;
		assert_false(taken[token_index(token)]);
		assert_ptr_equal(slot_at(&client->slots, token_index(token))->record, record);
		taken[token_index(token)] = true;
		held++;
	}
	assert_int_equal(held, most);
	assert_int_equal(record_grow(client, record), -ENOMEM);
	assert_false(idle());
	record_drop_holds(record);
	assert_true(idle());
	free(taken);
}

/* A block lies in one chunk, and a second record's slots are its own. */
static void test_blocks_do_not_overlap(void **state)
{
	struct record *other = record_bind(client, "b", 0);

	(void)state;
	/* so that the largest block would not fit what is left of the first chunk */
	assert_int_equal(record_grow(client, record), 0);
	for (int i = 0; i < SLOT_BLOCKS; i++)
		assert_int_equal(record_grow(client, other), 0);
	for (int b = 0; b < SLOT_BLOCKS; b++) {
		uint32_t first = other->block[b]->index, last = first + (SLOTS_FIRST << b) - 1;

		assert_int_equal(first / SLOT_CHUNK, last / SLOT_CHUNK);
		for (uint32_t i = first; i <= last; i++)
			assert_ptr_equal(slot_at(&client->slots, i)->record, other);
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_ptr_equal(slot_at(&client->slots, record->block[0]->index + i)->record, record);
}

static void test_a_device_that_registers_nothing(void **state)
{
	struct record *other = record_bind(client, "b", 0);
	uint64_t token;

	(void)state;
	client->slots.used = SLOT_CHUNK; /* the next block needs a new chunk */
	fake_register_error = -EIO;
	assert_int_equal(record_grow(client, other), -EIO);
	assert_int_equal(atomic_load(&other->blocks), 0);
	assert_null(slot_at(&client->slots, SLOT_CHUNK));
	assert_int_equal(record_hold(other, &token), -ESTALE);
	fake_register_error = 0;
	assert_int_equal(record_grow(client, other), 0);
}

static void test_the_free_slot_is_found(void **state)
{
	uint64_t token[SLOTS], again;

	(void)state;
	for (unsigned i = 0; i < SLOTS; i++)
		token[i] = hold();
	for (unsigned i = 0; i < SLOTS; i++) {
		assert_int_equal(give_back(token[i]), 0);
		/* a hint beyond all slots is only a hint */
		atomic_store(&record->cursor, i % 2 ? 1000003 : 0);
		again = hold();
		assert_int_equal(token_index(again), token_index(token[i]));
	}
}

static void *hold_once(void *argument)
{
	*(uint32_t *)argument = token_index(hold());
	return NULL;
}

/* As many threads as the last block has slots, one after the other: each begins with its own. */
static void test_a_thread_begins_with_its_own_slot(void **state)
{
	uint32_t block = SLOTS_FIRST << (BLOCKS - 1), first = record->block[BLOCKS - 1]->index, index[SLOTS];
	uint64_t token = hold();
	pthread_t thread;

	(void)state;
	assert_int_equal(give_back(token), 0);
	assert_int_equal(token_index(hold()), token_index(token));
	record_drop_holds(record);
	for (uint32_t i = 0; i < block; i++) {
		assert_int_equal(pthread_create(&thread, NULL, hold_once, &index[i]), 0);
		pthread_join(thread, NULL);
		assert_in_range(index[i], first, first + block - 1);
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(index[i], index[k]);
		record_drop_holds(record);
	}
}

static void test_sequences_wrap_and_leave_out_0(void **state)
{
	static const uint64_t last = (1ull << SLOT_SEQUENCE_BITS) - 1;

	(void)state;
	assert_true(slot_take(0) == SLOT_HOLD(1, SLOT_HELD));
	assert_true(slot_take(SLOT_HOLD(7, SLOT_RETURNED)) == SLOT_HOLD(8, SLOT_HELD));
	assert_true(slot_take(SLOT_HOLD(last - 1, SLOT_FREE)) == SLOT_HOLD(last, SLOT_HELD));
	assert_true(slot_take(SLOT_HOLD(last, SLOT_FREE)) == SLOT_HOLD(1, SLOT_HELD));
	assert_true(slot_take(SLOT_HOLD(last, SLOT_RETURNED)) == SLOT_HOLD(1, SLOT_HELD));
	assert_true(slot_later(1, last));
}

static void test_hold_in_wants_the_hold_it_saw(void **state)
{
	struct slot *slot = record->block[0];
	uint32_t index = record->block[0]->index;
	uint64_t before = atomic_load(&slot->hold), token = 0;

	(void)state;
	assert_int_equal(record_hold_in(record, slot, before, &token), 0);
	assert_int_equal(token_index(token), index);
	assert_int_equal(give_back(token), 0);
	/* the slot was taken and returned meanwhile: the same state, another sequence */
	assert_int_equal(record_hold_in(record, slot, before, &token), -EAGAIN);
	assert_true(idle());
}

static void invariant_8_no_hold_on_what_is_not_live_and_open(void **state)
{
	static const enum record_state closed[] = { RECORD_NONE, RECORD_REQUESTED, RECORD_CLOSING };
	uint64_t token = 42;

	(void)state;
	for (int i = 0; i < 3; i++) {
		atomic_store(&record->mapping, RECORD_MAPPING(GRANT, closed[i]));
		assert_int_equal(record_hold(record, &token), -ESTALE);
		assert_true(idle());
	}
	atomic_store(&record->mapping, RECORD_MAPPING(GRANT, RECORD_OPEN));
	atomic_store(&board_word, BOARD_WORD(5, BOARD_DRAINING));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	atomic_store(&board_word, BOARD_WORD(6, BOARD_LIVE));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	assert_true(idle());
	assert_true(token == 42);
}

/* ---- returns in stream order ---- */

static void invariant_2_a_return_on_is_over_when_it_lands(void **state)
{
	uint64_t token = hold();
	bool held = true;

	(void)state;
	assert_int_equal(give_back_on(token), 0);
	assert_false(record_idle(record, &held));
	assert_false(held);
	assert_int_equal(give_back(token), -ESTALE);
	land();
	assert_true(idle());
}

/* A late write of an earlier sequence does not land a later return of the same slot. */
static void invariant_2_an_older_write_lands_nothing(void **state)
{
	uint64_t first = hold(), second;

	(void)state;
	assert_int_equal(give_back_on(first), 0);
	land();
	second = hold();
	assert_int_equal(token_index(second), token_index(first));
	assert_int_equal(give_back_on(second), 0);
	assert_false(idle());
	land();
	assert_true(idle());
}

static void test_slot_that_has_not_landed_is_not_taken(void **state)
{
	uint64_t token[SLOTS], none;

	(void)state;
	for (unsigned i = 0; i < SLOTS; i++) {
		token[i] = hold();
		assert_int_equal(give_back_on(token[i]), 0);
	}
	assert_int_equal(record_hold(record, &none), -EAGAIN);
	land();
	assert_int_equal(token_index(hold()), token_index(token[SLOTS - 1]));
}

static void test_return_on_that_fails_leaves_the_lease(void **state)
{
	uint64_t token = hold();
	bool held;

	(void)state;
	fake_write_error = -EBUSY;
	assert_int_equal(give_back_on(token), -EBUSY);
	assert_false(record_idle(record, &held));
	assert_true(held);
	assert_int_equal(give_back(token), 0);
}

/* ---- close, and what the record stands for next ---- */

static int close_now(bool wait)
{
	int error;

	pthread_mutex_lock(&client->lock);
	error = record->on ? mapping_close(client, record->on, wait) : -EBUSY;
	pthread_mutex_unlock(&client->lock);
	return error;
}

static void invariant_2_a_held_record_is_not_closed(void **state)
{
	uint64_t token = hold();

	(void)state;
	assert_int_equal(close_now(true), -EBUSY);
	assert_int_equal(fake_closed, 0);
	assert_true(atomic_load(&record->mapping) == RECORD_MAPPING(GRANT, RECORD_OPEN));
	assert_int_equal(give_back_on(token), 0);
	assert_int_equal(close_now(false), -EBUSY);
	assert_int_equal(fake_closed, 0);
	land();
	assert_int_equal(close_now(false), 0);
	assert_int_equal(fake_closed, 1);
	assert_int_equal(RECORD_STATE(atomic_load(&record->mapping)), RECORD_NONE);
	assert_int_equal(close_now(false), -EBUSY);
}

static void *land_soon(void *argument)
{
	(void)argument;
	usleep(20000);
	assert_int_equal(fake_closed, 0);
	land();
	return NULL;
}

static void invariant_2_a_close_waits_for_what_has_not_landed(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(give_back_on(hold()), 0);
	assert_int_equal(pthread_create(&thread, NULL, land_soon, NULL), 0);
	assert_int_equal(close_now(true), 0);
	assert_true(atomic_load((_Atomic uint64_t *)landing_word) == landing_value);
	pthread_join(thread, NULL);
}

/* The mapping is still there, so the grant is: the record must never serve anybody again. */
static void invariant_2_a_failed_close_stays_closing(void **state)
{
	uint64_t token, version;
	struct table_key key;

	(void)state;
	fake_close_error = -EIO;
	assert_int_equal(close_now(true), -EIO);
	/* without its grant, so that a late notice does not find it */
	assert_true(atomic_load(&record->mapping) == RECORD_MAPPING(0, RECORD_CLOSING));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	assert_int_equal(table_key_make(&client->table, &key, "a", 0), 0);
	assert_null(table_find(&client->table, &key, &version));
	assert_int_equal(client->records.resting, 0);
}

static struct record *bind_and_release(enum record_state state)
{
	struct record *other = record_bind(client, "other", 0);

	assert_ptr_not_equal(other, record);
	atomic_store(&other->mapping, RECORD_MAPPING(0, state));
	record_release(client, other, 0, NULL);
	return other;
}

/* It rests first, and then the one that was given back first is the next; but before all those that never were open. */
static void invariant_8_a_record_serves_again_behind_others(void **state)
{
	enum { REST = 3 };
	struct record *second, *refused;

	(void)state;
	client->records.rest = REST;
	assert_int_equal(close_now(true), 0);
	second = bind_and_release(RECORD_CLOSING);
	bind_and_release(RECORD_CLOSING);
	refused = bind_and_release(RECORD_REQUESTED);
	assert_ptr_equal(record_bind(client, "never made", 0), refused);
	record_release(client, refused, -ENOENT, "no such name");
	assert_ptr_equal(record_bind(client, "never made", 0), refused);
	bind_and_release(RECORD_CLOSING);
	assert_ptr_equal(record_bind(client, "a", 0), record);
	atomic_store(&record->mapping, RECORD_MAPPING(0, RECORD_CLOSING));
	record_release(client, record, 0, NULL);
	assert_ptr_equal(record_bind(client, "b", 0), second);
}

/* Slots stay with their record: generation after generation of a buffer with many leases must not take new ones each. */
static void test_where_many_slots_are_taken_no_record_rests(void **state)
{
	uint32_t used = atomic_load(&client->slots.used);

	(void)state;
	client->records.rest = RECORDS_REST;
	bind_and_release(RECORD_CLOSING);
	assert_int_equal(close_now(true), 0);
	atomic_store(&client->slots.used, SLOTS_CROWDED + 1);
	assert_ptr_equal(record_bind(client, "a", 0), record);
	atomic_store(&client->slots.used, used);
}

static void invariant_8_a_rebound_record_refuses_older_leases(void **state)
{
	gpub_lease returned = lease_of(hold()), fresh;
	struct record *next;

	(void)state;
	assert_int_equal(gpub_return(&returned), 0);
	fresh = returned;
	assert_int_equal(gpub_renew(&fresh), 0);
	assert_int_equal(gpub_return(&fresh), 0);
	assert_int_equal(close_now(true), 0);
	next = record_bind(client, "other", 0);
	assert_ptr_equal(next, record);
	open_record(next, GRANT + 1);
	assert_int_equal(gpub_renew(&returned), -ESTALE);
	assert_int_equal(gpub_renew(&fresh), -ESTALE);
	assert_int_equal(gpub_return(&fresh), -ESTALE);
	assert_true(idle());
	fresh = lease_of(hold());
	assert_int_equal(gpub_return(&fresh), 0);
	assert_int_equal(gpub_renew(&fresh), 0);
	assert_int_equal(gpub_return(&fresh), 0);
}

/* What is held can still be returned: that needs nobody. */
static void test_without_a_broker_nothing_is_renewed(void **state)
{
	gpub_lease returned = lease_of(hold()), held = lease_of(hold());
	uint64_t token = returned.token;

	(void)state;
	assert_int_equal(gpub_return(&returned), 0);
	atomic_store(&client->guard->state, CLIENT_LOST);
	assert_int_equal(gpub_renew(&returned), -ECONNRESET);
	assert_true(returned.token == token);
	assert_int_equal(gpub_return(&held), 0);
	assert_int_equal(gpub_return(&held), -ESTALE);
	assert_true(idle());
}

/* ---- what was returned plainly ---- */

static void test_a_plain_return_is_remembered(void **state)
{
	uint64_t token = hold();

	(void)state;
	assert_true(record_proven(record));
	assert_int_equal(give_back_on(token), 0);
	land();
	assert_true(record_proven(record));
	token = hold();
	assert_int_equal(give_back(token), 0);
	assert_false(record_proven(record));
	assert_int_equal(give_back_on(hold()), 0);
	land();
	assert_false(record_proven(record));
	/* the next buffer's leases are not this one's */
	assert_int_equal(close_now(true), 0);
	assert_ptr_equal(record_bind(client, "other", 0), record);
	open_record(record, GRANT + 1);
	assert_true(record_proven(record));
	hold();
	record_drop_holds(record);
	assert_false(record_proven(record));
}

/* A hold that no lease came of is no return. */
static void test_an_undone_hold_is_no_plain_return(void **state)
{
	uint64_t token;

	(void)state;
	lease_undo(client, hold());
	atomic_store(&board_word, BOARD_WORD(5, BOARD_DRAINING));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	assert_true(record_proven(record));
}

/* ---- stress ---- */

#define ROUNDS 200000

static _Atomic int holders[SLOTS];
static _Atomic unsigned wrong;

/* Two threads inside one slot would both count it. */
static void *take_and_return(void *argument)
{
	uint64_t token;

	(void)argument;
	for (int i = 0; i < ROUNDS; i++) {
		if (record_hold(record, &token))
			continue;
		wrong += atomic_fetch_add(&holders[token_index(token)], 1) != 0;
		wrong += atomic_fetch_sub(&holders[token_index(token)], 1) != 1;
		wrong += give_back(token) != 0;
	}
	return NULL;
}

/* More threads than slots, so that they fight for them. */
static void test_stress_a_slot_has_one_holder(void **state)
{
	pthread_t thread[2 * SLOTS];

	(void)state;
	wrong = 0;
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_and_return, NULL), 0);
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(wrong, 0);
	assert_true(idle());
}

/* As many closes as the box gives in a second; fewer than this, and nothing was tried: a busy box gets more time. */
#define STRESS_MS     1000
#define STRESS_MAX_MS 15000
#define STRESS_MIN    100u

static _Atomic bool closed, stop;
static _Atomic unsigned taken;
static pthread_t acquirer[2];

static bool before(const struct timespec *end)
{
	struct timespec now = client_deadline(0);

	return now.tv_sec < end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec < end->tv_nsec);
}

static bool tried(void)
{
	return fake_closed > STRESS_MIN && taken > STRESS_MIN;
}

/* A moment without a system call: to yield would cost a busy box whole time slices. */
static void pause_briefly(void)
{
	for (int i = 0; i < 200 && !atomic_load(&stop); i++)
		;
}

static void *acquire_until_stopped(void *argument)
{
	uint64_t token;

	(void)argument;
	while (!atomic_load(&stop)) {
		/* a hold now and then, or a closer would hardly ever find none */
		pause_briefly();
		if (record_hold(record, &token))
			continue;
		/* the use of the memory: nobody may find it closed */
		wrong += atomic_load(&closed);
		taken++;
		wrong += atomic_load(&closed);
		wrong += give_back(token) != 0;
	}
	return NULL;
}

static void acquirers_start(void)
{
	wrong = taken = 0;
	closed = stop = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&acquirer[i], NULL, acquire_until_stopped, NULL), 0);
}

static void acquirers_stop(void)
{
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(acquirer[i], NULL);
	assert_int_equal(wrong, 0);
	assert_true(tried());
}

static int close_marks_memory(int ordinal, void *base)
{
	(void)ordinal;
	(void)base;
	atomic_store(&closed, true);
	fake_closed++;
	pause_briefly();
	return 0;
}

/* The real mapping_close() against real holds: the record comes back under another grant each time. */
static void invariant_2_stress_record_close_against_holds(void **state)
{
	static const struct device marking = { .kind = DEVICE_HOST,
					       .page_register = fake_register,
					       .close = close_marks_memory,
					       .check = fake_check };
	struct timespec end = client_deadline(STRESS_MS), last = client_deadline(STRESS_MAX_MS);
	uint64_t grant = GRANT;

	(void)state;
	client->device = &marking;
	acquirers_start();
	while (before(&end) || (!tried() && before(&last))) {
		if (close_now(true))
			continue;
		closed = false;
		if (record_bind(client, "a", 0) != record)
			break;
		open_record(record, ++grant);
	}
	acquirers_stop();
}

/* ---- a close beside somebody who never rests ---- */

static _Atomic unsigned looks;

/* Each look of the close asks the device, once in a while: meanwhile the buffer was taken and returned again. */
static int busy_check(int ordinal)
{
	uint64_t token;

	(void)ordinal;
	looks++;
	if (record_hold(record, &token))
		return -EIO;
	assert_int_equal(give_back_on(token), 0);
	return looks > 3 ? -EIO : 0;
}

static void invariant_7_a_close_does_not_wait_for_who_never_rests(void **state)
{
	struct device busy = fake;
	int error;

	(void)state;
	busy.check = busy_check;
	client->device = &busy;
	looks = 0;
	assert_int_equal(give_back_on(hold()), 0);
	pthread_mutex_lock(&client->lock);
	error = mapping_close(client, record->on, true);
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(error, -EBUSY);
	assert_int_equal(looks, 1);
	assert_int_equal(RECORD_STATE(atomic_load(&record->mapping)), RECORD_OPEN);
	client->device = &fake;
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_token_carries_slot_and_sequence),
		ON(test_each_hold_has_its_own_slot_and_sequence),
		ON(invariant_8_stale_tokens_are_refused),
		ON(test_slots_grow_and_end),
		ON(test_blocks_do_not_overlap),
		ON(test_a_device_that_registers_nothing),
		ON(test_the_free_slot_is_found),
		ON(test_a_thread_begins_with_its_own_slot),
		ON(test_sequences_wrap_and_leave_out_0),
		ON(test_hold_in_wants_the_hold_it_saw),
		ON(invariant_8_no_hold_on_what_is_not_live_and_open),
		ON(invariant_2_a_return_on_is_over_when_it_lands),
		ON(invariant_2_an_older_write_lands_nothing),
		ON(test_slot_that_has_not_landed_is_not_taken),
		ON(test_return_on_that_fails_leaves_the_lease),
		ON(invariant_2_a_held_record_is_not_closed),
		ON(invariant_2_a_close_waits_for_what_has_not_landed),
		ON(invariant_2_a_failed_close_stays_closing),
		ON(invariant_7_a_close_does_not_wait_for_who_never_rests),
		ON(invariant_8_a_rebound_record_refuses_older_leases),
		ON(invariant_8_a_record_serves_again_behind_others),
		ON(test_where_many_slots_are_taken_no_record_rests),
		ON(test_without_a_broker_nothing_is_renewed),
		ON(test_a_plain_return_is_remembered),
		ON(test_an_undone_hold_is_no_plain_return),
		ON(test_stress_a_slot_has_one_holder),
		ON(invariant_2_stress_record_close_against_holds),
	};

	return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
