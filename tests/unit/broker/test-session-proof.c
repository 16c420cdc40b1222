/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-session-proof.c - invariant 9, its last third: the memory of a process that is dead and hung up is kept until
 * the devices are done with it.
 *
 * host_fail_next(HOST_GONE) sets the host device's answer: EBUSY, it still lists the process; ENOTSUP, nobody can tell.
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "broker/session/session-end.h"
#include "broker/show/read.h"
#include "device/host.h"

#define EVER 1000000

/* "a" is unlinked, and used by a session whose process is dead now. */
static struct session *die_holding(struct peer *victim)
{
	struct session *session = session_of(victim);

	expect_done(victim, WIRE_CREATE, "a");
	acquire(victim, "a");
	expect_done(victim, WIRE_UNLINK, "a");
	hang_up_dying(victim);
	EXPECT_SOON(session->proof.state != PROOF_NONE);
	return session;
}

static void expect_kept(void)
{
	run_passes();
	assert_int_equal(broker.counters.allocations_freed, 0);
	assert_int_equal(broker.counters.mappings_died, 0);
	assert_int_equal(broker.registry->mapping_count, 1);
}

static void expect_freed(void)
{
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	assert_int_equal(broker.counters.mappings_died, 1);
}

/* People see in which of the states it is. */
static void expect_shown(const char *state)
{
	struct shown shown;
	char *text;

	run_pass();
	assert_int_equal(shown_read(&shown, broker.config->instance), 0);
	text = json_dumps(shown.text, 0);
	assert_non_null(strstr(text, state));
	free(text);
	shown_free(&shown);
}

static void invariant_9_memory_waits_until_the_device_is_done(void **state)
{
	struct peer victim = join(), other = join();
	struct session *session;

	(void)state;
	host_fail_next(HOST_GONE, EVER, EBUSY);
	session = die_holding(&victim);
	for (int i = 0; i < 3; i++) {
		expect_kept();
		assert_int_equal(session->proof.state, PROOF_ASKING);
		expect_shown("\"dying\"");
		/* invariant 5: the loop goes on meanwhile */
		expect_served(&other);
	}
	host_fail_next(HOST_GONE, 0, 0);
	expect_freed();
	part(&other);
}

/* It is asked again and again, and its last answer counts. */
static void invariant_9_a_device_that_is_not_done_is_asked_again(void **state)
{
	struct peer victim = join();

	(void)state;
	host_fail_next(HOST_GONE, 3, EBUSY);
	die_holding(&victim);
	expect_freed();
	/* a fourth would have been one too many, were it still due: none is */
	host_fail_next(HOST_GONE, 0, 0);
}

/* The device can tell now. The broker would not ask again, but no session may outlive the test. */
static void ask_again(struct session *session)
{
	session->proof.state = PROOF_NONE;
	session_prove(session);
}

static void invariant_9_memory_is_kept_when_no_device_can_tell(void **state)
{
	struct peer victim = join(), other = join();
	struct session *session;

	(void)state;
	host_fail_next(HOST_GONE, 1, ENOTSUP);
	session = die_holding(&victim);
	EXPECT_SOON(session->proof.state == PROOF_IMPOSSIBLE);
	/* not asked again: the next answer would have been "gone" */
	expect_kept();
	assert_int_equal(session->proof.state, PROOF_IMPOSSIBLE);
	expect_shown("\"unproven\"");
	expect_served(&other);
	/* later calls do nothing */
	session_prove(session);
	assert_int_equal(broker.jobs->pending, 0);
	expect_kept();
	ask_again(session);
	expect_freed();
	part(&other);
}

static void test_a_question_is_asked_once_at_a_time(void **state)
{
	struct peer victim = join();
	struct session *session = session_of(&victim);

	(void)state;
	expect_done(&victim, WIRE_CREATE, "a");
	acquire(&victim, "a");
	host_fail_next(HOST_GONE, EVER, EBUSY);
	hang_up_dying(&victim);
	EXPECT_SOON(session->proof.state == PROOF_ASKING);
	for (int i = 0; i < 100; i++) {
		session_prove(session);
		assert_true(broker.jobs->pending <= 1);
	}
	host_fail_next(HOST_GONE, 0, 0);
	EXPECT_SOON(broker.counters.mappings_died == 1);
}

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

static double now(void)
{
	struct timeval time;

	gettimeofday(&time, NULL);
	return seconds(&time);
}

/*
 * Asks at once, without the pause, and waits until the answer has the next question planned. How long the pause before
 * that is, as two bounds: what the machine did meanwhile makes them lie apart, and neither of them wrong.
 */
static void ask_now(struct session *session, double *at_least, double *at_most)
{
	double asked = now();
	struct timeval due;

	event_active(session->proof.again, EV_TIMEOUT, 0);
	run_pass();
	EXPECT_SOON(!broker.jobs->pending && evtimer_pending(session->proof.again, &due));
	*at_least = seconds(&due) - now();
	*at_most = seconds(&due) - asked;
}

/* Asked about it is, or its memory would never come back; and many such cost the device's thread next to nothing. */
static void invariant_5_questions_become_rare(void **state)
{
	struct peer victim = join();
	struct session *session;
	double at_least, at_most;

	(void)state;
	host_fail_next(HOST_GONE, EVER, EBUSY);
	session = die_holding(&victim);
	EXPECT_SOON(session->proof.again);
	/* those that are about to go are gone within a second, and nobody waits much longer for them than need be */
	for (int question = 0; question < 50; question++) {
		ask_now(session, &at_least, &at_most);
		assert_true(at_least < 0.05);
	}
	for (int question = 0; question < 100; question++) {
		ask_now(session, &at_least, &at_most);
		assert_true(at_least < 5.1);
	}
	for (int question = 0; question < 20; question++) {
		ask_now(session, &at_least, &at_most);
		assert_true(at_most > 4.9 && at_least < 5.1);
	}
	host_fail_next(HOST_GONE, 0, 0);
	event_active(session->proof.again, EV_TIMEOUT, 0);
	expect_freed();
}

/* A process that maps nothing has nothing to be asked about. */
static void test_a_process_without_mappings_is_not_asked_about(void **state)
{
	struct peer victim = join();

	(void)state;
	host_fail_next(HOST_GONE, 1, ENOTSUP);
	hang_up_dying(&victim);
	EXPECT_SOON(!broker.sessions->by_id);
	assert_int_equal(broker.counters.sessions_left, 1);
	host_fail_next(HOST_GONE, 0, 0);
}

/* Orphaned mappings, whose CLOSED was not trusted, wait for the device like open ones. */
static void invariant_9_orphaned_mappings_wait_for_the_device_too(void **state)
{
	struct peer owner = join_as(4001), victim = join_as(4002);
	struct wire_grant grant;

	(void)state;
	create_with_mode(&owner, "a", 0666);
	grant = acquire(&victim, "a");
	send_closed(victim.sock, grant.mapping);
	EXPECT_SOON(broker.counters.mappings_held == 1);
	expect_done(&owner, WIRE_UNLINK, "a");
	host_fail_next(HOST_GONE, EVER, EBUSY);
	hang_up_dying(&victim);
	run_passes();
	assert_int_equal(session_of(&victim)->proof.state, PROOF_ASKING);
	assert_int_equal(broker.counters.allocations_freed, 0);
	host_fail_next(HOST_GONE, 0, 0);
	expect_freed();
	part(&owner);
}

static void acquire_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	acquire(&peer, "a");
	tell();
	linger();
}

static void invariant_9_a_real_death_is_asked_about(void **state)
{
	struct peer owner = join();
	struct child child;

	(void)state;
	expect_done(&owner, WIRE_CREATE, "a");
	host_fail_next(HOST_GONE, EVER, EBUSY);
	child = child_start(acquire_and_live, -1);
	EXPECT_SOON(told(&child));
	expect_done(&owner, WIRE_UNLINK, "a");
	child_kill(&child);
	expect_kept();
	host_fail_next(HOST_GONE, 0, 0);
	expect_freed();
	child_forget(&child);
	part(&owner);
}

/* ---- a device that hangs ---- */

static struct device hanging;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t let_go = PTHREAD_COND_INITIALIZER;
static bool is_hung;
static _Atomic unsigned hung; /* calls that are */

static int zero_or_hang(int ordinal, void *ptr, uint64_t size)
{
	pthread_mutex_lock(&lock);
	hung++;
	while (!ordinal && is_hung)
		pthread_cond_wait(&let_go, &lock);
	hung--;
	pthread_mutex_unlock(&lock);
	return device_host.zero(ordinal, ptr, size);
}

static void set_hung(bool hangs)
{
	pthread_mutex_lock(&lock);
	is_hung = hangs;
	pthread_cond_broadcast(&let_go);
	pthread_mutex_unlock(&lock);
}

static struct wire_message creating_on(unsigned device, const char *name)
{
	struct wire_message create = named(WIRE_CREATE, 77, name);

	create.create.device = device;
	return create;
}

/* Deaths are asked about, and memory of other devices comes back, whatever device 0 does. */
static void invariant_9_a_device_that_hangs_keeps_no_death_from_being_proven(void **state)
{
	struct peer owner = join_as(4001), victim = join_as(4002);
	struct wire_message there = creating_on(1, "there"), stuck = creating_on(0, "stuck");
	struct wire_grant grant;

	(void)state;
	hanging = device_host;
	hanging.zero = zero_or_hang;
	use_device(&hanging);
	assert_int_equal(answer_to(&victim, &there).type, WIRE_DONE);
	grant = acquire(&victim, "there");
	assert_true(grant.owner_device == 1);
	set_hung(true);
	say(owner.sock, &stuck);
	EXPECT_SOON(hung);
	expect_done(&victim, WIRE_UNLINK, "there");
	hang_up_dying(&victim);
	expect_freed();
	assert_true(hung);
	assert_int_equal(used(4002, RESOURCE_BYTES), 0);
	set_hung(false);
	assert_int_equal(receive_message(owner.sock).type, WIRE_DONE);
	part(&owner);
}

static int teardown_unhung(void **state)
{
	set_hung(false); /* where the test failed */
	return harness_teardown(state);
}

/* Evicting the dead changes nothing; the answer still has a descriptor, of which its asker may make what it can. */
static void expect_evicting_changes_nothing(struct peer *peer, struct session *victim)
{
	enum proof_state before = victim->proof.state;
	struct wire_message message;

	wire_init(&message, WIRE_EVICT, 5);
	message.evict.session = victim->id;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
	assert_int_equal(victim->proof.state, before);
	assert_int_equal(broker.counters.sessions_cut, 0);
	expect_kept();
}

static void test_evicted_while_the_device_is_asked(void **state)
{
	struct peer victim = join(), other = join();
	struct session *session;

	(void)state;
	host_fail_next(HOST_GONE, EVER, EBUSY);
	session = die_holding(&victim);
	expect_evicting_changes_nothing(&other, session);
	host_fail_next(HOST_GONE, 0, 0);
	expect_freed();
	part(&other);
}

static void test_evicted_when_nobody_can_tell(void **state)
{
	struct peer victim = join(), other = join();
	struct session *session;

	(void)state;
	host_fail_next(HOST_GONE, 1, ENOTSUP);
	session = die_holding(&victim);
	EXPECT_SOON(session->proof.state == PROOF_IMPOSSIBLE);
	expect_evicting_changes_nothing(&other, session);
	ask_again(session);
	expect_freed();
	part(&other);
}

/* Between two questions, and with a question under way whose answer nobody takes any more. */
static void test_the_broker_ends_while_it_asks(void **state)
{
	struct peer victim = join();
	struct session *session;

	(void)state;
	host_fail_next(HOST_GONE, EVER, EBUSY);
	session = die_holding(&victim);
	EXPECT_SOON(!broker.jobs->pending && evtimer_pending(session->proof.again, NULL));
	broker_end_now();
	host_fail_next(HOST_GONE, 0, 0);
}

static void test_the_broker_ends_with_a_question_under_way(void **state)
{
	struct peer victim = join();
	struct session *session = session_of(&victim);

	(void)state;
	expect_done(&victim, WIRE_CREATE, "a");
	acquire(&victim, "a");
	session->place.dead = session->hung_up = true;
	session_prove(session);
	assert_int_equal(broker.jobs->pending, 1);
	broker_end_now();
	part(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_9_memory_waits_until_the_device_is_done),
		ON(invariant_9_a_device_that_is_not_done_is_asked_again),
		ON(invariant_9_memory_is_kept_when_no_device_can_tell),
		ON(test_a_question_is_asked_once_at_a_time),
		ON(invariant_5_questions_become_rare),
		ON(test_a_process_without_mappings_is_not_asked_about),
		ON(invariant_9_orphaned_mappings_wait_for_the_device_too),
		ON(invariant_9_a_real_death_is_asked_about),
		cmocka_unit_test_setup_teardown(invariant_9_a_device_that_hangs_keeps_no_death_from_being_proven,
						harness_setup, teardown_unhung),
		ON(test_evicted_while_the_device_is_asked),
		ON(test_evicted_when_nobody_can_tell),
		ON(test_the_broker_ends_while_it_asks),
		ON(test_the_broker_ends_with_a_question_under_way),
	};

	harness_device = "host:2";
	return cmocka_run_group_tests_name("proof", tests, harness_group_setup, harness_group_teardown);
}
