/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-acquire-fanout.c - what one message brings about for many: the notices of an unlink or a rename, the acquires
 * that wait for a name. In one pass of the loop the broker does some of it, whoever and however many those are, and all
 * of it in the end (invariant 5).
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/request/manage.h"
#include "broker/registry/mappings.h"
#include "session-harness.h"

#define MANY 50u
#define STEP 16u /* registry.c's and waiting.c's */

static struct peer owner, other;

static int setup(void **state)
{
	int error = harness_setup(state);

	if (error)
		return error;
	owner = join();
	other = join();
	return 0;
}

static int teardown(void **state)
{
	part(&owner);
	hang_up_dying(&other);
	return harness_teardown(state);
}

/* Mappings of their own for grants of the buffer, all of the other session. */
static void redeem_many(const char *name, uint64_t mappings[MANY])
{
	struct wire_message message = named(WIRE_ISSUE, 5, name);

	message.issue.rights = GPUB_READ;
	message.issue.uid = TICKET_ANY_USER;
	message = answer_to(&owner, &message);
	assert_int_equal(message.type, WIRE_TICKET);
	for (unsigned i = 0; i < MANY; i++) {
		struct wire_message redeem, answer;

		wire_init(&redeem, WIRE_REDEEM, 6);
		redeem.redeem.ticket = message.ticket;
		answer = answer_to(&other, &redeem);
		assert_int_equal(answer.type, WIRE_GRANT);
		mappings[i] = answer.grant.mapping;
	}
}

static void close_all(const uint64_t mappings[MANY])
{
	for (unsigned i = 0; i < MANY; i++)
		send_closed(other.sock, mappings[i]);
	run_passes();
}

static unsigned notices_read(uint64_t serial)
{
	struct wire_message message;
	unsigned count = 0;

	while (received_already(other.sock, &message)) {
		assert_int_equal(message.type, WIRE_NOTICE);
		assert_true(!serial || message.grant_id.serial == serial);
		count++;
	}
	return count;
}

/* Until the broker has received what was said, not a pass more. */
static void pass_until_unlinked(uint64_t before)
{
	while (broker.counters.buffers_unlinked == before)
		broker_pass(&broker, false);
}

static void say_unlink(const char *name)
{
	struct wire_message message = named(WIRE_UNLINK, 7, name);
	uint64_t before = broker.counters.buffers_unlinked;

	say(owner.sock, &message);
	pass_until_unlinked(before);
}

static void invariant_5_an_unlink_notifies_some_in_a_pass(void **state)
{
	uint64_t mappings[MANY], before = broker.counters.notices_sent, serial;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	serial = registry_find(broker.registry, "a")->serial;
	redeem_many("a", mappings);
	say_unlink("a");
	assert_int_equal(broker.counters.notices_sent - before, STEP);
	for (unsigned sent = STEP; sent < MANY; sent = sent + STEP < MANY ? sent + STEP : MANY) {
		assert_int_equal(broker.counters.notices_sent - before, sent);
		broker_pass(&broker, false);
	}
	run_passes();
	assert_int_equal(broker.counters.notices_sent - before, MANY);
	assert_int_equal(notices_read(serial), MANY);
	close_all(mappings);
}

static void invariant_5_a_rename_notifies_some_in_a_pass(void **state)
{
	uint64_t mappings[MANY], before = broker.counters.notices_sent, serial, last;
	struct buffer *buffer;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	buffer = registry_find(broker.registry, "a");
	serial = buffer->serial;
	redeem_many("a", mappings);
	registry_rename(broker.registry, buffer, "b");
	do {
		last = broker.counters.notices_sent;
		broker_pass(&broker, false);
		assert_in_range(broker.counters.notices_sent - last, 0, STEP);
	} while (broker.counters.notices_sent > last);
	assert_int_equal(broker.counters.notices_sent - before, MANY);
	assert_int_equal(notices_read(serial), MANY);
	assert_null(broker.registry->notices);
	close_all(mappings);
}

/*
 * Each pass has a rename, with which the notices of the one before are not done. Those that have been told are told
 * nothing more.
 */
static void invariant_5_everybody_is_told_also_between_renames_without_end(void **state)
{
	uint64_t mappings[MANY], before = broker.counters.notices_sent, serial;
	struct buffer *buffer;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	buffer = registry_find(broker.registry, "a");
	serial = buffer->serial;
	redeem_many("a", mappings);
	for (unsigned i = 0; i < MANY; i++) {
		registry_rename(broker.registry, buffer, i % 2 ? "a" : "b");
		broker_pass(&broker, false);
	}
	assert_int_equal(broker.counters.notices_sent - before, MANY);
	assert_int_equal(notices_read(serial), MANY);
	run_passes();
	assert_null(broker.registry->notices);
	close_all(mappings);
	assert_int_equal(notices_read(0), 0);
}

/* Between two passes. */
static struct mapping *mapping_now(struct buffer *buffer)
{
	struct session *session = session_of(&other);
	const struct grant_order order = {
		.session = session, .uid = getuid(), .mappings = &session->mappings, .rights = GPUB_READ, .own = true
	};
	struct grant *grant;
	bool fresh;

	assert_int_equal(grant_open(broker.registry, buffer, &order, &grant, &fresh), 0);
	broker.counters.mappings_opened++;
	return grant->mapping;
}

/*
 * Grants that began between two renames are told of the second, also where the notices of the first have passed them
 * already, and the one that is to be told next ends.
 */
static void test_who_came_between_two_renames_is_told_of_the_second(void **state)
{
	uint64_t mappings[MANY], late[4 * STEP - MANY], before = broker.counters.notices_sent;
	struct buffer *buffer;
	struct mapping *last;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	buffer = registry_find(broker.registry, "a");
	redeem_many("a", mappings);
	registry_rename(broker.registry, buffer, "b");
	for (unsigned i = 0; i < 4 * STEP - MANY; i++)
		late[i] = mapping_now(buffer)->id;
	last = mapping_now(buffer);
	for (unsigned i = 0; i < 4; i++)
		broker_pass(&broker, false);
	assert_int_equal(broker.counters.notices_sent - before, MANY);
	assert_ptr_equal(buffer->notices.grant, last->grants);
	registry_rename(broker.registry, buffer, "a");
	mapping_closed(broker.registry, last);
	broker.counters.mappings_closed++;
	run_passes();
	assert_int_equal(broker.counters.notices_sent - before, 4 * STEP);
	assert_null(broker.registry->notices);
	notices_read(0);
	for (unsigned i = 0; i < 4 * STEP - MANY; i++)
		send_closed(other.sock, late[i]);
	close_all(mappings);
}

/* Two that are unlinked at once share the passes. */
static void invariant_5_all_unlinks_of_a_pass_notify_some(void **state)
{
	uint64_t a[MANY], b[MANY], before = broker.counters.notices_sent, last;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	expect_done(&owner, WIRE_CREATE, "b");
	redeem_many("a", a);
	redeem_many("b", b);
	say_unlink("a");
	say_unlink("b");
	do {
		last = broker.counters.notices_sent;
		broker_pass(&broker, false);
		assert_in_range(broker.counters.notices_sent - last, 0, STEP);
	} while (broker.counters.notices_sent > last);
	assert_int_equal(broker.counters.notices_sent - before, 2 * MANY);
	notices_read(0);
	close_all(a);
	close_all(b);
	EXPECT_SOON(!broker.registry->mapping_count);
}

/* What is closed by then is not asked for, and the place in the list goes with it. */
static void test_what_ends_meanwhile_is_not_notified(void **state)
{
	uint64_t mappings[MANY], before = broker.counters.notices_sent;
	struct session *session;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	redeem_many("a", mappings);
	session = session_of(&other);
	say_unlink("a");
	/* those that come next, and the last */
	for (unsigned i = STEP; i < 2 * STEP; i++)
		mapping_closed(broker.registry, mappings_find(&session->mappings, mappings[i]));
	mapping_closed(broker.registry, mappings_find(&session->mappings, mappings[MANY - 1]));
	run_passes();
	assert_int_equal(broker.counters.notices_sent - before, MANY - STEP - 1);
	notices_read(0);
	for (unsigned i = 0; i < MANY; i++)
		if (mappings_find(&session->mappings, mappings[i]))
			send_closed(other.sock, mappings[i]);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_null(broker.registry->notices);
	broker.counters.mappings_closed += STEP + 1; /* those that did not come by message */
}

static void test_all_may_end_meanwhile(void **state)
{
	uint64_t mappings[MANY];

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	redeem_many("a", mappings);
	say_unlink("a");
	assert_non_null(broker.registry->notices);
	hang_up_dying(&other);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_null(broker.registry->notices);
	run_passes();
	other = join();
}

/* ---- names that many wait for ---- */

static void wait_for(const char *name, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct wire_message message = named(WIRE_ACQUIRE, 100 + i, name);

		message.acquire.timeout_ms = -1;
		say(other.sock, &message);
	}
	EXPECT_SOON(broker.waiting->count == count);
}

/* In the order in which they asked. */
static unsigned grants_read(unsigned from)
{
	struct wire_message message;
	unsigned count = 0;

	while (received_already(other.sock, &message)) {
		if (message.type == WIRE_NOTICE)
			continue;
		assert_int_equal(message.type, WIRE_GRANT);
		assert_int_equal(message.request, 100 + from + count);
		count++;
	}
	return count;
}

static void invariant_5_a_name_wakes_some_in_a_pass(void **state)
{
	uint64_t opened = broker.counters.acquires_answered;

	(void)state;
	wait_for("a", MANY);
	expect_done(&owner, WIRE_CREATE, "a");
	assert_in_range(broker.waiting->count, 1, MANY - STEP);
	for (unsigned most = 2 * STEP; broker.waiting->count; most += STEP) {
		assert_in_range(broker.counters.acquires_answered - opened, STEP, most);
		broker_pass(&broker, false);
	}
	assert_int_equal(grants_read(0), MANY);
	assert_null(broker.waiting->waking);
	assert_null(broker.waiting->names);
}

/* An acquire that was not woken yet waits for the next buffer of that name, as if it had come later. */
static void test_an_acquire_not_woken_before_the_unlink_waits_on(void **state)
{
	struct buffer *buffer;
	unsigned woken;

	(void)state;
	wait_for("a", MANY);
	expect_done(&owner, WIRE_CREATE, "a");
	buffer = registry_find(broker.registry, "a");
	manage_unlink(&broker, buffer);
	woken = MANY - broker.waiting->count;
	assert_in_range(woken, STEP, MANY - 1);
	run_passes();
	assert_int_equal(broker.waiting->count, MANY - woken);
	assert_null(broker.waiting->waking);
	assert_int_equal(grants_read(0), woken);
	expect_done(&owner, WIRE_CREATE, "a");
	EXPECT_SOON(!broker.waiting->count);
	assert_int_equal(grants_read(woken), MANY - woken);
}

static void test_a_waiting_session_may_end_before_it_is_served(void **state)
{
	(void)state;
	wait_for("a", MANY);
	expect_done(&owner, WIRE_CREATE, "a");
	assert_non_null(broker.waiting->waking);
	hang_up_dying(&other);
	EXPECT_SOON(!broker.waiting->count && !broker.waiting->waking);
	other = join();
}

#define ON_BOTH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(invariant_5_an_unlink_notifies_some_in_a_pass),
		ON_BOTH(invariant_5_a_rename_notifies_some_in_a_pass),
		ON_BOTH(invariant_5_everybody_is_told_also_between_renames_without_end),
		ON_BOTH(test_who_came_between_two_renames_is_told_of_the_second),
		ON_BOTH(invariant_5_all_unlinks_of_a_pass_notify_some),
		ON_BOTH(test_what_ends_meanwhile_is_not_notified),
		ON_BOTH(test_all_may_end_meanwhile),
		ON_BOTH(invariant_5_a_name_wakes_some_in_a_pass),
		ON_BOTH(test_an_acquire_not_woken_before_the_unlink_waits_on),
		ON_BOTH(test_a_waiting_session_may_end_before_it_is_served),
	};

	return cmocka_run_group_tests_name("fanout", tests, harness_group_setup, harness_group_teardown);
}
