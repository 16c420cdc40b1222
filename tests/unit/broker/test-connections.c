/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-connections.c - connecting, greeting and ending take their user's share of a pass and its requests a second,
 * like messages do. A flood of them delays nobody else.
 *
 * The kernel names this process's user for connections; join_as() makes other users. Everything is counted in passes.
 * session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FLOODER 4001
#define OTHER   4002
#define SHARE   16 /* messages of a user in a pass: fair-queue.c's */
#define MANY    40
#define ACCEPTS 4  /* connections in a pass: connections.c's */
#define AHEAD   64 /* connections that wait, where there is one user: connections.c's */

static int socks[2 * AHEAD];

static void one_pass(void)
{
	broker_pass(&broker, false);
}

static void set_rate_of(uid_t uid, uint64_t requests)
{
	static struct user_quota user;
	struct quotas quotas = { .users = &user, .count = 1 };

	user.uid = uid;
	quota_init(&quotas.fallback);
	quota_init(&user.quota);
	user.quota.requests = requests;
	broker_configure(&broker, &quotas, &broker.config->creators);
}

static void dial_many(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		socks[i] = dial();
}

static void hang_up_many(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(socks[i]);
}

/* One pass, in which the other user asks and is answered. */
static void pass_with(const struct peer *other)
{
	struct wire_message message, question = named(WIRE_STAT, 7, "no-such-buffer");

	say(other->sock, &question);
	one_pass();
	assert_int_equal(received_already(other->sock, &message), WIRE_REFUSED);
}

/* After two passes all sockets that can be read wait in the queues: epoll reports a bounded number of them at once. */
static void finish(void)
{
	one_pass();
	one_pass();
}

/* Sessions that were challenged: the costly part of a connection. */
static unsigned begun(void)
{
	return HASH_COUNT(broker.sessions->by_id) - broker.sessions->arrived;
}

/* ---- the share ---- */

static void invariant_5_connections_take_their_users_share(void **state)
{
	struct peer other = join_as(OTHER);
	unsigned passes = 0;

	(void)state;
	dial_many(MANY);
	for (; begun() < MANY + 1; passes++) {
		pass_with(&other);
		assert_true(begun() <= 1 + 1 + passes * SHARE / COST_CONNECTION);
		assert_true(HASH_COUNT(broker.sessions->by_id) <= 1 + (passes + 1) * ACCEPTS);
	}
	assert_int_equal(broker.sessions->arrived, 0);
	hang_up_many(MANY);
	part(&other);
}

static void invariant_5_greetings_take_their_users_share(void **state)
{
	struct wire_message hello[MANY];
	struct peer other = join_as(OTHER);
	uint64_t opened;

	(void)state;
	dial_many(MANY);
	for (int i = 0; i < MANY; i++) {
		hello[i] = receive_message(socks[i]);
		hello[i] = hello_to(&hello[i]);
	}
	for (int i = 0; i < SHARE; i++)
		one_pass();
	for (int i = 0; i < MANY; i++)
		say(socks[i], &hello[i]);
	opened = broker.counters.sessions_opened;
	finish();
	assert_true(broker.counters.sessions_opened - opened <= 2 * SHARE / COST_GREETING);
	for (unsigned passes = 3; broker.counters.sessions_opened < opened + MANY; passes++) {
		pass_with(&other);
		assert_true(broker.counters.sessions_opened - opened <= passes * SHARE / COST_GREETING);
	}
	hang_up_many(MANY);
	part(&other);
}

/* The time limit ends with the greeting, also if the greeting waited for its user's share: a session may be silent. */
static void test_a_greeting_that_waited_leaves_no_time_limit_behind(void **state)
{
	struct wire_message hello[MANY], question = named(WIRE_STAT, 7, "no-such-buffer");
	const struct session *session;

	(void)state;
	dial_many(MANY);
	for (int i = 0; i < MANY; i++) {
		hello[i] = receive_message(socks[i]);
		hello[i] = hello_to(&hello[i]);
	}
	for (int i = 0; i < MANY; i++)
		say(socks[i], &hello[i]);
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(receive_message(socks[i]).type, WIRE_WELCOME);
		say(socks[i], &question);
		assert_int_equal(receive_message(socks[i]).type, WIRE_REFUSED);
	}
	for (session = broker.sessions->by_id; session; session = session->hh.next)
		assert_false(event_pending(session->reading, EV_TIMEOUT, NULL));
	hang_up_many(MANY);
}

static void invariant_5_ends_of_sessions_take_their_users_share(void **state)
{
	struct peer peers[MANY], other = join_as(OTHER);

	(void)state;
	for (int i = 0; i < MANY; i++)
		peers[i] = join_as(FLOODER);
	run_passes();
	for (int i = 0; i < MANY; i++)
		part(&peers[i]);
	finish();
	assert_true(broker.counters.sessions_left <= 1 + 2 * SHARE / COST_SESSION_END);
	for (unsigned passes = 3; broker.counters.sessions_left < MANY; passes++) {
		pass_with(&other);
		assert_true(broker.counters.sessions_left <= 1 + passes * SHARE / COST_SESSION_END);
	}
	part(&other);
}

/* A session may end with thousands of mappings: others are served between them, and all of them end. */
static void invariant_5_mappings_that_end_with_their_process_take_its_users_share(void **state)
{
	enum { GRANTS = 100 };
	struct peer peer = join_as(FLOODER), other = join_as(OTHER);
	char name[16] = "";
	uint64_t before;

	(void)state;
	broker.accounting->quotas.fallback.limit[RESOURCE_BYTES] = QUOTA_NONE;
	for (int i = 0; i < GRANTS; i++) {
		struct wire_message create = named(WIRE_CREATE, 1, name);

		snprintf(create.create.name, sizeof create.create.name, "b%d", i % 50);
		create.create.size = 1;
		create.create.flags = GPUB_DEDICATED;
		if (i < 50)
			assert_int_equal(answer_to(&peer, &create).type, WIRE_DONE);
		strcpy(name, create.create.name);
		acquire(&peer, name);
	}
	hang_up_dying(&peer);
	do {
		before = broker.counters.mappings_died;
		pass_with(&other);
		assert_true(broker.counters.mappings_died - before <= SHARE);
	} while (session_find(&broker, peer.session));
	assert_int_equal(broker.counters.mappings_died, 50);
	assert_int_equal(broker.counters.sessions_died, 1);
	part(&other);
}

enum { MADE = 50 };

/* Small buffers that end with the session that makes them, with so many flags more. */
static void make_ephemerals(struct peer *peer, unsigned flags)
{
	for (int i = 0; i < MADE; i++) {
		struct wire_message create = named(WIRE_CREATE, 1, "");

		snprintf(create.create.name, sizeof create.create.name, "e%d", i);
		create.create.size = 1;
		create.create.flags = GPUB_EPHEMERAL | flags;
		assert_int_equal(answer_to(peer, &create).type, WIRE_DONE);
	}
}

/* Whoever dies may take thousands of buffers along, each with a timeline whose end others wait for. */
static void invariant_5_buffers_that_end_with_their_creator_take_its_users_share(void **state)
{
	struct peer peer = join_as(FLOODER), other = join_as(OTHER);
	unsigned before, passes = 0;

	(void)state;
	make_ephemerals(&peer, GPUB_TIMELINE);
	hang_up_dying(&peer);
	do {
		before = HASH_COUNT(broker.registry->names);
		pass_with(&other);
		assert_true(before - HASH_COUNT(broker.registry->names) <= SHARE);
		passes++;
	} while (session_find(&broker, peer.session));
	assert_true(passes > MADE / SHARE);
	assert_int_equal(HASH_COUNT(broker.registry->names), 0);
	assert_int_equal(broker.counters.timelines_died, MADE);
	part(&other);
}

/* A LEAVE is answered when what it ends has ended. */
static void invariant_5_a_leave_takes_its_users_share(void **state)
{
	struct wire_message leave, left;
	struct peer peer = join_as(FLOODER), other = join_as(OTHER);
	unsigned passes = 0;

	(void)state;
	for (int i = 0; i < 5 * SHARE; i++) {
		struct wire_message wait = named(WIRE_ACQUIRE, 1 + (uint64_t)i, "never");

		wait.acquire.timeout_ms = -1;
		say(peer.sock, &wait);
	}
	EXPECT_SOON(broker.waiting->count == 5 * SHARE);
	wire_init(&leave, WIRE_LEAVE, 1);
	say(peer.sock, &leave);
	while (!received_already(peer.sock, &left)) {
		unsigned before = broker.waiting->count;

		pass_with(&other);
		assert_true(before - broker.waiting->count <= SHARE);
		passes++;
	}
	assert_int_equal(left.type, WIRE_LEFT);
	assert_int_equal(broker.waiting->count, 0);
	assert_true(passes >= 5);
	part(&peer);
	part(&other);
}

/* Thousands of requests may be over at the same moment. */
static void invariant_5_requests_whose_time_is_over_take_their_users_share(void **state)
{
	struct peer peer = join_as(FLOODER), other = join_as(OTHER);
	unsigned before, passes = 0;

	(void)state;
	for (int i = 0; i < 5 * SHARE; i++) {
		struct wire_message wait = named(WIRE_ACQUIRE, 1 + (uint64_t)i, "never");

		wait.acquire.timeout_ms = 300;
		say(peer.sock, &wait);
	}
	EXPECT_SOON(broker.waiting->count == 5 * SHARE);
	usleep(300000); /* the time that passes is what is tested: no pass of the loop runs meanwhile */
	do {
		before = broker.waiting->count;
		pass_with(&other);
		assert_true(before - broker.waiting->count <= SHARE);
		passes++;
	} while (broker.waiting->count);
	assert_true(passes >= 5);
	assert_int_equal(broker.counters.refused_timeout, 5 * SHARE);
	part(&peer);
	part(&other);
}

/* What is over is answered without a token, also if another session of its user waits before it. */
static void test_a_request_whose_time_is_over_waits_for_no_rate(void **state)
{
	struct peer first = join_as(FLOODER), second = join_as(FLOODER);
	struct wire_message wait = named(WIRE_ACQUIRE, 1, "never"), question = named(WIRE_STAT, 2, "no-such-buffer");

	(void)state;
	wait.acquire.timeout_ms = 50;
	say(second.sock, &wait);
	EXPECT_SOON(broker.waiting->count == 1);
	set_rate_of(FLOODER, 0);
	say(first.sock, &question);
	finish();
	say(second.sock, &question);
	finish();
	assert_true(session_of(&first)->place.waits && session_of(&second)->place.waits);
	EXPECT_SOON(!broker.waiting->count);
	assert_int_equal(received_already(second.sock, &wait), WIRE_REFUSED);
	assert_int_equal(wait.request, 1);
	set_rate_of(FLOODER, QUOTA_NONE);
	finish();
	part(&first);
	part(&second);
}

/* It is disconnected and goes on sending: what it sends is discarded in its user's share. */
static void invariant_5_what_a_disconnected_client_sends_takes_its_users_share(void **state)
{
	struct peer peer = join_as(FLOODER), other = join_as(OTHER);
	struct wire_message message = named(WIRE_STAT, 1, "no-such-buffer");

	(void)state;
	assert_int_equal(send(peer.sock, "garbage", 7, 0), 7);
	EXPECT_SOON(session_of(&peer)->state == SESSION_DISCONNECTED);
	run_passes();
	for (int i = 0; i < 5 * SHARE; i++)
		assert_int_equal(socket_send(peer.sock, &message, -1, MSG_DONTWAIT), 0);
	for (int pass = 0; pass < 4; pass++) {
		pass_with(&other);
		assert_true(session_of(&peer)->place.waits);
	}
	/* all of it, and the end behind it */
	EXPECT_SOON(!session_of(&peer)->place.waits);
	part(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	part(&other);
}

/* ---- the rate ---- */

/* Before its user has a token, only the user is looked up. The place in which it waits is charged to the user. */
static void invariant_5_a_connection_waits_for_its_users_rate(void **state)
{
	struct wire_message message;
	struct peer other = join_as(OTHER);
	int one;

	(void)state;
	set_rate_of(geteuid(), 0);
	broker.accounting->quotas.fallback.limit[RESOURCE_GREETINGS] = 3;
	((struct user_quota *)broker.accounting->quotas.users)->quota.limit[RESOURCE_GREETINGS] = 3;
	dial_many(3);
	for (int pass = 0; pass < 5; pass++)
		pass_with(&other);
	assert_int_equal(broker.sessions->arrived, 3);
	assert_int_equal(greeting(), 3);
	/* one too many is refused at once */
	one = dial();
	message = receive_message(one);
	assert_int_equal(message.refused.error, -EDQUOT);
	expect_end(one);
	close(one);
	/* one that hangs up meanwhile takes no token */
	close(socks[0]);
	run_passes();
	assert_int_equal(broker.sessions->arrived, 3);
	set_rate_of(geteuid(), QUOTA_NONE);
	assert_int_equal(receive_message(socks[1]).type, WIRE_CHALLENGE);
	assert_int_equal(receive_message(socks[2]).type, WIRE_CHALLENGE);
	assert_int_equal(greeting(), 2);
	assert_int_equal(broker.counters.sessions_refused, 1);
	close(socks[1]);
	close(socks[2]);
	part(&other);
}

/* The time limit of a greeting does not run while the broker lets it wait. */
static void test_a_greeting_that_waits_for_its_users_rate_is_not_late(void **state)
{
	int sock = dial();
	struct wire_message hello = receive_message(sock);
	const struct session *session = session_find(&broker, broker.sessions->next_id);

	(void)state;
	hello = hello_to(&hello);
	assert_true(event_pending(session->reading, EV_TIMEOUT, NULL));
	set_rate_of(geteuid(), 0);
	say(sock, &hello);
	run_passes();
	assert_true(session->place.waits && session->state == SESSION_GREETING);
	assert_false(event_pending(session->reading, EV_TIMEOUT, NULL));
	set_rate_of(geteuid(), QUOTA_NONE);
	assert_int_equal(receive_message(sock).type, WIRE_WELCOME);
	assert_false(event_pending(session->reading, EV_TIMEOUT, NULL));
	/* libevent would start the timer again at each message */
	hello = named(WIRE_STAT, 7, "no-such-buffer");
	say(sock, &hello);
	assert_int_equal(receive_message(sock).type, WIRE_REFUSED);
	assert_false(event_pending(session->reading, EV_TIMEOUT, NULL));
	/* even if the timer fires, it ends no session that was welcomed */
	event_active((struct event *)session->reading, EV_TIMEOUT, 0);
	run_passes();
	say(sock, &hello);
	assert_int_equal(receive_message(sock).type, WIRE_REFUSED);
	close(sock);
}

/* Others may wait for the memory of a dead process: its user goes into debt for its end, and pays later. */
static void invariant_10_the_end_of_a_dead_process_waits_for_no_rate(void **state)
{
	enum { DEAD = 12 };
	struct peer peers[DEAD], living = join_as(FLOODER);
	struct wire_message question = named(WIRE_STAT, 7, "no-such-buffer");
	uint64_t refused;

	(void)state;
	for (int i = 0; i < DEAD; i++) {
		peers[i] = join_as(FLOODER);
		create_with_mode(&peers[i], (char[]){ 'a' + (char)i, 0 }, 0600);
		acquire(&peers[i], (char[]){ 'a' + (char)i, 0 });
	}
	set_rate_of(FLOODER, 1);
	run_passes();
	for (int i = 0; i < DEAD; i++)
		hang_up_dying(&peers[i]);
	EXPECT_SOON(broker.counters.mappings_died == DEAD);
	assert_int_equal(broker.counters.sessions_died, DEAD);
	/* one for each process, and none for its mapping */
	assert_true(session_of(&living)->place.user->tokens < -DEAD / 2);
	assert_true(session_of(&living)->place.user->tokens > -DEAD - 1);
	refused = broker.counters.refused_no_name;
	say(living.sock, &question);
	run_passes();
	assert_int_equal(broker.counters.refused_no_name, refused);
	set_rate_of(FLOODER, QUOTA_NONE);
	EXPECT_SOON(broker.counters.refused_no_name == refused + 1);
	part(&living);
}

/* ---- the log ---- */

static unsigned lines_of(int file)
{
	char text[4096];
	ssize_t got = pread(file, text, sizeof text, 0);
	unsigned lines = 0;

	for (ssize_t i = 0; i < got; i++)
		lines += text[i] == '\n';
	return lines;
}

/* A few lines, and the rest as a count: test-events.c. */
static void invariant_5_refused_connections_do_not_flood_the_log(void **state)
{
	enum { REFUSED = 15 }; /* fewer lines than the log takes at once */
	int stderr_before = dup(STDERR_FILENO), file = memfd_create("log", MFD_CLOEXEC);

	(void)state;
	assert_true(stderr_before >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
	broker.accounting->quotas.fallback.limit[RESOURCE_GREETINGS] = 0;
	dial_many(REFUSED);
	EXPECT_SOON(broker.counters.sessions_refused == REFUSED);
	assert_int_equal(dup2(stderr_before, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(lines_of(file), event_rows[EVENT_CONNECTION_REFUSED].lines);
	hang_up_many(REFUSED);
	close(stderr_before);
	close(file);
}

/* ---- one user alone ---- */

/* A socket in place of the broker's is not taken while connections wait in the broker's. */
static void replace_socket(void)
{
	char path[64];
	int other;

	snprintf(path, sizeof path, "/tmp/gpub-unit-other.%d", (int)getpid());
	other = socket_listen(path, 0600);
	assert_true(other >= 0);
	assert_int_equal(broker_listen(&broker, other, core.listener), -EAGAIN);
	close(other);
	unlink(path);
}

/* Nobody else waits behind the connections that are too many: they stay in the socket, and none is refused. */
static void test_where_there_is_one_user_connections_wait_in_the_socket(void **state)
{
	(void)state;
	set_rate_of(geteuid(), 0);
	((struct user_quota *)broker.accounting->quotas.users)->quota.limit[RESOURCE_GREETINGS] = AHEAD;
	dial_many(2 * AHEAD);
	for (int pass = 0; pass < AHEAD; pass++)
		one_pass();
	assert_int_equal(broker.sessions->arrived, AHEAD);
	assert_int_equal(broker.counters.sessions_refused, 0);
	replace_socket();
	set_rate_of(geteuid(), QUOTA_NONE);
	for (int i = 0; i < 2 * AHEAD; i++) {
		assert_int_equal(receive_message(socks[i]).type, WIRE_CHALLENGE);
		close(socks[i]);
	}
	assert_int_equal(broker.counters.sessions_refused, 0);
}

/* ---- users that left ---- */

/* Debts are kept, but no join or leave goes through all of them. */
static void invariant_5_debts_of_users_that_left_are_dropped_a_few_at_a_time(void **state)
{
	struct quotas quotas = { 0 };
	struct peer peer;
	unsigned left;

	(void)state;
	quota_init(&quotas.fallback);
	quotas.fallback.requests = 1000000;
	broker_configure(&broker, &quotas, &broker.config->creators);
	for (uid_t uid = 5000; uid < 5000 + MANY; uid++) {
		peer = join_as(uid);
		session_of(&peer)->place.user->tokens = -1e9;
		hang_up_dying(&peer);
		EXPECT_SOON(!broker.sessions->by_id);
	}
	left = HASH_COUNT(broker.queue->users);
	assert_true(left >= MANY);
	quotas.fallback.requests = QUOTA_NONE;
	broker_configure(&broker, &quotas, &broker.config->creators);
	while (left > 2) {
		unsigned before = left;

		peer = join();
		part(&peer);
		EXPECT_SOON(!broker.sessions->by_id);
		left = HASH_COUNT(broker.queue->users);
		assert_in_range(before - left, 1, 8);
	}
}

/* ---- few descriptors ---- */

#define FILLED 4096

/* Takes all of the process's descriptors but so many. Returns how many it took. */
static unsigned take_all_but(unsigned left, int taken[FILLED])
{
	unsigned count = 0;

	while (count < FILLED && (taken[count] = dup(STDERR_FILENO)) >= 0)
		count++;
	assert_in_range(count, left, FILLED - 1);
	for (; left; left--)
		close(taken[--count]);
	return count;
}

/* A connection is accepted when its session can have all of its descriptors, and waits before that: none is refused. */
static void test_a_connection_waits_for_all_of_its_descriptors(void **state)
{
	struct rlimit before, few;
	int taken[FILLED];
	unsigned count;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ (rlim_t)descriptors() + 64, before.rlim_max };
	dial_many(2);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	count = take_all_but(0, taken);
	finish();
	close(taken[--count]);
	EXPECT_SOON(broker.connections->reserved >= 0); /* and there is none for the connection */
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 0);
	close(taken[--count]);
	EXPECT_SOON(begun() == 1);
	while (count)
		close(taken[--count]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	EXPECT_SOON(begun() == 2);
	assert_int_equal(broker.counters.sessions_refused, 0);
	hang_up_many(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(invariant_5_connections_take_their_users_share),
		ON(invariant_5_greetings_take_their_users_share),
		ON(test_a_greeting_that_waited_leaves_no_time_limit_behind),
		ON(invariant_5_ends_of_sessions_take_their_users_share),
		ON(invariant_5_mappings_that_end_with_their_process_take_its_users_share),
		ON(invariant_5_buffers_that_end_with_their_creator_take_its_users_share),
		ON(invariant_5_a_leave_takes_its_users_share),
		ON(invariant_5_requests_whose_time_is_over_take_their_users_share),
		ON(test_a_request_whose_time_is_over_waits_for_no_rate),
		ON(invariant_5_what_a_disconnected_client_sends_takes_its_users_share),
		ON(invariant_5_a_connection_waits_for_its_users_rate),
		ON(test_a_greeting_that_waits_for_its_users_rate_is_not_late),
		ON(invariant_10_the_end_of_a_dead_process_waits_for_no_rate),
		ON(invariant_5_refused_connections_do_not_flood_the_log),
		ON(test_where_there_is_one_user_connections_wait_in_the_socket),
		ON(invariant_5_debts_of_users_that_left_are_dropped_a_few_at_a_time),
		ON(test_a_connection_waits_for_all_of_its_descriptors),
	};

	return cmocka_run_group_tests_name("connections", tests, harness_group_setup, harness_group_teardown);
}
