/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-discard.c - invariant 5: descriptors that clients send are closed and delay nobody, whether the broker has read
 * their message or discards it unread.
 *
 * The tests send TCP sockets whose last close waits. The listener lets them in, as on a kernel before Linux 6.16, or as
 * from a client that connected before the broker could refuse them. session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

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
	    discard_start_always(broker.discard))
		return false;
	before = descriptors(); /* with its pipe */
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
	} control = { .header = { .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
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

/*
 * What waits in a disconnected client's socket may be the other end of that socket, which hangs up only when it is
 * received. So it is received also when too many descriptors waited to be closed at first. Nothing more comes then that
 * would wake the loop.
 */
static void invariant_5_descriptors_that_had_to_wait(void **state)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	struct peer sender;
	unsigned enough;

	(void)state;
	if (!let_descriptors_in())
		return;
	enough = broker.discard->enough;
	broker.discard->enough = 0;
	sender = join();
	send_garbage(sender.sock);
	assert_int_equal(socket_send(sender.sock, &message, sender.sock, 0), 0);
	part(&sender);
	EXPECT_SOON(broker.counters.sessions_cut == 1);
	run_passes();
	assert_int_equal(HASH_COUNT(broker.sessions->by_id), 2);
	broker.discard->enough = enough;
	EXPECT_SOON(HASH_COUNT(broker.sessions->by_id) == 1);
	EXPECT_SOON(descriptors() == before);
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
	struct discard discard;
	int listener = passed_listener(), early;
	bool can_refuse = socket_refuse_descriptors(listener);

	(void)state;
	assert_int_equal(discard_start(&discard, listener), 0);
	assert_int_equal(discard.needed, !can_refuse);
	discard_stop(&discard);
	early = dial_passed();
	assert_int_equal(discard_start(&discard, listener), 0);
	assert_true(discard.needed);
	discard_stop(&discard);
	close(early);
	close(listener);
}

/* The thread ends when its close returns, or with the process. */
static void test_a_stop_does_not_wait_for_a_close_that_hangs(void **state)
{
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
	assert_int_equal(discard_start_always(&discard), 0);
	discard_close(&discard, near, STUCK);
	discard_stop(&discard);
	expect_nobody_waited();
	release_stuck();
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
		cmocka_unit_test(invariant_5_descriptors_sent_before_the_broker_started),
		cmocka_unit_test(test_a_thread_only_if_descriptors_can_come),
		cmocka_unit_test(test_a_stop_does_not_wait_for_a_close_that_hangs),
	};

	return cmocka_run_group_tests_name("discard", tests, harness_group_setup, harness_group_teardown);
}
