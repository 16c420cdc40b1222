/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-send.c - a message reaches the broker, or the connection is shut down: also where the kernel is short of memory
 * for a moment, or for good. The broker is the other end of a socket pair; the kernel's answers and its clock are the
 * test's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/send.h"
#include "common/error.h"
#include "common/socket.h"

#define MANY    20
#define FOREVER 1000000u

static struct gpub_client client;
static int broker;

/* ---- the kernel ---- */

static unsigned shortages; /* so many of the next calls fail for want of memory */
static unsigned single, packed, pauses; /* calls */

static bool is_short(void)
{
	if (!shortages)
		return false;
	shortages--;
	errno = ENOBUFS;
	return true;
}

ssize_t sendmsg(int sock, const struct msghdr *message, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	single++;
	return is_short() ? -1 : real(sock, message, flags);
}

int sendmmsg(int sock, struct mmsghdr *messages, unsigned count, int flags)
{
	static int (*real)(int, struct mmsghdr *, unsigned, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmmsg");
	packed++;
	return is_short() ? -1 : real(sock, messages, count, flags);
}

int usleep(useconds_t us)
{
	assert_true(us > 0);
	pauses++;
	return 0;
}

/* ---- the test's ---- */

static int setup(void **state)
{
	int pair[2];

	(void)state;
	shortages = single = packed = pauses = 0;
	memset(&client, 0, sizeof client);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	link_init(&client.link);
	owned_fd_take(&client.link.sock, pair[0]);
	broker = pair[1];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	link_close(&client.link);
	return close(broker);
}

/* How many messages come in the next packet; 0: the connection is shut down. */
static unsigned received(struct wire_message messages[SOCKET_PACKET_MAX])
{
	ssize_t got = recv(broker, messages, SOCKET_PACKET_MAX * sizeof *messages, MSG_DONTWAIT);

	assert_true(got >= 0 && got % WIRE_SIZE == 0);
	return (unsigned)got / WIRE_SIZE;
}

static void expect_message(enum wire_type type)
{
	struct wire_message messages[SOCKET_PACKET_MAX];

	assert_int_equal(received(messages), 1);
	assert_int_equal(messages[0].type, type);
}

static void expect_shut_down(void)
{
	struct wire_message messages[SOCKET_PACKET_MAX];

	assert_int_equal(received(messages), 0);
}

static struct wire_message stat_of(uint64_t request)
{
	struct wire_message message;

	wire_init(&message, WIRE_STAT, request);
	return message;
}

static void test_a_message_is_sent_once(void **state)
{
	struct wire_message message = stat_of(1);

	(void)state;
	assert_int_equal(call_send(&client, &message), 0);
	assert_true(single == 1 && !pauses);
	expect_message(WIRE_STAT);
}

/* The kernel gets some time between the tries. */
static void test_a_shortage_is_waited_for(void **state)
{
	struct wire_message message = stat_of(1);

	(void)state;
	shortages = 3;
	assert_int_equal(call_send(&client, &message), 0);
	assert_true(single == 4 && pauses == 3);
	expect_message(WIRE_STAT);
}

/* Or somebody would wait without end for the answer to what was never sent. */
static void test_a_shortage_that_stays_ends_the_connection(void **state)
{
	struct wire_message message = stat_of(1);

	(void)state;
	shortages = FOREVER;
	assert_int_equal(call_send(&client, &message), -ECONNRESET);
	assert_true(pauses >= 100 && single == pauses + 1);
	expect_shut_down();
}

static void test_a_broker_that_is_gone_is_not_waited_for(void **state)
{
	struct wire_message message = stat_of(1);

	(void)state;
	shutdown(broker, SHUT_RDWR);
	assert_int_equal(call_send(&client, &message), -ECONNRESET);
	assert_true(single == 1 && !pauses);
}

/* In the middle of the tries: what has the number now is the program's. */
static void test_a_socket_that_the_program_closed_is_left_alone(void **state)
{
	struct wire_message message = stat_of(1);
	int own[2], sock = client.link.sock.fd;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, own), 0);
	shortages = 1;
	assert_int_equal(dup2(own[0], sock), sock);
	assert_int_equal(call_send(&client, &message), -ECONNRESET);
	assert_true(single == 1 && pauses == 1);
	assert_int_equal(recv(own[1], &message, sizeof message, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
	close(own[0]);
	close(own[1]);
	close(sock);
}

static void many_of(struct wire_message messages[MANY])
{
	for (unsigned i = 0; i < MANY; i++)
		messages[i] = stat_of(i + 1);
}

static void expect_all(void)
{
	struct wire_message messages[SOCKET_PACKET_MAX];
	uint64_t next = 1;

	while (next <= MANY) {
		unsigned count = received(messages);

		assert_true(count);
		for (unsigned i = 0; i < count; i++)
			assert_int_equal(messages[i].request, next++);
	}
}

static void test_many_go_in_one_call(void **state)
{
	struct wire_message messages[MANY];

	(void)state;
	many_of(messages);
	assert_int_equal(call_send_many(&client, messages, MANY), 0);
	assert_true(packed == 1 && !single);
	expect_all();
}

/* Each of them once, and in their order. */
static void test_many_beside_a_shortage(void **state)
{
	struct wire_message messages[MANY];

	(void)state;
	many_of(messages);
	shortages = 2; /* of a call for all, and of the first by itself */
	assert_int_equal(call_send_many(&client, messages, MANY), 0);
	assert_true(packed == 2 && single == 2 && pauses == 1);
	expect_all();
}

static void test_many_to_nobody(void **state)
{
	struct wire_message messages[MANY];

	(void)state;
	many_of(messages);
	shutdown(broker, SHUT_RDWR);
	assert_int_equal(call_send_many(&client, messages, MANY), -ECONNRESET);
	assert_true(packed == 1 && single == 1);
}

/* Most of these are part of something whose message must stay. */
static void test_what_is_told_leaves_the_error_message(void **state)
{
	(void)state;
	call_closed(&client, 7);
	expect_message(WIRE_CLOSED);
	call_quiesced(&client, 7, 8);
	expect_message(WIRE_QUIESCED);
	shutdown(broker, SHUT_RDWR);
	error_set(-EBUSY, "the words of before");
	call_closed(&client, 7);
	assert_string_equal(error_text(), "the words of before");
	call_quiesced(&client, 7, 8);
	assert_string_equal(error_text(), "the words of before");
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_message_is_sent_once),
		ON(test_a_shortage_is_waited_for),
		ON(test_a_shortage_that_stays_ends_the_connection),
		ON(test_a_broker_that_is_gone_is_not_waited_for),
		ON(test_a_socket_that_the_program_closed_is_left_alone),
		ON(test_many_go_in_one_call),
		ON(test_many_beside_a_shortage),
		ON(test_many_to_nobody),
		ON(test_what_is_told_leaves_the_error_message),
	};

	return cmocka_run_group_tests_name("sends", tests, NULL, NULL);
}
