/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-fair-queue.c - the fair queue: each user has the same share of a pass, no user more requests a second than its
 * quota, and whatever comes later comes whole and in order.
 *
 * Counted in passes and messages: only the rate is a matter of time. session-harness.h is the world.
 */
#include "failing.h"
#include "session-harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FLOODER 4001
#define OTHER   4002
#define SHARE   16 /* messages of a user in a pass: fair-queue.c's */
#define MANY    20 /* sessions of the flooder */

static struct peer flooders[MANY];

static void one_pass(void)
{
	broker_pass(&broker, false);
}

/* For the flooder alone. */
static void set_rate(uint64_t requests)
{
	static struct user_quota user = { .uid = FLOODER };
	struct quotas quotas = { .users = &user, .count = 1 };

	quota_init(&quotas.fallback);
	quota_init(&user.quota);
	user.quota.requests = requests;
	broker_configure(&broker, &quotas, &broker.config->creators);
}

/* What was sent so far is read: the first message from now on is read first. */
static void finish(void)
{
	one_pass();
	one_pass();
}

/* Requests first, first + 1 and so on, until the socket takes no more or there were so many. */
static unsigned send_numbered(const struct peer *peer, uint64_t first, unsigned count)
{
	struct wire_message message;

	for (unsigned i = 0; i < count; i++) {
		message = named(WIRE_STAT, first + i, "no-such-buffer");
		if (socket_send(peer->sock, &message, -1, MSG_DONTWAIT))
			return i;
	}
	return count;
}

/* Takes what answers lie there; the next must be of that number, and so on. Returns the one after the last. */
static uint64_t take_numbered(const struct peer *peer, uint64_t next)
{
	struct wire_message message;

	while (received_already(peer->sock, &message)) {
		assert_int_equal(message.request, next);
		next++;
	}
	return next;
}

/* All that is answered anywhere. */
static uint64_t answered(void)
{
	return broker.counters.refused_no_name;
}

static void flood_begin(void)
{
	for (int i = 0; i < MANY; i++)
		flooders[i] = join_as(FLOODER);
	finish();
	for (int i = 0; i < MANY; i++)
		assert_true(send_numbered(&flooders[i], 1, 200) > 5 * SHARE);
}

static void flood_end(void)
{
	for (int i = 0; i < MANY; i++)
		part(&flooders[i]);
}

/* ---- the share ---- */

static void invariant_5_one_request_is_read_within_one_pass_during_a_flood(void **state)
{
	struct peer other = join_as(OTHER);
	struct wire_message message, question = named(WIRE_STAT, 7, "no-such-buffer");

	(void)state;
	flood_begin();
	for (int pass = 0; pass < 100; pass++) {
		uint64_t before = answered();

		say(other.sock, &question);
		one_pass();
		assert_int_equal(received_already(other.sock, &message), WIRE_REFUSED);
		assert_int_equal(message.request, 7);
		/* and the flood has its own share of that pass: all of it, and no more */
		assert_int_equal(answered() - before, SHARE + 1);
	}
	flood_end();
	part(&other);
}

/* Also when it comes late: others are queued, and its own socket is new. */
static void invariant_5_a_session_that_joins_during_a_flood_is_read(void **state)
{
	struct peer other;

	(void)state;
	flood_begin();
	for (int pass = 0; pass < 5; pass++)
		one_pass();
	other = join_as(OTHER);
	expect_served(&other);
	flood_end();
	part(&other);
}

/* Several users that flood have the same share each. */
static void invariant_5_each_user_has_the_same_share(void **state)
{
	struct peer peers[4];
	uint64_t next[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		peers[i] = join_as(FLOODER + (uid_t)i);
		next[i] = 1;
	}
	for (int i = 0; i < 4; i++)
		assert_int_equal(send_numbered(&peers[i], 1, 100), 100);
	for (int pass = 1; pass <= 5; pass++) {
		one_pass();
		for (int i = 0; i < 4; i++) {
			next[i] = take_numbered(&peers[i], next[i]);
			assert_int_equal(next[i], 1 + pass * SHARE);
		}
	}
	for (int i = 0; i < 4; i++)
		part(&peers[i]);
}

/* Also where each has several sessions queued: the user then keeps its place while they are served. */
static void invariant_5_users_with_many_sessions_have_the_same_share(void **state)
{
	enum { USERS = 3, EACH = 3 };
	struct peer peers[USERS][EACH];

	(void)state;
	for (int i = 0; i < USERS * EACH; i++)
		peers[i / EACH][i % EACH] = join_as(FLOODER + (uid_t)i / EACH);
	finish();
	for (int i = 0; i < USERS * EACH; i++)
		assert_int_equal(send_numbered(&peers[i / EACH][i % EACH], 1, 100), 100);
	for (int pass = 0; pass < 2 * EACH; pass++)
		one_pass();
	for (int i = 0; i < USERS; i++) {
		uint64_t received = 0;

		for (int j = 0; j < EACH; j++)
			received += take_numbered(&peers[i][j], 1) - 1;
		assert_int_equal(received, 2 * EACH * SHARE);
	}
	for (int i = 0; i < USERS * EACH; i++)
		part(&peers[i / EACH][i % EACH]);
}

/*
 * Within a user one session does not keep the others waiting; sessions are read in the order in which they were queued.
 */
static void test_sessions_of_a_user_are_read_round_robin(void **state)
{
	(void)state;
	flood_begin();
	for (int pass = 0; pass < MANY + 1; pass++)
		one_pass();
	assert_int_equal(take_numbered(&flooders[0], 1), 1 + 2 * SHARE);
	for (int i = 1; i < MANY; i++)
		assert_int_equal(take_numbered(&flooders[i], 1), 1 + SHARE);
	flood_end();
}

static void test_nothing_is_lost_or_reordered(void **state)
{
	uint64_t next[MANY];
	unsigned sent[MANY], done = 0;

	(void)state;
	for (int i = 0; i < MANY; i++) {
		flooders[i] = join_as(FLOODER + (uid_t)i % 3);
		next[i] = 1;
		sent[i] = 0;
	}
	for (int pass = 0; pass < 1000 && done < MANY; pass++) {
		done = 0;
		for (int i = 0; i < MANY; i++) {
			sent[i] += send_numbered(&flooders[i], sent[i] + 1, 150 - sent[i]);
			next[i] = take_numbered(&flooders[i], next[i]);
			done += next[i] == 151;
		}
		one_pass();
	}
	assert_int_equal(done, MANY);
	assert_int_equal(answered(), 150 * MANY);
	assert_null(broker.queue->waiting.users);
	flood_end();
}

/* ---- packets ---- */

#define PACKET 16 /* messages: SOCKET_PACKET_MAX */

/*
 * Packets of as many messages as one may have, until the socket takes no more or there were so many. Returns how many.
 */
static unsigned send_packets(const struct peer *peer, unsigned count)
{
	struct wire_message packet[PACKET];

	for (unsigned i = 0; i < PACKET; i++)
		packet[i] = named(WIRE_STAT, i, "no-such-buffer");
	for (unsigned i = 0; i < count; i++)
		if (send(peer->sock, packet, sizeof packet, MSG_DONTWAIT) < 0)
			return i;
	return count;
}

/* A packet is read whole. On average over passes, a user that sends packets is not read more than others. */
static void invariant_5_a_packet_counts_as_its_messages(void **state)
{
	enum { PASSES = 20 };
	struct peer packer = join_as(FLOODER), other = join_as(OTHER);
	struct wire_message message, question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t received = 0;
	unsigned sent = 0;

	(void)state;
	finish();
	for (unsigned pass = 1; pass <= PASSES; pass++) {
		uint64_t before = answered();

		sent += send_packets(&packer, 8);
		say(other.sock, &question);
		one_pass();
		assert_int_equal(received_already(other.sock, &message), WIRE_REFUSED);
		received += answered() - before - 1;
		assert_in_range(received, pass * SHARE, pass * SHARE + PACKET - 1);
	}
	EXPECT_SOON(answered() == sent * PACKET + PASSES);
	part(&packer);
	part(&other);
}

/* ---- the rate ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* At once what a quiet second allows, then so many a second: never more by any moment, and in the end all. */
static void invariant_5_no_more_requests_a_second_than_the_quota(void **state)
{
	enum { RATE = 100, ALL = 160 };
	double begin = now();
	struct peer slow, other = join_as(OTHER);
	struct quotas quotas = { 0 };
	struct wire_message message, question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t next = 1;

	(void)state;
	quota_init(&quotas.fallback);
	quotas.fallback.requests = RATE;
	broker_configure(&broker, &quotas, &broker.config->creators);
	slow = join_as(FLOODER);
	assert_int_equal(send_numbered(&slow, 1, ALL), ALL);
	for (int pass = 0; pass < PATIENCE_MS && next <= ALL; pass++) {
		run_pass();
		next = take_numbered(&slow, next);
		assert_true((double)(next - 1) <= RATE + (now() - begin) * RATE);
	}
	assert_int_equal(next, ALL + 1);
	assert_true(now() - begin >= (double)(ALL - RATE) / RATE);
	/* nobody was refused anything, and the others' rate is their own */
	assert_int_equal(broker.counters.refused_quota, 0);
	assert_int_equal(broker.counters.refused_no_name, ALL);
	say(other.sock, &question);
	one_pass();
	assert_int_equal(received_already(other.sock, &message), WIRE_REFUSED);
	part(&slow);
	part(&other);
}

/* Over all sessions of the user, not each. */
static void invariant_5_sessions_share_their_users_rate(void **state)
{
	enum { RATE = 50 };
	double begin = now();
	uint64_t next[4] = { 1, 1, 1, 1 }, all = 0;

	(void)state;
	set_rate(RATE);
	for (int i = 0; i < 4; i++) {
		flooders[i] = join_as(FLOODER);
		send_numbered(&flooders[i], 1, RATE);
	}
	for (int pass = 0; pass < 300; pass++) {
		run_pass();
		all = 0;
		for (int i = 0; i < 4; i++) {
			next[i] = take_numbered(&flooders[i], next[i]);
			all += next[i] - 1;
		}
		assert_true((double)all <= RATE + (now() - begin) * RATE);
	}
	assert_true(all >= RATE);
	set_rate(QUOTA_NONE);
	for (int i = 0; i < 4; i++)
		part(&flooders[i]);
}

/* Nor by packets: what one has beyond the quota is a debt. */
static void invariant_5_packets_have_no_other_rate(void **state)
{
	enum { RATE = 100, PACKETS = 15 };
	double begin = now();
	struct peer packer;

	(void)state;
	set_rate(RATE);
	packer = join_as(FLOODER);
	assert_int_equal(send_packets(&packer, PACKETS), PACKETS);
	for (int pass = 0; pass < PATIENCE_MS && answered() < PACKETS * PACKET; pass++) {
		run_pass();
		assert_true((double)answered() <= RATE + (now() - begin) * RATE + PACKET);
	}
	assert_int_equal(answered(), PACKETS * PACKET);
	part(&packer);
}

/* A user that leaves and comes back still has its debt. */
static void invariant_5_a_debt_outlives_the_sessions_of_its_user(void **state)
{
	struct peer packer;

	(void)state;
	set_rate(1);
	for (int i = 0; i < 2; i++) {
		packer = join_as(FLOODER);
		assert_int_equal(send_packets(&packer, 1), 1);
		EXPECT_SOON(answered() == PACKET);
		if (!i) {
			session_of(&packer)->place.dead = true; /* its end is noticed at once, then */
			part(&packer);
			EXPECT_SOON(fair_queue_is_empty(broker.queue));
		}
	}
	run_passes();
	assert_int_equal(answered(), PACKET);
	set_rate(QUOTA_NONE);
	EXPECT_SOON(answered() == 2 * PACKET);
	part(&packer);
	EXPECT_SOON(!broker.queue->users);
}

/* The loop sleeps meanwhile, and a timer wakes it when the next message may be read. */
static void test_a_late_one_is_woken(void **state)
{
	struct peer slow;
	struct wire_message message;
	unsigned passes, type = 0;

	(void)state;
	set_rate(1);
	slow = join_as(FLOODER);
	assert_int_equal(send_numbered(&slow, 1, 2), 2);
	one_pass();
	assert_int_equal(take_numbered(&slow, 1), 2);
	one_pass();
	assert_true(session_of(&slow)->place.waits);
	assert_true(evtimer_pending(broker.queue->refill, NULL));
	alarm(60); /* a loop that nobody wakes */
	for (passes = 0; passes < 50 && !type; passes++) {
		broker_pass(&broker, true);
		type = received_already(slow.sock, &message);
	}
	alarm(0);
	assert_int_equal(type, WIRE_REFUSED);
	assert_int_equal(message.request, 2);
	part(&slow);
}

/* Without memory for that timer the loop does not sleep. */
static void test_without_a_timer_the_loop_does_not_sleep(void **state)
{
	struct peer slow;

	(void)state;
	set_rate(1);
	slow = join_as(FLOODER);
	assert_int_equal(send_numbered(&slow, 1, 2), 2);
	finish();
	fair_pass_begin(broker.queue);
	assert_null(fair_pass_next(broker.queue));
	fail_after(0);
	assert_true(fair_pass_end(broker.queue));
	assert_true(fail_ended());
	fair_pass_begin(broker.queue);
	assert_null(fair_pass_next(broker.queue));
	assert_false(fair_pass_end(broker.queue));
	set_rate(QUOTA_NONE);
	finish();
	part(&slow);
}

/* ---- reload ---- */

static void test_a_rate_that_is_lifted_lets_all_through(void **state)
{
	double begin = now();
	struct peer peer;

	(void)state;
	set_rate(1);
	peer = join_as(FLOODER);
	send_numbered(&peer, 1, 60);
	for (int pass = 0; pass < 10; pass++)
		one_pass();
	assert_true((double)answered() <= 1 + (now() - begin));
	assert_non_null(broker.queue->waiting.users);
	set_rate(QUOTA_NONE);
	for (int pass = 0; pass < 5; pass++)
		one_pass();
	assert_int_equal(take_numbered(&peer, 1), 61);
	assert_null(broker.queue->waiting.users);
	part(&peer);
}

static void test_a_rate_that_is_set_holds_from_then_on(void **state)
{
	struct peer peer = join_as(FLOODER);
	double begin;

	(void)state;
	send_numbered(&peer, 1, 100);
	one_pass();
	assert_int_equal(answered(), SHARE);
	begin = now();
	set_rate(3);
	for (int pass = 0; pass < 10; pass++)
		one_pass();
	assert_true((double)answered() <= SHARE + 3 + (now() - begin) * 3);
	set_rate(QUOTA_NONE);
	part(&peer);
}

/* What was read while there was no quota is no debt under the next one. */
static void test_no_debt_is_left_of_a_time_without_a_rate(void **state)
{
	struct peer peer;
	struct wire_message message;
	uint64_t next = 1;

	(void)state;
	set_rate(10);
	peer = join_as(FLOODER);
	set_rate(QUOTA_NONE);
	for (int i = 0; i < 10; i++) {
		send_numbered(&peer, next, 100);
		while (next < (uint64_t)(i + 1) * 100 + 1) {
			one_pass();
			next = take_numbered(&peer, next);
		}
	}
	set_rate(10);
	send_numbered(&peer, 5000, 1);
	EXPECT_SOON(received_already(peer.sock, &message) == WIRE_REFUSED);
	part(&peer);
}

/* A quota of 0: nothing is read and nothing is lost until the quota changes. */
static void test_a_rate_of_nothing_waits_for_another(void **state)
{
	struct peer peer = join_as(FLOODER);

	(void)state;
	set_rate(0);
	send_numbered(&peer, 1, 5);
	run_passes();
	assert_int_equal(answered(), 0);
	set_rate(QUOTA_NONE);
	run_passes();
	assert_int_equal(take_numbered(&peer, 1), 6);
	part(&peer);
}

/* ---- leaving the line ---- */

/* The last session of a user, and with it the user, goes while it is served. */
static void test_a_users_last_session_leaves_while_it_is_served(void **state)
{
	struct peer peer = join_as(FLOODER), other = join_as(OTHER);

	(void)state;
	assert_int_equal(send_numbered(&peer, 1, SHARE + 4), SHARE + 4);
	part(&peer);
	one_pass();
	assert_non_null(broker.queue->waiting.users);
	one_pass();
	assert_int_equal(answered(), SHARE + 4);
	assert_null(broker.queue->waiting.users);
	assert_null(session_find(&broker, peer.session));
	assert_int_equal(HASH_COUNT(broker.queue->users), 1);
	expect_served(&other);
	part(&other);
}

/* One of several: those behind it go on in the same pass. */
static void test_a_session_leaves_in_the_middle_of_the_queue(void **state)
{
	struct peer first = join_as(FLOODER), second = join_as(FLOODER);

	(void)state;
	finish();
	send_numbered(&first, 1, SHARE + 2);
	send_numbered(&second, 1, SHARE);
	part(&first);
	one_pass();
	one_pass();
	assert_null(session_find(&broker, first.session));
	assert_int_equal(answered(), 2 * SHARE - COST_SESSION_END);
	one_pass();
	assert_int_equal(take_numbered(&second, 1), 1 + SHARE);
	assert_null(broker.queue->waiting.users);
	part(&second);
	EXPECT_SOON(!broker.queue->users);
}

static void evict(struct peer *by, const struct peer *victim)
{
	struct wire_message message;

	wire_init(&message, WIRE_EVICT, 5);
	message.evict.session = victim->session;
	assert_int_equal(answer_to(by, &message).type, WIRE_DONE);
}

static void test_a_session_that_is_cut_off_leaves_the_queue(void **state)
{
	struct peer victim, root = join_as(0);
	uint64_t before;

	(void)state;
	set_rate(1);
	victim = join_as(FLOODER);
	send_numbered(&victim, 1, 10);
	one_pass();
	one_pass();
	assert_true(session_of(&victim)->place.waits);
	before = answered();
	evict(&root, &victim);
	set_rate(QUOTA_NONE);
	run_passes();
	assert_false(session_of(&victim)->place.waits);
	assert_null(session_of(&victim)->place.user->queue.items);
	assert_null(broker.queue->waiting.users);
	/* its other messages are not read */
	assert_int_equal(answered(), before);
	expect_served(&root);
	part(&victim);
	EXPECT_SOON(!session_find(&broker, victim.session));
	part(&root);
}

/* Its messages are read, as many as its quota allows, and its end after them. */
static void test_a_session_hangs_up_while_it_is_queued(void **state)
{
	struct peer peer;

	(void)state;
	set_rate(20);
	peer = join_as(FLOODER);
	send_numbered(&peer, 1, 30);
	one_pass();
	one_pass();
	one_pass();
	assert_true(session_of(&peer)->place.waits);
	part(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	assert_int_equal(answered(), 30);
	assert_true(fair_queue_is_empty(broker.queue));
}

static void flood_and_live(int sock)
{
	struct peer peer = join();

	(void)sock;
	tell();
	linger(); /* until it is another user's */
	send_numbered(&peer, 1, 30);
	pause();
}

/*
 * The final messages of a process are read at once, so that its memory can be freed: the rate applies to living
 * processes.
 */
static void invariant_10_a_dead_process_is_in_no_queue(void **state)
{
	struct peer other = join_as(OTHER);
	struct session *session;
	struct child child;

	(void)state;
	set_rate(1);
	child = child_start(flood_and_live, -1);
	EXPECT_SOON(told(&child));
	session = session_find(&broker, broker.sessions->next_id);
	fair_leave(&session->place);
	session->who.uid = FLOODER;
	assert_int_equal(fair_join(broker.queue, &session->place, session->who.uid), 0);
	child_forget(&child);
	EXPECT_SOON(session->place.waits);
	child_kill(&child);
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 1);
	assert_int_equal(answered(), 30);
	expect_served(&other);
	part(&other);
}

static void test_the_broker_ends_with_many_queued(void **state)
{
	(void)state;
	flood_begin();
	one_pass();
	assert_non_null(broker.queue->waiting.users);
	broker_end_now();
	assert_null(broker.queue->users);
	assert_null(broker.queue->waiting.users);
	flood_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_one_request_is_read_within_one_pass_during_a_flood),
		ON(invariant_5_a_session_that_joins_during_a_flood_is_read),
		ON(invariant_5_each_user_has_the_same_share),
		ON(invariant_5_users_with_many_sessions_have_the_same_share),
		ON(test_sessions_of_a_user_are_read_round_robin),
		ON(test_nothing_is_lost_or_reordered),
		ON(invariant_5_a_packet_counts_as_its_messages),
		ON(invariant_5_no_more_requests_a_second_than_the_quota),
		ON(invariant_5_packets_have_no_other_rate),
		ON(invariant_5_a_debt_outlives_the_sessions_of_its_user),
		ON(invariant_5_sessions_share_their_users_rate),
		ON(test_a_late_one_is_woken),
		ON(test_without_a_timer_the_loop_does_not_sleep),
		ON(test_a_rate_that_is_lifted_lets_all_through),
		ON(test_a_rate_that_is_set_holds_from_then_on),
		ON(test_no_debt_is_left_of_a_time_without_a_rate),
		ON(test_a_rate_of_nothing_waits_for_another),
		ON(test_a_users_last_session_leaves_while_it_is_served),
		ON(test_a_session_leaves_in_the_middle_of_the_queue),
		ON(test_a_session_that_is_cut_off_leaves_the_queue),
		ON(test_a_session_hangs_up_while_it_is_queued),
		ON(invariant_10_a_dead_process_is_in_no_queue),
		ON(test_the_broker_ends_with_many_queued),
	};

	return cmocka_run_group_tests_name("fair queue", tests, harness_group_setup, harness_group_teardown);
}
