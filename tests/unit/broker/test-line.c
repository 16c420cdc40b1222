/* SPDX-License-Identifier: Apache-2.0 */
/* test-line.c - the line from a broker to its keeper (keeper/line.h), with both ends in one process. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/keeper/line.h"
#include "broker/owner/packet.h"
#include "common/thread.h"
#include "failing.h"
#include "keeper-harness.h"

static int keepers; /* the keeper's end */

static int setup(void **state)
{
	int pair[2];

	(void)state;
	descriptors_before = harness_descriptors();
	broker_base = event_base_new();
	if (!broker_base || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return 1;
	keepers = pair[0];
	fcntl(keepers, F_SETFL, O_NONBLOCK);
	return line_open(&line, broker_base, pair[1]);
}

static int teardown(void **state)
{
	(void)state;
	line_close(&line);
	line_close(&line); /* once more does nothing */
	close(keepers);
	event_base_free(broker_base);
	return harness_descriptors() != descriptors_before;
}

/* Asserts that the next request is this one, and returns its descriptor. */
static int expect(enum line_kind kind, uint64_t key)
{
	struct line_request request;
	int fd;

	assert_int_equal(line_receive(keepers, &request, &fd), 0);
	assert_int_equal(request.kind, kind);
	assert_int_equal(request.key, key);
	return fd;
}

static void expect_nothing(int error)
{
	struct line_request request;
	int fd;

	assert_int_equal(line_receive(keepers, &request, &fd), error);
}

static void expect_file(int fd, uint64_t key)
{
	assert_true(harness_is(fd, key, 1));
	close(fd);
}

static void test_requests_come_in_order(void **state)
{
	int file = harness_file(5, 1);

	(void)state;
	assert_int_equal(line_say_alive(line.sock), 0);
	assert_int_equal(line_put(&line, 5, file), 0);
	assert_int_equal(line_drop(&line, 5), 0);
	assert_int_equal(line_ready(&line), 0);
	assert_int_equal(line_begin(&line, file), 0);
	assert_int_equal(line_kill(&line), 0);
	close(file);
	assert_int_equal(expect(LINE_ALIVE, 0), -1);
	expect_file(expect(LINE_PUT, 5), 5);
	assert_int_equal(expect(LINE_DROP, 5), -1);
	assert_int_equal(expect(LINE_READY, 0), -1);
	expect_file(expect(LINE_BEGIN, 0), 5);
	assert_int_equal(expect(LINE_KILL, 0), -1);
	expect_nothing(-EAGAIN);
}

static void put(uint64_t key)
{
	int file = harness_file(key, 1);

	assert_int_equal(line_put(&line, key, file), 0);
	close(file);
}

/* Sends `times` as many PUTs as the socket has room for, and one more. Returns their number. */
static uint64_t fill(unsigned times)
{
	uint64_t count = 0;

	while (count < 10000 && !line.queue)
		put(count++);
	for (uint64_t sent = count; count < times * sent;)
		put(count++);
	assert_non_null(line.queue);
	return count;
}

/* Receives the PUTs up to this one, while the loop sends what is queued. */
static void expect_puts(uint64_t count)
{
	for (uint64_t key = 0; key < count; key++) {
		event_base_loop(broker_base, EVLOOP_NONBLOCK);
		expect_file(expect(LINE_PUT, key), key);
	}
}

static void test_what_the_socket_has_no_room_for_is_sent_later(void **state)
{
	uint64_t count = fill(3);

	(void)state;
	assert_int_equal(line_drop(&line, 3), 0);
	expect_puts(count);
	assert_null(line.queue);
	assert_int_equal(expect(LINE_DROP, 3), -1);
	assert_int_equal(event_base_loop(broker_base, EVLOOP_NONBLOCK), 1); /* no event is left */
}

/* A request does not overtake those that are queued, although the socket has room by now. */
static void test_requests_do_not_overtake(void **state)
{
	uint64_t count = fill(1);

	(void)state;
	for (uint64_t key = 0; key < count / 2; key++)
		expect_file(expect(LINE_PUT, key), key);
	assert_int_equal(line_ready(&line), 0);
	for (uint64_t key = count / 2; key < count; key++)
		expect_file(expect(LINE_PUT, key), key);
	assert_int_equal(expect(LINE_READY, 0), -1);
}

static _Atomic uint64_t received;

/* Reads until READY. */
static void *keeper_main(void *context)
{
	struct line_request request = { .kind = LINE_PUT };
	int fd;

	(void)context;
	while (request.kind != LINE_READY)
		if (!line_receive(keepers, &request, &fd) && fd >= 0) {
			received += harness_is(fd, request.key, 1);
			close(fd);
		}
	return NULL;
}

static void test_a_flush_waits_until_all_are_sent(void **state)
{
	uint64_t count = fill(3);
	pthread_t thread;

	(void)state;
	received = 0;
	assert_int_equal(line_ready(&line), 0);
	assert_int_equal(thread_start(&thread, keeper_main, NULL), 0);
	assert_int_equal(line_flush_wait(&line), 0);
	assert_null(line.queue);
	pthread_join(thread, NULL);
	assert_int_equal(received, count);
}

static void test_without_a_keeper_each_request_fails(void **state)
{
	int status;

	(void)state;
	fill(1);
	shutdown(keepers, SHUT_RDWR);
	assert_int_equal(line_ready(&line), -ECONNRESET);
	assert_int_equal(line_flush_wait(&line), -ECONNRESET);
	assert_int_equal(line_owner_ended(&line, &status), -ECONNRESET);
}

static void test_without_memory_a_request_is_not_queued(void **state)
{
	uint64_t count = fill(1);

	(void)state;
	for (unsigned calls = 0; calls < 2; calls++) { /* the entry, and the event */
		int file = harness_file(count, 1);

		fail_after(calls);
		assert_int_equal(line_put(&line, count, file), -ENOMEM);
		assert_true(fail_ended());
		close(file);
	}
	put(count);
}

static void test_how_an_owner_ended_is_told(void **state)
{
	int status = 5;

	(void)state;
	assert_int_equal(line_owner_ended(&line, &status), -EAGAIN);
	assert_int_equal(status, 5);
	assert_int_equal(line_tell(keepers, 9), 0);
	assert_int_equal(line_owner_ended(&line, &status), 0);
	assert_int_equal(status, 9);
	shutdown(line.sock, SHUT_RDWR);
	assert_int_equal(line_tell(keepers, 9), -ECONNRESET);
	expect_nothing(-ECONNRESET);
}

/* Sends a packet that is no request: one that is, with another size, kind, key or descriptor. */
static void send_packet(const struct line_request *request, size_t size, int fd)
{
	assert_int_equal(packet_send(line.sock, request, size, fd, 0), 0);
	expect_nothing(-EPROTO);
	put(1);
	expect_file(expect(LINE_PUT, 1), 1); /* the next one is a request again */
}

static void test_what_is_no_request_is_dropped(void **state)
{
	const struct line_request put_one = { .kind = LINE_PUT, .key = 1 }, drop_one = { .kind = LINE_DROP, .key = 1 };
	const struct line_request long_one[2] = { { .kind = LINE_READY } };
	int file = harness_file(1, 1);

	(void)state;
	send_packet(&put_one, sizeof put_one, -1);
	send_packet(&put_one, 1, file);
	send_packet(&put_one, sizeof put_one - 1, file);
	send_packet(long_one, sizeof long_one, -1);
	send_packet(&drop_one, sizeof drop_one, file);
	send_packet(&(struct line_request){ .kind = LINE_READY }, sizeof put_one, file);
	send_packet(&(struct line_request){ .kind = LINE_READY, .key = 1 }, sizeof put_one, -1);
	send_packet(&(struct line_request){ .kind = LINE_BEGIN }, sizeof put_one, -1);
	send_packet(&(struct line_request){ .kind = LINE_BEGIN, .key = 1 }, sizeof put_one, file);
	send_packet(&(struct line_request){ .kind = LINE_KINDS }, sizeof put_one, -1);
	send_packet(&(struct line_request){ .kind = (uint64_t)1 << 32 }, sizeof put_one, -1);
	close(file);
}

/* A packet has one descriptor at most: none of two others stays open. */
static void test_further_descriptors_are_closed(void **state)
{
	struct line_request request = { .kind = LINE_PUT, .key = 1 };
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = { .header = { .cmsg_len = CMSG_LEN(3 * sizeof(int)),
				  .cmsg_level = SOL_SOCKET,
				  .cmsg_type = SCM_RIGHTS } };
	struct iovec io = { &request, sizeof request };
	struct msghdr msg = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes
	};
	int files[3] = { harness_file(1, 1), harness_file(2, 1), harness_file(3, 1) };

	(void)state;
	memcpy(CMSG_DATA(&control.header), files, sizeof files);
	assert_int_equal(sendmsg(line.sock, &msg, 0), sizeof request);
	for (unsigned i = 0; i < 3; i++)
		close(files[i]);
	expect_file(expect(LINE_PUT, 1), 1);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_requests_come_in_order),
		ON(test_what_the_socket_has_no_room_for_is_sent_later),
		ON(test_requests_do_not_overtake),
		ON(test_a_flush_waits_until_all_are_sent),
		ON(test_without_a_keeper_each_request_fails),
		ON(test_without_memory_a_request_is_not_queued),
		ON(test_how_an_owner_ended_is_told),
		ON(test_what_is_no_request_is_dropped),
		ON(test_further_descriptors_are_closed),
	};

	return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
