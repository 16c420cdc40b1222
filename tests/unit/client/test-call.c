/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-call.c - a request is sent only to a broker that knows it. The broker is the other end of a socket pair, which
 * has answered before it is asked.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/call.h"
#include "client/client.h"
#include "client/receiver.h"
#include "common/error.h"
#include "common/socket.h"

static struct gpub_client client;
static struct client_guard guard;
static int broker;

static int setup(void **state)
{
	int pair[2];

	(void)state;
	memset(&client, 0, sizeof client);
	pthread_mutex_init(&client.lock, NULL);
	pthread_mutex_init(&client.reading, NULL);
	pthread_cond_init(&client.changed, NULL);
	client.guard = &guard;
	client.revision = WIRE_REVISION;
	atomic_store(&guard.state, CLIENT_OPEN);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	link_init(&client.link);
	owned_fd_take(&client.link.sock, pair[0]);
	broker = pair[1];
	return receiver_init(&client);
}

static int teardown(void **state)
{
	(void)state;
	close(broker);
	link_close(&client.link);
	free(client.packet);
	return 0;
}

static ssize_t asked(struct wire_message *message)
{
	return recv(broker, message, sizeof *message, MSG_DONTWAIT);
}

static void test_a_request_that_the_broker_knows_is_sent(void **state)
{
	struct wire_message answer, reply;

	(void)state;
	wire_init(&answer, WIRE_DONE, UINT64_C(1) << RECORD_NUMBER_BITS);
	assert_int_equal(socket_send(broker, &answer, -1, 0), 0);
	assert_int_equal(call_named(&client, WIRE_UNLINK, "u", &reply), 0);
	assert_int_equal(asked(&answer), WIRE_SIZE);
	assert_int_equal(answer.type, WIRE_UNLINK);
}

static void test_a_request_that_is_newer_than_the_broker_is_refused(void **state)
{
	struct wire_message message, reply;

	(void)state;
	client.revision = wire_row(WIRE_UNLINK)->since - 1;
	assert_int_equal(call_named(&client, WIRE_UNLINK, "u", &reply), -ENOSYS);
	assert_non_null(strstr(error_text(), "UNLINK"));
	assert_non_null(strstr(error_text(), "upgrade the broker"));
	assert_int_equal(asked(&message), -1);
	assert_null(client.calls);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_request_that_the_broker_knows_is_sent),
		ON(test_a_request_that_is_newer_than_the_broker_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
