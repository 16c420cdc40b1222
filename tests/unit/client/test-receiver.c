/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-receiver.c - what a reader learns from looking for an answer: without one it looks less and less often, and for
 * that question alone. The broker is the other end of a socket pair, which says what the test has it say.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"
#include "client/receiver.h"
#include "common/socket.h"

static struct gpub_client client;
static struct client_guard guard;
static int broker;

static int setup(void **state)
{
	struct timeval patience = { .tv_usec = 2000 };
	int pair[2];

	(void)state;
	memset(&client, 0, sizeof client);
	pthread_mutex_init(&client.lock, NULL);
	pthread_mutex_init(&client.reading, NULL);
	pthread_cond_init(&client.changed, NULL);
	client.guard = &guard;
	atomic_store(&guard.state, CLIENT_OPEN);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	link_init(&client.link);
	owned_fd_take(&client.link.sock, pair[0]);
	broker = pair[1];
	/* the tests' deadlines are all past: no read need be as patient as the library's */
	return receiver_init(&client) || setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

static int teardown(void **state)
{
	(void)state;
	close(broker);
	link_close(&client.link);
	free(client.packet);
	return 0;
}

static bool never(struct gpub_client *asking, void *context)
{
	(void)asking;
	(void)context;
	return false;
}

static bool always(struct gpub_client *asking, void *context)
{
	(void)asking;
	(void)context;
	return true;
}

/* One read: nothing comes, and the deadline is past. */
static void read_in_vain(enum wire_type asked)
{
	struct timespec past = { 0 };

	receiver_read_until(&client, asked, never, NULL, &past);
}

/* One read of an answer that is there, to nobody's question. */
static void read_answer(enum wire_type asked)
{
	struct wire_message message;

	wire_init(&message, WIRE_DONE, 1);
	assert_int_equal(socket_send(broker, &message, -1, 0), 0);
	receiver_read_until(&client, asked, always, NULL, NULL);
}

static void expect(enum wire_type asked, unsigned in_vain, unsigned pause)
{
	assert_int_equal(client.spin[asked].misses, in_vain);
	assert_int_equal(client.spin[asked].pause, pause);
}

static void test_fruitless_polls_become_rarer(void **state)
{
	(void)state;
	expect(WIRE_DRAIN, 0, 0);
	read_in_vain(WIRE_DRAIN);
	expect(WIRE_DRAIN, 1, 2);
	read_in_vain(WIRE_DRAIN);
	read_in_vain(WIRE_DRAIN);
	expect(WIRE_DRAIN, 1, 0); /* these were slept for, and say nothing of looking */
	read_in_vain(WIRE_DRAIN);
	expect(WIRE_DRAIN, 2, 4);
}

static void test_it_is_learned_for_each_question(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		read_in_vain(WIRE_DRAIN);
	expect(WIRE_CREATE, 0, 0);
	expect(WIRE_STAT, 0, 0);
	read_in_vain(WIRE_STAT);
	expect(WIRE_STAT, 1, 2);
	expect(WIRE_DRAIN, 2, 4);
}

static void test_an_answer_that_is_there_at_once_changes_no_interval(void **state)
{
	(void)state;
	read_answer(WIRE_STAT);
	expect(WIRE_STAT, 0, 0);
	read_in_vain(WIRE_STAT);
	read_answer(WIRE_STAT);
	read_answer(WIRE_STAT);
	expect(WIRE_STAT, 1, 0);
	read_answer(WIRE_STAT);
	expect(WIRE_STAT, 1, 0);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_fruitless_polls_become_rarer),
		ON(test_it_is_learned_for_each_question),
		ON(test_an_answer_that_is_there_at_once_changes_no_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
