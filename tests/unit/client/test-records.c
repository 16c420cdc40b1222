/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-records.c - what a record has the device watch, and which of its slots a reset waits for.
 *
 * records-harness.h is the world.
 */
#include "records-harness.h"

#include <stdint.h>

#include "client/slot.h"

/* ---- what is watched ---- */

static unsigned watched, unwatched;

static void note_watch(struct device_watch *watch)
{
	assert_non_null(watch->ptr);
	watched++;
}

static void note_unwatch(struct device_watch *watch)
{
	(void)watch;
	unwatched++;
}

/* A view that is not mapped is not watched, nor is one address twice. What a record watches ends with its buffer. */
static void test_each_view_is_watched_once(void **state)
{
	static char other[64];
	struct device watching = fake;
	struct mapping *mapping = record->mapping;

	(void)state;
	watching.watch = note_watch;
	watching.unwatch = note_unwatch;
	client->device = &watching;
	watched = unwatched = 0;
	mapping->base[VIEW_WRITE] = NULL;
	record_view(client, record, VIEW_READ);
	record_view(client, record, VIEW_WRITE);
	assert_int_equal(watched, 1);
	mapping->base[VIEW_WRITE] = memory;
	record_view(client, record, VIEW_WRITE);
	assert_int_equal(watched, 1);
	mapping->base[VIEW_WRITE] = other;
	record_view(client, record, VIEW_WRITE);
	assert_int_equal(watched, 2);
	pthread_mutex_lock(&client->lock);
	record_release(client, record, 0, NULL);
	mapping_remove(client, mapping);
	pthread_mutex_unlock(&client->lock);
	client->device = &fake;
	assert_int_equal(unwatched, VIEWS);
}

/* ---- slots ---- */

static void slot_becomes(struct slot *slot, enum slot_state state)
{
	atomic_store(&slot->hold, SLOT_HOLD(SLOT_SEQUENCE(atomic_load(&slot->hold)), state));
}

/* A thread that is about to queue a return uses its slot: a reset ends all other holds, and waits for that one. */
static void test_a_return_that_is_being_queued_is_waited_for(void **state)
{
	struct slot *slot;

	(void)state;
	slot = &client->slots.slot[token_index(hold())];
	slot_becomes(slot, SLOT_RETURNING);
	hold();
	assert_false(record_drop_all(record));
	assert_int_equal(SLOT_STATE(atomic_load(&slot->hold)), SLOT_RETURNING);
	slot_becomes(slot, SLOT_FREE);
	assert_true(record_drop_all(record));
	assert_true(idle());
	assert_int_equal(close_now(false), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_each_view_is_watched_once),
		ON(test_a_return_that_is_being_queued_is_waited_for),
	};

	return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
