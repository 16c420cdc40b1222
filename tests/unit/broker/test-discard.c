/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-discard.c - invariant 5: descriptors that clients send are closed and delay nobody, whether the broker has read
 * their message or discards it unread.
 *
 * The tests send TCP sockets whose last close waits. The listener lets them in, as on a kernel before Linux 6.16, or as
 * from a client that connected before the broker could refuse them. session-harness.h makes the broker and its clients.
 */
#include "failing.h"
#include "owner-thread.h"
#include "session-harness.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lingering.h"

/* In seconds. To close all of them takes far longer than everything else here on a busy machine. */
#define STUCK    3
#define LINGER   15
#define TOO_LONG 30

static int far[STUCK];
static time_t began;

/* ---- sockets that linger ---- */

/* A message with one. Whoever reads or discards the message is the last to close it. */
static void send_lingering(int sock, int *other_end, int seconds)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	int near = lingering_socket(other_end, seconds);

	assert_true(near >= 0);
	assert_int_equal(socket_send(sock, &message, near, 0), 0);
	close(near);
	began = time(NULL);
}

static void send_stuck(int sock)
{
	for (int i = 0; i < STUCK; i++)
		send_lingering(sock, &far[i], LINGER);
}

static void send_garbage(int sock)
{
	struct wire_message bad = named(WIRE_STAT, 1, "a");

	bad.version++;
	say(sock, &bad);
}

/* From now on no close waits. */
static void release_stuck(void)
{
	for (int i = 0; i < STUCK; i++)
		close(far[i]);
}

static void expect_nobody_waited(void)
{
	assert_true(time(NULL) - began < TOO_LONG);
}

/* False: under valgrind one thread runs at a time, so one that hangs stops all. */
static bool threads_run(void)
{
	return !getenv("GPUB_VALGRIND");
}

static struct peer other; /* served throughout */
static int before;

/* False: this kernel refuses them and has no option to let them in. */
static bool let_descriptors_in(void)
{
	int on = 1;

	if (broker.discard->needed)
		return true;
	/* accepted sockets inherit it from the listener */
	if (setsockopt(event_get_fd(broker.connections->listener), SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof on) ||
	    discard_start_always(broker.discard, broker.base, broker.accounting))
		return false;
	before = descriptors(); /* with its own */
	return true;
}

/* ---- sessions ---- */

static int begin(void **state)
{
	int error = harness_setup(state);

	if (error)
		return error;
	other = join();
	before = descriptors();
	return 0;
}

/* In the end the broker has none of them open. */
static void expect_all_gone(void)
{
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 1 && !greeting());
	expect_served(&other);
	expect_nobody_waited();
	release_stuck();
	EXPECT_SOON(descriptors() == before);
}

static int end(void **state)
{
	part(&other);
	return harness_teardown(state);
}

static void invariant_5_unread_descriptors_of_a_disconnected_client(void **state)
{
	struct peer sender;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	sender = join();
	send_garbage(sender.sock);
	send_stuck(sender.sock);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	expect_served(&other);
	expect_nobody_waited();
	part(&sender);
	expect_all_gone();
}

/* Behind more messages than are discarded in a pass: they are still in the socket when it is closed. */
static void invariant_5_unread_descriptors_of_a_client_that_hangs_up(void **state)
{
	struct peer sender;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	sender = join();
	for (int i = 0; i < 40; i++)
		send_garbage(sender.sock);
	send_stuck(sender.sock);
	part(&sender);
	expect_all_gone();
	assert_int_equal(broker.counters.sessions_cut, 1);
}

static void invariant_5_unread_descriptors_of_a_rejected_client(void **state)
{
	int sock;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	sock = dial();
	assert_int_equal(receive_message(sock).type, WIRE_CHALLENGE);
	send_garbage(sock);
	send_stuck(sock);
	EXPECT_SOON(broker.counters.sessions_refused == 1);
	close(sock);
	expect_all_gone();
}

/* The connection waits in the listening socket, and the broker then refuses it. */
static void invariant_5_descriptors_sent_before_the_connection_is_refused(void **state)
{
	struct quotas quotas = { 0 };
	int sock;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_GREETINGS] = 0;
	broker_configure(&broker, &quotas, &broker.config->creators);
	sock = dial();
	send_stuck(sock);
	EXPECT_SOON(broker.counters.sessions_refused == 1);
	close(sock);
	expect_all_gone();
}

/* ---- descriptors that were read ---- */

/*
 * An empty message, which looks like the end of file. No honest client sends one. fd: -1, or a descriptor to send with
 * it.
 */
static void send_empty(int sock, int fd)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(int))];
	} control = { .header = {
			      .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct msghdr msg = { .msg_control = &control, .msg_controllen = sizeof control.bytes };

	memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
	if (fd < 0)
		msg.msg_controllen = 0;
	assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), 0);
}

static void expect_disconnected_and_closed(struct peer *sender)
{
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	part(sender);
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 1);
	expect_served(&other);
	EXPECT_SOON(descriptors() == before);
}

static void invariant_5_descriptors_beside_an_empty_message(void **state)
{
	struct peer sender;

	(void)state;
	if (!let_descriptors_in())
		return;
	sender = join();
	send_empty(sender.sock, STDIN_FILENO);
	expect_disconnected_and_closed(&sender);
}

/* The empty one disconnects the client. The messages behind it are not handled, but their descriptors are closed. */
static void invariant_5_descriptors_behind_an_empty_message(void **state)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	struct peer sender;

	(void)state;
	if (!let_descriptors_in())
		return;
	sender = join();
	send_empty(sender.sock, -1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(socket_send(sender.sock, &message, STDIN_FILENO, 0), 0);
	expect_disconnected_and_closed(&sender);
}

/* Since Linux 6.16 the kernel refuses them. Before that the sender is disconnected, and the thread closes them. */
static void invariant_5_unwanted_descriptors_are_refused_or_closed(void **state)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	bool refused = !broker.discard->needed;
	struct peer sender = join();

	(void)state;
	assert_int_equal(socket_send(sender.sock, &message, STDIN_FILENO, 0) != 0, refused);
	if (refused) {
		say(sender.sock, &message);
		assert_int_equal(receive_message(sender.sock).type, WIRE_REFUSED);
		part(&sender);
		EXPECT_SOON(descriptors() == before);
	} else {
		expect_disconnected_and_closed(&sender);
	}
}

static void invariant_5_a_close_that_hangs_delays_nobody(void **state)
{
	struct peer sender;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	sender = join();
	send_lingering(sender.sock, &far[0], STUCK * LINGER);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	expect_served(&other);
	expect_nobody_waited();
	close(far[0]);
	part(&sender);
}

/* ---- more than one user may have pending ---- */

#define OTHER_USER 4242 /* nobody's uid */
#define MANY       SOCKET_DESCRIPTORS_MAX

/* A message with so many copies of the descriptor. */
static void send_many(int sock, int fd, unsigned count)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(MANY * sizeof(int))];
	} control = {
		.header = { .cmsg_len = CMSG_LEN(count * sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS }
	};
	struct wire_message message = named(WIRE_STAT, 1, "a");
	struct iovec io = { &message, sizeof message };
	struct msghdr msg = { .msg_iov = &io,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = CMSG_SPACE(count * sizeof fd) };

	for (unsigned i = 0; i < count; i++)
		memcpy(CMSG_DATA(&control.header) + i * sizeof fd, &fd, sizeof fd);
	assert_int_equal(sendmsg(sock, &msg, MSG_NOSIGNAL), sizeof message);
}

/* Its user has a close that blocks, until far[0] is closed. */
static struct peer join_stuck(uid_t uid)
{
	struct peer sender = join_as(uid);

	send_lingering(sender.sock, &far[0], LINGER);
	EXPECT_SOON(session_of(&sender)->state == SESSION_DISCONNECTED);
	return sender;
}

static void unstick(struct peer *sender)
{
	close(far[0]);
	part(sender);
	EXPECT_SOON(!broker.discard->pending);
}

/* What a user sends is charged to it, and a thread of another user closes what that one sent meanwhile. */
static void invariant_5_a_close_that_blocks_delays_its_own_user_alone(void **state)
{
	struct peer stuck, next, third;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	stuck = join_stuck(OTHER_USER);
	assert_int_equal(used(OTHER_USER, RESOURCE_DESCRIPTORS), 1); /* its session began as this process's user's */
	next = join_as(OTHER_USER);
	send_many(next.sock, STDIN_FILENO, MANY);
	EXPECT_SOON(session_of(&next)->state == SESSION_DISCONNECTED);
	assert_int_equal(used(OTHER_USER, RESOURCE_DESCRIPTORS), 1 + MANY);
	third = join_as(OTHER_USER + 1);
	send_many(third.sock, STDIN_FILENO, MANY);
	EXPECT_SOON(session_of(&third)->state == SESSION_DISCONNECTED);
	EXPECT_SOON(!used(OTHER_USER + 1, RESOURCE_DESCRIPTORS));
	assert_int_equal(used(OTHER_USER, RESOURCE_DESCRIPTORS), 1 + MANY);
	expect_nobody_waited();
	part(&next);
	part(&third);
	unstick(&stuck);
	EXPECT_SOON(!used(OTHER_USER, RESOURCE_DESCRIPTORS));
	EXPECT_SOON(descriptors() == before);
}

/*
 * A flood of them, of which no more are received than one user may have pending. The rest stay in the sockets, and come
 * later.
 */
static void invariant_5_a_flood_of_descriptors_is_bounded(void **state)
{
	struct peer stuck, sender[8];
	unsigned most = 2 * MANY, sessions = 0;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	broker.discard->most = most;
	stuck = join_stuck(OTHER_USER);
	for (int i = 0; i < 8; i++) {
		sender[i] = join_as(OTHER_USER);
		send_many(sender[i].sock, STDIN_FILENO, MANY);
		EXPECT_SOON(session_of(&sender[i])->state == SESSION_DISCONNECTED);
	}
	run_passes();
	assert_in_range(broker.discard->pending, MANY, most);
	/* with the sessions', and this process's ends of them */
	assert_in_range(descriptors(), before, before + (int)most + 18 + 18);
	expect_served(&other);
	expect_nobody_waited();
	for (int i = 0; i < 8; i++)
		part(&sender[i]);
	sessions = HASH_COUNT(broker.sessions->by_id);
	assert_true(sessions > 2);
	unstick(&stuck);
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 1);
	EXPECT_SOON(descriptors() == before);
}

/* A user without a descriptor left in its quota: its packets are not received while others' wait to be closed. */
static void invariant_5_descriptors_over_the_quota_stay_in_the_socket(void **state)
{
	struct quotas quotas = { 0 };
	struct peer stuck, sender;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_DESCRIPTORS] = 10;
	broker_configure(&broker, &quotas, &broker.config->creators);
	stuck = join_stuck(OTHER_USER);
	sender = join_as(OTHER_USER + 1);
	send_many(sender.sock, STDIN_FILENO, 1);
	EXPECT_SOON(session_of(&sender)->state == SESSION_DISCONNECTED);
	run_passes();
	assert_int_equal(broker.discard->pending, 1);
	expect_served(&other);
	part(&sender);
	unstick(&stuck);
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 1);
	EXPECT_SOON(descriptors() == before);
}

/*
 * What waits in a disconnected client's socket may be the other end of that socket, which hangs up only when it is
 * received. So it is received also when too many descriptors waited to be closed at first. Nothing more comes then that
 * would wake the loop.
 */
static void invariant_5_descriptors_that_had_to_wait(void **state)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	struct peer stuck, sender;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	stuck = join_stuck(OTHER_USER);
	broker.discard->most = 0;
	sender = join();
	send_garbage(sender.sock);
	assert_int_equal(socket_send(sender.sock, &message, sender.sock, 0), 0);
	part(&sender);
	EXPECT_SOON(broker.counters.sessions_cut == 2);
	run_passes();
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 3);
	broker.discard->most = MANY;
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 2);
	unstick(&stuck);
	EXPECT_SOON(descriptors() == before);
}

#define REFUSED 100

/*
 * A refused connection may have descriptors that nobody has charged anybody for. Its close does not wait for them: all
 * are gone while their far ends are still open.
 */
static void invariant_5_refused_connections_keep_no_descriptors(void **state)
{
	struct quotas quotas = { 0 };
	int other_end[REFUSED], sock;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	quota_init(&quotas.fallback);
	quotas.fallback.limit[RESOURCE_GREETINGS] = 0;
	broker_configure(&broker, &quotas, &broker.config->creators);
	for (int i = 0; i < REFUSED; i++) {
		sock = dial();
		send_lingering(sock, &other_end[i], LINGER);
		close(sock);
	}
	EXPECT_SOON(broker.counters.sessions_refused == REFUSED);
	EXPECT_SOON(descriptors() == before + REFUSED);
	expect_nobody_waited();
	for (int i = 0; i < REFUSED; i++)
		close(other_end[i]);
}

/* ---- clients that connected before the broker started ---- */

static struct sockaddr_un name;
static socklen_t name_size;

/* As a service manager makes it, without the options that the broker sets. */
static int passed_listener(void)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	name_size = sizeof name;
	/* the kernel chooses a name */
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name.sun_family), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &name_size), 0);
	assert_int_equal(listen(listener, 10), 0);
	return listener;
}

static int dial_passed(void)
{
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(sock, (struct sockaddr *)&name, name_size), 0);
	return sock;
}

static struct event_base *broker_begin_at(int listener)
{
	struct event_base *base = event_base_new();
	struct broker_config config;

	broker_config_init(&config);
	strcpy(config.device, "host:1");
	config.owner = &owner_thread; /* this process has started the host device before */
	snprintf(config.instance, sizeof config.instance, "unit%d", (int)getpid());
	assert_int_equal(broker_init(&broker, &core, &config, base, listener), 0);
	return base;
}

static void broker_end_at(struct event_base *base, int listener)
{
	EXPECT_SOON(!broker.sessions->by_id);
	broker_deinit(&broker);
	event_base_free(base);
	close(listener);
}

static void greet(int sock)
{
	struct wire_message message = receive_message(sock);

	message = hello_to(&message);
	say(sock, &message);
	assert_int_equal(receive_message(sock).type, WIRE_WELCOME);
}

static void invariant_5_descriptors_sent_before_the_broker_started(void **state)
{
	struct event_base *base;
	int listener, sender, early;

	(void)state;
	if (!threads_run())
		return;
	listener = passed_listener();
	sender = dial_passed();
	early = dial_passed();
	send_garbage(sender);
	send_stuck(sender);
	base = broker_begin_at(listener);
	EXPECT_SOON(broker.counters.sessions_refused == 1);
	/* an honest client that connected as early is welcomed */
	greet(early);
	expect_nobody_waited();
	release_stuck();
	close(sender);
	close(early);
	broker_end_at(base, listener);
}

/* If the kernel refuses descriptors from the beginning, no thread is started. */
static void test_a_thread_only_if_descriptors_can_come(void **state)
{
	struct event_base *base = event_base_new();
	struct accounting accounting = { 0 };
	struct discard discard;
	int listener = passed_listener(), early;
	bool can_refuse = socket_refuse_descriptors(listener);

	(void)state;
	assert_int_equal(discard_start(&discard, base, &accounting, listener), 0);
	assert_int_equal(discard.needed, !can_refuse);
	discard_stop(&discard);
	early = dial_passed();
	assert_int_equal(discard_start(&discard, base, &accounting, listener), 0);
	assert_true(discard.needed);
	discard_stop(&discard);
	event_base_free(base);
	close(early);
	close(listener);
}

/* The thread ends when its close returns, or with the process. */
static void test_a_stop_does_not_wait_for_a_close_that_hangs(void **state)
{
	struct event_base *base = event_base_new();
	struct accounting accounting;
	struct discard discard;
	int near[STUCK];

	(void)state;
	if (!threads_run())
		return;
	for (int i = 0; i < STUCK; i++) {
		near[i] = lingering_socket(&far[i], LINGER);
		assert_true(near[i] >= 0);
	}
	began = time(NULL);
	accounting_init(&accounting);
	assert_int_equal(discard_start_always(&discard, base, &accounting), 0);
	discard_close(&discard, OTHER_USER, near, STUCK);
	discard_stop(&discard);
	expect_nobody_waited();
	assert_int_equal(accounting_used(&accounting, OTHER_USER, RESOURCE_DESCRIPTORS), 0);
	release_stuck();
	event_base_free(base);
}

/* The other end is closed. */
static bool is_closed(int end)
{
	struct pollfd p = { .fd = end, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

static void test_descriptors_for_which_there_was_no_memory_are_closed_later(void **state)
{
	struct event_base *base = event_base_new();
	struct accounting accounting;
	struct discard discard;
	int unread[2], ends[2];
	bool failed = true;

	(void)state;
	accounting_init(&accounting);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, unread), 0);
	assert_int_equal(discard_start_always(&discard, base, &accounting), 0);
	for (unsigned calls = 0; failed; calls++) {
		assert_int_equal(pipe(ends), 0);
		fail_after(calls);
		discard_close(&discard, OTHER_USER, &ends[1], 1);
		failed = fail_ended();
		assert_true(discard_admits(&discard, OTHER_USER, unread[0]));
		assert_int_equal(discard.pending, 1);
		while (discard.pending)
			event_base_loop(base, EVLOOP_ONCE);
		assert_true(is_closed(ends[0]));
		close(ends[0]);
		assert_true(discard_admits(&discard, OTHER_USER, unread[0]));
		assert_non_null(discard.spare);
	}
	discard_stop(&discard);
	close(unread[0]);
	close(unread[1]);
	event_base_free(base);
}

#define WITH_ANOTHER(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_ANOTHER(invariant_5_unread_descriptors_of_a_disconnected_client),
		WITH_ANOTHER(invariant_5_unread_descriptors_of_a_client_that_hangs_up),
		WITH_ANOTHER(invariant_5_unread_descriptors_of_a_rejected_client),
		WITH_ANOTHER(invariant_5_descriptors_sent_before_the_connection_is_refused),
		WITH_ANOTHER(invariant_5_descriptors_beside_an_empty_message),
		WITH_ANOTHER(invariant_5_descriptors_behind_an_empty_message),
		WITH_ANOTHER(invariant_5_unwanted_descriptors_are_refused_or_closed),
		WITH_ANOTHER(invariant_5_descriptors_that_had_to_wait),
		WITH_ANOTHER(invariant_5_a_close_that_hangs_delays_nobody),
		WITH_ANOTHER(invariant_5_a_close_that_blocks_delays_its_own_user_alone),
		WITH_ANOTHER(invariant_5_a_flood_of_descriptors_is_bounded),
		WITH_ANOTHER(invariant_5_descriptors_over_the_quota_stay_in_the_socket),
		WITH_ANOTHER(invariant_5_refused_connections_keep_no_descriptors),
		cmocka_unit_test(invariant_5_descriptors_sent_before_the_broker_started),
		cmocka_unit_test(test_a_thread_only_if_descriptors_can_come),
		cmocka_unit_test(test_a_stop_does_not_wait_for_a_close_that_hangs),
		cmocka_unit_test(test_descriptors_for_which_there_was_no_memory_are_closed_later),
	};

	return cmocka_run_group_tests_name("discard", tests, harness_group_setup, harness_group_teardown);
}
