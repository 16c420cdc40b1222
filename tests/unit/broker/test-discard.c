/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-discard.c - invariant 5: descriptors that the broker never asked for are closed and hold up nobody, whether it
 * has read their message or throws it away, whichever way it lies there.
 *
 * What is sent are TCP sockets whose last close waits. As on a kernel before Linux 6.16, or from somebody who
 * connected before the broker could refuse them: the listener here lets them in. session-harness.h is the world.
 */
#include "session-harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lingering.h"

/* In seconds. Who closes all of them waits for far longer than a busy machine takes for all else here. */
#define STUCK    3
#define LINGER   15
#define TOO_LONG 30

static int far[STUCK];
static time_t began;

/* ---- sockets that linger ---- */

/* A message with one; then whoever reads it or throws it away is the last to close it. */
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

/* Now nothing that is closed waits any more. */
static void release_stuck(void)
{
	for (int i = 0; i < STUCK; i++)
		close(far[i]);
}

static void expect_nobody_waited(void)
{
	assert_true(time(NULL) - began < TOO_LONG);
}

/* False: under valgrind one thread runs at a time, and one that hangs hangs for all. */
static bool threads_run(void)
{
	return !getenv("GPUB_VALGRIND");
}

static struct peer other; /* served throughout */
static int before;

/* False: this kernel refuses them and cannot be told to let them in. */
static bool let_descriptors_in(void)
{
	int on = 1;

	if (broker.discard->needed)
		return true;
	/* accepted sockets take after the listener */
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

/* And in the end the broker keeps none of them. */
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

static void invariant_5_unread_descriptors_of_who_is_cut_off(void **state)
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

/* Behind more messages than are thrown away in a pass: they lie there still when the socket is closed. */
static void invariant_5_unread_descriptors_of_who_hangs_up(void **state)
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

static void invariant_5_unread_descriptors_of_who_is_turned_away(void **state)
{
	int sock;

	(void)state;
	if (!threads_run() || !let_descriptors_in())
		return;
	sock = dial();
	assert_int_equal(hear(sock).type, WIRE_CHALLENGE);
	send_garbage(sock);
	send_stuck(sock);
	EXPECT_SOON(broker.counters.sessions_refused == 1);
	close(sock);
	expect_all_gone();
}

/* Its connection waits to be accepted, and then is none that the broker takes. */
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

/* What nobody sends who means well, and what an end of file looks like. fd: -1, or one that comes with it. */
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

static void expect_cut_off_and_closed(struct peer *sender)
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
	expect_cut_off_and_closed(&sender);
}

/* The empty one cuts it off, and what stands behind that is not heard, but closed all the same. */
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
	expect_cut_off_and_closed(&sender);
}

/* Since Linux 6.16 the kernel refuses them for us; before that, who sends one is cut off, and it is closed aside. */
static void invariant_5_descriptors_that_nobody_wants_are_dropped(void **state)
{
	struct wire_message message = named(WIRE_STAT, 1, "a");
	bool refused = !broker.discard->needed;
	struct peer sender = join();

	(void)state;
	assert_int_equal(socket_send(sender.sock, &message, STDIN_FILENO, 0) != 0, refused);
	if (refused) {
		say(sender.sock, &message);
		assert_int_equal(hear(sender.sock).type, WIRE_REFUSED);
		part(&sender);
		EXPECT_SOON(descriptors() == before);
	} else {
		expect_cut_off_and_closed(&sender);
	}
}

static void invariant_5_a_descriptor_whose_close_hangs_hangs_nobody(void **state)
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

/* ---- who connected before the broker was there ---- */

static struct sockaddr_un name;
static socklen_t name_size;

/* As a service manager makes it, which knows nothing of descriptors and stamps. */
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
	struct wire_message message = hear(sock);

	message = hello_to(&message);
	say(sock, &message);
	assert_int_equal(hear(sock).type, WIRE_WELCOME);
}

static void invariant_5_descriptors_sent_before_the_broker_was_there(void **state)
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
	/* who came as early and means well is welcome */
	greet(early);
	expect_nobody_waited();
	release_stuck();
	close(sender);
	close(early);
	broker_end_at(base, listener);
}

/* Where the kernel refuses them from the beginning, there is no thread for what cannot come. */
static void test_a_thread_only_where_descriptors_can_come(void **state)
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

/* That thread is not waited for; it ends with the process, or when its close does. */
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
		WITH_ANOTHER(invariant_5_unread_descriptors_of_who_is_cut_off),
		WITH_ANOTHER(invariant_5_unread_descriptors_of_who_hangs_up),
		WITH_ANOTHER(invariant_5_unread_descriptors_of_who_is_turned_away),
		WITH_ANOTHER(invariant_5_descriptors_sent_before_the_connection_is_refused),
		WITH_ANOTHER(invariant_5_descriptors_beside_an_empty_message),
		WITH_ANOTHER(invariant_5_descriptors_behind_an_empty_message),
		WITH_ANOTHER(invariant_5_descriptors_that_nobody_wants_are_dropped),
		WITH_ANOTHER(invariant_5_a_descriptor_whose_close_hangs_hangs_nobody),
		cmocka_unit_test(invariant_5_descriptors_sent_before_the_broker_was_there),
		cmocka_unit_test(test_a_thread_only_where_descriptors_can_come),
		cmocka_unit_test(test_a_stop_does_not_wait_for_a_close_that_hangs),
	};

	return cmocka_run_group_tests_name("discard", tests, harness_group_setup, harness_group_teardown);
}
