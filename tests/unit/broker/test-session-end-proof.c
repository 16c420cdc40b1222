/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-end-proof.c - the proof of a death: what the devices are asked and how often, what people are told, and
 * what becomes of the session when there is no answer or no memory to ask.
 *
 * How long memory is kept meanwhile is test-session-proof.c's. Clients are in this process, so a test calls
 * session_on_death() itself. session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "broker/base/events.h"
#include "broker/registry/mappings.h"
#include "broker/session/session-end.h"
#include "device/host.h"
#include "tests/unit/broker/failing.h"

#define SOON 100 /* questions after which a death is told of as slow: session-end.c's */
#define EVER 1000000

/* The pidfd of the session's process is readable. */
static void die(struct session *session)
{
	session_on_death(-1, EV_READ, session);
}

static unsigned ends; /* number of calls of the hook for the end of a session */
static const struct session_hooks *hooks_before;

static unsigned end(struct session *session)
{
	(void)session;
	ends++;
	return 0;
}

/* From now on the end of a session is counted and does nothing. */
static void watch_ends(void)
{
	static struct session_hooks hooks;

	hooks_before = broker.sessions->hooks;
	hooks = *hooks_before;
	hooks.end = end;
	broker.sessions->hooks = &hooks;
	ends = 0;
}

/* "a" is mapped by the session, whose client has hung up. */
static struct session *hold(struct peer *peer)
{
	struct session *session;

	*peer = join();
	session = session_of(peer);
	expect_done(peer, WIRE_CREATE, "a");
	acquire(peer, "a");
	part(peer);
	session_hang_up(session);
	return session;
}

static struct device asked_device;
static _Atomic pid_t asked_pid;
static _Atomic bool asked_mps;
static _Atomic unsigned questions;

static int gone_noted(pid_t pid, bool mps)
{
	asked_pid = pid;
	asked_mps = mps;
	questions++;
	return 0;
}

static void test_the_device_is_asked_about_the_process(void **state)
{
	(void)state;
	asked_device = device_host;
	asked_device.gone = gone_noted;
	use_device(&asked_device);
	questions = 0;
	for (int mps = 0; mps < 2; mps++) {
		struct peer peer;
		struct session *session = hold(&peer);

		session->proof.mps = mps;
		session->pid = 12345 + mps;
		broker.changed = false;
		die(session);
		assert_true(broker.changed);
		assert_int_equal(session->proof.state, PROOF_ASKING);
		assert_in_range(session->proof.since_ms, event_clock() - 5000, event_clock());
		session_prove(session); /* asks once */
		EXPECT_SOON(!broker.sessions->by_id);
		assert_int_equal(questions, mps + 1);
		assert_int_equal(asked_pid, 12345 + mps);
		assert_int_equal(asked_mps, mps);
		peer = join();
		expect_done(&peer, WIRE_UNLINK, "a");
		part(&peer);
		EXPECT_SOON(!broker.sessions->by_id);
	}
}

/* The next question comes now, and not after the pause. */
static void ask_now(struct session *session)
{
	unsigned asked = session->proof.asked;

	event_active(session->proof.again, EV_TIMEOUT, 0);
	EXPECT_SOON(session->proof.asked > asked && evtimer_pending(session->proof.again, NULL));
}

/* The process is dead, and the device lists it until host_fail_next() is told otherwise. */
static void die_slowly(struct session *session)
{
	host_fail_next(HOST_GONE, EVER, EBUSY);
	die(session);
	EXPECT_SOON(!broker.jobs->pending && evtimer_pending(session->proof.again, NULL));
}

/* Asks the device now, which does not list the process any more. */
static void be_gone(struct session *session)
{
	host_fail_next(HOST_GONE, 0, 0);
	event_active(session->proof.again, EV_TIMEOUT, 0);
	EXPECT_SOON(!broker.sessions->by_id);
}

static void test_a_slow_death_is_told_of_once_and_at_its_end(void **state)
{
	struct peer peer;
	struct session *session = hold(&peer);

	(void)state;
	die_slowly(session);
	while (session->proof.asked < SOON)
		ask_now(session);
	assert_int_equal(events_of(EVENT_TEARDOWN), 0);
	assert_int_equal(session->proof.pause_us, 10000);
	ask_now(session);
	assert_int_equal(events_of(EVENT_TEARDOWN), 1);
	assert_int_equal(session->proof.pause_us, 20000);
	ask_now(session);
	assert_int_equal(session->proof.pause_us, 40000);
	for (int i = 0; i < 10; i++)
		ask_now(session);
	assert_int_equal(session->proof.pause_us, 5000000);
	assert_int_equal(events_of(EVENT_TEARDOWN), 1);
	assert_int_equal(event_last(EVENT_TEARDOWN)->actor.session, peer.session);
	session->proof.since_ms -= 60000;
	be_gone(session);
	assert_int_equal(events_of(EVENT_DEATH), 1);
	assert_int_equal(events_of(EVENT_RECLAIMED), 1);
	assert_in_range(event_last(EVENT_RECLAIMED)->detail, 60000, 120000);
}

/* The last question that is still answered soon. */
static void test_a_death_that_was_proven_soon_is_not_told_of_as_slow(void **state)
{
	struct peer peer;
	struct session *session = hold(&peer);

	(void)state;
	die_slowly(session);
	session->proof.asked = SOON;
	be_gone(session);
	assert_int_equal(events_of(EVENT_DEATH), 1);
	assert_int_equal(events_of(EVENT_RECLAIMED), 0);
}

/* All of it ends but the mappings, and people are told why. */
static void expect_unproven(struct session *session, const char *text)
{
	assert_int_equal(session->proof.state, PROOF_IMPOSSIBLE);
	assert_int_equal(ends, 1);
	assert_true(session->ends && session->died);
	assert_int_equal(HASH_COUNT(session->mappings.by_id), 1);
	assert_int_equal(events_of(EVENT_UNPROVEN), 1);
	assert_non_null(strstr(event_last(EVENT_UNPROVEN)->text, text));
	assert_int_equal(event_last(EVENT_UNPROVEN)->actor.session, session->id);
	assert_true(broker.changed);
	die(session);
	run_passes();
	assert_int_equal(session->proof.state, PROOF_IMPOSSIBLE);
	assert_int_equal(broker.counters.mappings_died, 0);
	broker.sessions->hooks = hooks_before;
	/* the device can tell now, or no session could end this test */
	session->proof.state = PROOF_NONE;
	session_prove(session);
	EXPECT_SOON(!broker.sessions->by_id);
}

static void invariant_9_without_an_answer_mappings_stay(void **state)
{
	struct peer peer;
	struct session *session = hold(&peer);

	(void)state;
	watch_ends();
	host_fail_next(HOST_GONE, 1, ENOTSUP);
	die(session);
	EXPECT_SOON(session->proof.state == PROOF_IMPOSSIBLE);
	host_fail_next(HOST_GONE, 0, 0);
	expect_unproven(session, "");
}

/* A question for which there is no memory is asked after the pause. */
static void test_a_question_without_memory_is_asked_later(void **state)
{
	struct peer peer;
	struct session *session = hold(&peer);

	(void)state;
	fail_after(0);
	die(session);
	assert_true(fail_ended());
	assert_int_equal(session->proof.state, PROOF_ASKING);
	assert_int_equal(broker.jobs->pending, 0);
	assert_true(evtimer_pending(session->proof.again, NULL));
	assert_int_equal(session->proof.asked, 0);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(broker.counters.mappings_died, 1);
}

/* After a device's answer that it is not done: the timer is made, or set, without memory. */
static void invariant_9_without_memory_for_a_timer_the_device_is_asked_again(void **state)
{
	struct peer peer;
	struct session *session;

	(void)state;
	for (unsigned calls = 0; calls < 2; calls++) {
		session = hold(&peer);
		host_fail_next(HOST_GONE, 1, EBUSY);
		die(session);
		fail_after(calls);
		EXPECT_SOON(session->proof.at_once);
		assert_true(fail_ended());
		assert_true(session->place.waits);
		assert_true(!session->proof.again || !evtimer_pending(session->proof.again, NULL));
		EXPECT_SOON(!broker.sessions->by_id);
		assert_int_equal(broker.counters.mappings_died, calls + 1);
		peer = join();
		expect_done(&peer, WIRE_UNLINK, "a");
		part(&peer);
		EXPECT_SOON(!broker.sessions->by_id);
	}
	assert_int_equal(events_of(EVENT_UNPROVEN), 0);
}

/* Each pass of the loop ends, whose share of the user's work the tries use up, and none of them is a question. */
static void invariant_5_without_any_memory_the_loop_goes_on(void **state)
{
	struct peer peer;
	struct session *session = hold(&peer);

	(void)state;
	fail_all();
	die(session);
	for (int pass = 0; pass < 50; pass++)
		run_pass();
	assert_true(fail_ended());
	assert_true(session->proof.at_once && session->place.waits);
	assert_int_equal(session->proof.asked, 0);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(broker.counters.mappings_died, 1);
	assert_int_equal(events_of(EVENT_TEARDOWN), 0);
}

/* The session may be freed with the broker's other parts before the thread has answered. */
static void test_an_answer_about_nobody_is_dropped(void **state)
{
	struct peer peer;
	struct session *session = hold(&peer);

	(void)state;
	die(session);
	assert_int_equal(broker.jobs->pending, 1);
	while (session->mappings.by_id)
		mapping_end(broker.registry, session->mappings.by_id);
	broker.counters.mappings_died++;
	session_free(session);
	EXPECT_SOON(!broker.jobs->pending);
	assert_int_equal(broker.counters.sessions_died, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_the_device_is_asked_about_the_process),
		ON(test_a_slow_death_is_told_of_once_and_at_its_end),
		ON(test_a_death_that_was_proven_soon_is_not_told_of_as_slow),
		ON(invariant_9_without_an_answer_mappings_stay),
		ON(test_a_question_without_memory_is_asked_later),
		ON(invariant_9_without_memory_for_a_timer_the_device_is_asked_again),
		ON(invariant_5_without_any_memory_the_loop_goes_on),
		ON(test_an_answer_about_nobody_is_dropped),
	};

	return cmocka_run_group_tests_name("proof of an end", tests, harness_group_setup, harness_group_teardown);
}
