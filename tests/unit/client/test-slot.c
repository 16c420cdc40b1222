/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-slot.c - the slots of a mapped buffer: one holder a slot, and no token that is older than what its slot stands
 * for.
 *
 * The stress test is a race on purpose: it counts what must never be. records-harness.h is the world.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "records-harness.h"

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
		atomic_store(&record->state, RECORD_WORD(MAPPING, closed[i]));
		assert_int_equal(record_hold(record, &token), -ESTALE);
		assert_true(idle());
	}
	atomic_store(&record->state, RECORD_WORD(MAPPING, RECORD_OPEN));
	atomic_store(&board_generation, BOARD_WORD(5, BOARD_DRAINING));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	atomic_store(&board_generation, BOARD_WORD(6, BOARD_LIVE));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	assert_true(idle());
	assert_true(token == 42);
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
		ON(test_stress_a_slot_has_one_holder),
	};

	return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
