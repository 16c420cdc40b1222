/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-call.c - a request is sent only to a broker that knows it; its answer is taken once; and a file that is refused
 * with -EAGAIN is asked for again. The broker is the other end of a socket pair, which has answered before it is asked,
 * or a thread.
 */
#include <errno.h>
#include <pthread.h>
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
#include "common/now.h"
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

/* The answer to request number `number` that the client makes. */
static void answer(const struct wire_message *message, unsigned number)
{
	struct wire_message numbered = *message;

	numbered.request = (uint64_t)number << RECORD_NUMBER_BITS;
	assert_int_equal(socket_send(broker, &numbered, -1, 0), 0);
}

/* The second answer to the first request finds no call, or the next one, which has another number. */
static void test_an_answer_that_comes_twice_is_dropped(void **state)
{
	struct wire_message done, refused, reply;

	(void)state;
	wire_init(&done, WIRE_DONE, 0);
	wire_refuse(&refused, 0, -ENOENT, "there is no such buffer");
	answer(&done, 1);
	answer(&done, 1);
	answer(&refused, 1);
	answer(&refused, 2);
	answer(&done, 2);
	answer(&done, 3);
	assert_int_equal(call_named(&client, WIRE_UNLINK, "u", &reply), 0);
	assert_int_equal(call_named(&client, WIRE_UNLINK, "u", &reply), -ENOENT);
	assert_int_equal(call_named(&client, WIRE_UNLINK, "u", &reply), 0);
}

/* ---- an answer that is a file ---- */

static void answer_part(unsigned number, uint32_t offset, const char *text)
{
	struct wire_message part;

	wire_init(&part, WIRE_PART, 0);
	part.part.offset = offset;
	part.part.length = (uint32_t)strlen(text);
	memcpy(part.part.bytes, text, strlen(text));
	answer(&part, number);
}

static void answer_view(unsigned number, uint32_t size)
{
	struct wire_message view;

	wire_init(&view, WIRE_VIEW, 0);
	view.view.size = size;
	answer(&view, number);
}

/* Asks for a file, and expects that it has these bytes. */
static void expect_file(const char *text, size_t size)
{
	struct wire_message request;
	struct wire_view view;
	char bytes[32] = "";
	int file = -1;

	wire_init(&request, WIRE_SNAPSHOT, 0);
	assert_int_equal(call_for_file(&client, &request, &file, &view), 0);
	assert_int_equal(view.size, size);
	assert_int_equal(pread(file, bytes, sizeof bytes, 0), size);
	assert_memory_equal(bytes, text, size);
	close(file);
}

static void test_parts_that_come_twice_are_one_file(void **state)
{
	(void)state;
	answer_part(1, 0, "abc");
	answer_part(1, 0, "abc");
	answer_part(1, 3, "def");
	answer_part(1, 0, "abc");
	answer_part(1, 3, "def");
	answer_view(1, 6);
	answer_part(1, 0, "late");
	answer_view(1, 1);
	answer_part(2, 0, "next");
	answer_view(2, 4);
	expect_file("abcdef", 6);
	expect_file("next", 4);
}

/* A broker sent a part of the file and ended; its successor refuses the request. Nothing of that part stays. */
static void test_a_file_that_is_refused_for_now_is_asked_for_again(void **state)
{
	struct wire_message refused;

	(void)state;
	wire_refuse(&refused, 0, -EAGAIN, "ask again");
	answer_part(1, 0, "the dead broker's");
	answer(&refused, 1);
	answer(&refused, 1);
	answer(&refused, 2);
	answer_part(3, 2, "new");
	answer_view(3, 5);
	expect_file("\0\0new", 5);
}

/* Refuses each request with the error that `argument` points to, until the client hangs up. Counts them there. */
static void *refuse_all(void *argument)
{
	struct wire_message message, refused;
	int *error = argument, requests = 0;

	wire_refuse(&refused, 0, *error, "not now");
	while (recv(broker, &message, sizeof message, 0) == sizeof message) {
		refused.request = message.request;
		if (socket_send(broker, &refused, -1, 0))
			break;
		requests++;
	}
	*error = requests;
	return NULL;
}

/* Asks for a file that each request is refused with `error`, and expects this error. Returns the number of requests. */
static int requests_for_refused(int error, uint64_t *took_ms)
{
	int refusal = error, file = -1;
	uint64_t began = now_ms(CLOCK_MONOTONIC);
	struct wire_message request;
	struct wire_view view;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, refuse_all, &refusal), 0);
	wire_init(&request, WIRE_SNAPSHOT, 0);
	assert_int_equal(call_for_file(&client, &request, &file, &view), error);
	assert_string_equal(error_text(), "not now");
	assert_int_equal(file, -1);
	*took_ms = now_ms(CLOCK_MONOTONIC) - began;
	shutdown(broker, SHUT_RDWR);
	pthread_join(thread, NULL);
	return refusal;
}

static void test_a_file_that_is_refused_for_a_second_is_refused(void **state)
{
	uint64_t took;

	(void)state;
	assert_true(requests_for_refused(-EAGAIN, &took) > 1);
	assert_true(took >= 1000);
}

static void test_a_file_that_is_refused_for_good_is_asked_for_once(void **state)
{
	uint64_t took;

	(void)state;
	assert_int_equal(requests_for_refused(-EACCES, &took), 1);
}

static int interrupt_at_once(void *context)
{
	++*(int *)context;
	return 1;
}

static void test_an_interrupt_ends_the_attempts(void **state)
{
	struct wire_message refused, request;
	struct wire_view view;
	int file = -1, asked = 0;

	(void)state;
	wire_refuse(&refused, 0, -EAGAIN, "ask again");
	answer(&refused, 1);
	answer_view(2, 0);
	gpub_set_interrupt(interrupt_at_once, &asked);
	wire_init(&request, WIRE_SNAPSHOT, 0);
	assert_int_equal(call_for_file(&client, &request, &file, &view), -EINTR);
	gpub_set_interrupt(NULL, NULL);
	assert_int_equal(asked, 1);
	assert_int_equal(file, -1);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_request_that_the_broker_knows_is_sent),
		ON(test_a_request_that_is_newer_than_the_broker_is_refused),
		ON(test_an_answer_that_comes_twice_is_dropped),
		ON(test_parts_that_come_twice_are_one_file),
		ON(test_a_file_that_is_refused_for_now_is_asked_for_again),
		ON(test_a_file_that_is_refused_for_a_second_is_refused),
		ON(test_a_file_that_is_refused_for_good_is_asked_for_once),
		ON(test_an_interrupt_ends_the_attempts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
