/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-close.c - closing a mapped buffer: no hold on what is being closed, and what its record stands for next.
 *
 * The stress test is a race on purpose: it counts what must never be. records-harness.h is the world.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/clock.h"
#include "records-harness.h"

/* ---- close, and what the record stands for next ---- */

static void invariant_2_a_held_record_is_not_closed(void **state)
{
	uint64_t token = hold();

	(void)state;
	assert_int_equal(close_now(true), -EBUSY);
	assert_int_equal(fake_closed, 0);
	assert_true(atomic_load(&record->state) == RECORD_WORD(MAPPING, RECORD_OPEN));
	assert_int_equal(give_back_on(token), 0);
	assert_int_equal(close_now(false), -EBUSY);
	assert_int_equal(fake_closed, 0);
	land();
	assert_int_equal(close_now(false), 0);
	assert_int_equal(fake_closed, 1);
	assert_int_equal(RECORD_STATE(atomic_load(&record->state)), RECORD_NONE);
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

/* The mapping is still there, and in the broker, too: the record must never serve anybody again. */
static void invariant_2_a_failed_close_stays_closing(void **state)
{
	uint64_t token, version;
	struct table_key key;

	(void)state;
	fake_close_error = -EIO;
	assert_int_equal(close_now(true), -EIO);
	/* without the id of its mapping, so that a late notice does not find it */
	assert_true(atomic_load(&record->state) == RECORD_WORD(0, RECORD_CLOSING));
	assert_int_equal(record_hold(record, &token), -ESTALE);
	assert_int_equal(table_key_make(&client->table, &key, "a", 0), 0);
	assert_null(table_find(&client->table, &key, &version));
	assert_int_equal(client->records.free_count, 0);
}

static struct record *bind_and_release(enum record_state state)
{
	struct record *other = record_bind(client, "other", 0);

	assert_ptr_not_equal(other, record);
	atomic_store(&other->state, RECORD_WORD(0, state));
	record_release(client, other, 0, NULL);
	return other;
}

/* It is kept free for a while. Then the record released first is the next one, before all that were never open. */
static void invariant_8_a_record_serves_again_behind_others(void **state)
{
	enum { REST = 3 };
	struct record *second, *refused;

	(void)state;
	client->records.free_min = REST;
	assert_int_equal(close_now(true), 0);
	second = bind_and_release(RECORD_CLOSING);
	bind_and_release(RECORD_CLOSING);
	refused = bind_and_release(RECORD_REQUESTED);
	assert_ptr_equal(record_bind(client, "never made", 0), refused);
	record_release(client, refused, -ENOENT, "no such name");
	assert_ptr_equal(record_bind(client, "never made", 0), refused);
	bind_and_release(RECORD_CLOSING);
	assert_ptr_equal(record_bind(client, "a", 0), record);
	atomic_store(&record->state, RECORD_WORD(0, RECORD_CLOSING));
	record_release(client, record, 0, NULL);
	assert_ptr_equal(record_bind(client, "b", 0), second);
}

/*
 * Slots stay with their record: generation after generation of a buffer with many leases must not take new ones each.
 */
static void test_with_many_slots_taken_no_record_is_kept_free(void **state)
{
	uint32_t used = atomic_load(&client->slots.used);

	(void)state;
	client->records.free_min = RECORDS_FREE_MIN;
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
	open_record(next, MAPPING + 1);
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

/* ---- stress ---- */

static _Atomic unsigned wrong;

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

/* The real mapping_close() against real holds: the record comes back under another mapping each time. */
static void invariant_2_stress_record_close_against_holds(void **state)
{
	static const struct device marking = { .kind = DEVICE_HOST,
					       .page_register = fake_register,
					       .close = close_marks_memory,
					       .check = fake_check };
	struct timespec end = client_deadline(STRESS_MS), last = client_deadline(STRESS_MAX_MS);
	uint64_t mapping = MAPPING;

	(void)state;
	client->device = &marking;
	acquirers_start();
	while (before(&end) || (!tried() && before(&last))) {
		if (close_now(true))
			continue;
		closed = false;
		if (record_bind(client, "a", 0) != record)
			break;
		open_record(record, ++mapping);
	}
	acquirers_stop();
}

/* ---- a close beside constant use ---- */

static _Atomic unsigned scans;

/* Each look of the close asks the device, once in a while: meanwhile the buffer was taken and returned again. */
static int busy_check(int ordinal)
{
	uint64_t token;

	(void)ordinal;
	scans++;
	if (record_hold(record, &token))
		return -EIO;
	assert_int_equal(give_back_on(token), 0);
	return scans > 3 ? -EIO : 0;
}

static void invariant_7_a_close_does_not_wait_for_constant_use(void **state)
{
	struct device busy = fake;
	int error;

	(void)state;
	busy.check = busy_check;
	client->device = &busy;
	scans = 0;
	assert_int_equal(give_back_on(hold()), 0);
	pthread_mutex_lock(&client->lock);
	error = mapping_close(client, record->mapping, CLOSE_WHEN_LANDED);
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(error, -EBUSY);
	assert_int_equal(scans, 1);
	assert_int_equal(RECORD_STATE(atomic_load(&record->state)), RECORD_OPEN);
	client->device = &fake;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_2_a_held_record_is_not_closed),
		ON(invariant_2_a_close_waits_for_what_has_not_landed),
		ON(invariant_2_a_failed_close_stays_closing),
		ON(invariant_7_a_close_does_not_wait_for_constant_use),
		ON(invariant_8_a_rebound_record_refuses_older_leases),
		ON(invariant_8_a_record_serves_again_behind_others),
		ON(test_with_many_slots_taken_no_record_is_kept_free),
		ON(test_without_a_broker_nothing_is_renewed),
		ON(invariant_2_stress_record_close_against_holds),
	};

	return cmocka_run_group_tests_name("closes", tests, NULL, NULL);
}
