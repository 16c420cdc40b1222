/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-wire.c - messages on the socket: every malformed one is refused, descriptors come only where they are wanted.
 *
 * Uses real socket pairs in one process, and counts its descriptors: none may be left over.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/socket.h"

/* ---- wire_check ---- */

static struct wire_message make(enum wire_type type)
{
	struct wire_message message;

	wire_init(&message, type, 7);
	if (type == WIRE_REFUSED)
		message.refused.error = -EIO;
	return message;
}

static void test_each_type_is_accepted(void **state)
{
	(void)state;
	for (unsigned type = WIRE_CHALLENGE; type < WIRE_TYPES; type++) {
		struct wire_message message = make((enum wire_type)type);

		assert_int_equal(wire_check(&message, WIRE_SIZE), 0);
		assert_string_not_equal(wire_row(type)->name, "?");
	}
	assert_string_equal(wire_row(0)->name, "?");
	assert_string_equal(wire_row(WIRE_TYPES)->name, "?");
	assert_string_equal(wire_row(0xffff)->name, "?");
}

/* A message that asks for something has an answer that the broker sends; the broker's messages ask for nothing. */
static void test_rows_fit_each_other(void **state)
{
	(void)state;
	for (unsigned type = 1; type < WIRE_TYPES; type++) {
		const struct wire_row *row = wire_row(type);

		assert_int_not_equal(row->sender, WIRE_NOBODY);
		assert_true(row->names * NAME_SIZE <= row->size && row->size <= WIRE_SIZE - 16);
		if (row->sender == WIRE_BROKER)
			assert_int_equal(row->answer, WIRE_NONE);
		else if (row->answer != WIRE_NONE)
			assert_int_equal(wire_row(row->answer)->sender, WIRE_BROKER);
	}
	assert_int_equal(wire_row(WIRE_NONE)->sender, WIRE_NOBODY);
	assert_int_equal(wire_row(WIRE_TYPES)->sender, WIRE_NOBODY);
}

static void test_other_lengths_are_refused(void **state)
{
	struct wire_message message = make(WIRE_DONE);

	(void)state;
	for (size_t length = 0; length < 2 * WIRE_SIZE; length++)
		assert_int_equal(wire_check(&message, length), length == WIRE_SIZE ? 0 : -EPROTO);
}

static void test_each_bit_of_magic_and_version_counts(void **state)
{
	struct wire_message message;

	(void)state;
	for (int bit = 0; bit < 32; bit++) {
		message = make(WIRE_DONE);
		message.magic ^= 1u << bit;
		assert_int_equal(wire_check(&message, WIRE_SIZE), -EPROTO);
	}
	for (int bit = 0; bit < 16; bit++) {
		message = make(WIRE_DONE);
		message.version ^= (uint16_t)(1u << bit);
		assert_int_equal(wire_check(&message, WIRE_SIZE), -EPROTO);
		assert_non_null(strstr(error_text(), "version"));
	}
}

static void expect_agreed(uint32_t oldest, uint32_t newest, int revision, const char *advice)
{
	const struct wire_hello hello = { .oldest = oldest, .newest = newest };

	(void)error_set(-EPROTO, "%s", "");
	assert_int_equal(wire_agree(&hello, "broker", "library"), revision);
	assert_non_null(strstr(error_text(), advice));
}

static void test_peers_agree_on_the_highest_common_revision(void **state)
{
	struct wire_hello hello = { .flags = 5 };

	(void)state;
	wire_hello_fill(&hello);
	assert_int_equal(hello.flags, 5);
	expect_agreed(hello.oldest, hello.newest, WIRE_REVISION, "");
	expect_agreed(0, WIRE_REVISION, WIRE_REVISION, "");
	expect_agreed(1, UINT32_MAX, WIRE_REVISION, "");
	expect_agreed(WIRE_REVISION_OLDEST, WIRE_REVISION_OLDEST, WIRE_REVISION_OLDEST, "");
	expect_agreed(0, WIRE_REVISION_OLDEST - 1, -EPROTO, "upgrade the broker");
	expect_agreed(WIRE_REVISION + 1, WIRE_REVISION + 2, -EPROTO, "upgrade the library");
	expect_agreed(2, 1, -EPROTO, "revisions 2 to 1");
	expect_agreed(UINT32_MAX, 0, -EPROTO, "upgrade");
}

static void test_every_message_has_a_revision(void **state)
{
	(void)state;
	for (unsigned type = WIRE_CHALLENGE; type < WIRE_TYPES; type++)
		assert_in_range(wire_row(type)->since, 1, WIRE_REVISION);
}

static void test_unknown_types_are_refused(void **state)
{
	struct wire_message message = make(WIRE_DONE);

	(void)state;
	for (unsigned type = 0; type <= 0xffff; type++) {
		message.type = (uint16_t)type;
		if (type >= WIRE_CHALLENGE && type < WIRE_TYPES)
			continue;
		assert_int_equal(wire_check(&message, WIRE_SIZE), -EPROTO);
		assert_non_null(strstr(error_text(), "does not have"));
	}
}

/* A text of that type's must end in its array: with the last byte taken it does not. */
static void expect_text_must_end(enum wire_type type, char *text, size_t size, struct wire_message *message)
{
	*message = make(type);
	memset(text, 'x', size);
	assert_int_equal(wire_check(message, WIRE_SIZE), -EPROTO);
	text[size - 1] = 0;
	assert_int_equal(wire_check(message, WIRE_SIZE), 0);
}

static void test_texts_without_end_are_refused(void **state)
{
	struct wire_message m;

	(void)state;
	for (unsigned type = 1; type < WIRE_TYPES; type++)
		for (unsigned i = 0; i < wire_row(type)->names; i++)
			expect_text_must_end(type, (char *)m.bytes + i * NAME_SIZE, NAME_SIZE, &m);
	expect_text_must_end(WIRE_RENAME, m.rename.to, sizeof m.rename.to, &m);
	expect_text_must_end(WIRE_ISSUE, m.issue.name, sizeof m.issue.name, &m);
	expect_text_must_end(WIRE_REFUSED, m.refused.text, sizeof m.refused.text, &m);
}

/* A refusal that says 0 would be taken for success. */
static void test_refusal_without_errno_is_refused(void **state)
{
	struct wire_message message = make(WIRE_REFUSED);

	(void)state;
	message.refused.error = 0;
	assert_int_equal(wire_check(&message, WIRE_SIZE), -EPROTO);
	message.refused.error = EIO;
	assert_int_equal(wire_check(&message, WIRE_SIZE), -EPROTO);
}

static void test_refuse_fills_and_cuts(void **state)
{
	struct wire_message message;
	char text[WIRE_TEXT_SIZE + 100];

	(void)state;
	wire_refuse(&message, 9, -ENOENT, "why");
	assert_int_equal(wire_check(&message, WIRE_SIZE), 0);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.request, 9);
	assert_int_equal(message.refused.error, -ENOENT);
	assert_string_equal(message.refused.text, "why");
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = 0;
	wire_refuse(&message, 9, -ENOENT, text);
	assert_int_equal(wire_check(&message, WIRE_SIZE), 0);
	assert_int_equal(strlen(message.refused.text), WIRE_TEXT_SIZE - 1);
}

/* ---- sockets ---- */

static int pair[2];
static int descriptors_before;

static int descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int pair_open(void **state)
{
	(void)state;
	descriptors_before = descriptors();
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
}

/* Fails the test that left a descriptor behind. */
static int pair_close(void **state)
{
	(void)state;
	close(pair[0]);
	close(pair[1]);
	return descriptors() != descriptors_before;
}

/* What socket_send() never sends: any length, several descriptors. */
static void send_raw(const void *bytes, size_t length, const int *fds, size_t count)
{
	union {
		struct cmsghdr header;
		char           space[CMSG_SPACE(8 * sizeof(int))];
	} control = { 0 };
	struct iovec  io = { .iov_base = (void *)bytes, .iov_len = length };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1 };

	if (count) {
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(count * sizeof *fds);
		control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof *fds),
						   .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof *fds);
	}
	assert_int_equal(sendmsg(pair[0], &msg, MSG_NOSIGNAL), length);
}

static int receive(struct wire_message *message, struct socket_extra *extra, bool want_fd)
{
	return socket_receive(pair[1], message, extra, want_fd, MSG_DONTWAIT);
}

static void test_message_arrives_whole(void **state)
{
	struct wire_message sent = make(WIRE_GRANT), got;
	struct socket_extra extra;

	(void)state;
	memset(sent.bytes, 0xa5, sizeof sent.bytes);
	assert_int_equal(receive(&got, &extra, true), -EAGAIN);
	assert_int_equal(socket_send(pair[0], &sent, -1, MSG_DONTWAIT), 0);
	assert_int_equal(receive(&got, &extra, true), 0);
	assert_memory_equal(&got, &sent, sizeof sent);
	assert_int_equal(extra.fd, -1);
	assert_false(extra.has_sender);
}

static void test_wanted_descriptor_comes_close_on_exec(void **state)
{
	struct wire_message sent = make(WIRE_WELCOME), got;
	struct socket_extra extra;
	struct stat first, second;
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_int_equal(socket_send(pair[0], &sent, fd, 0), 0);
	assert_int_equal(receive(&got, &extra, true), 0);
	assert_true(extra.fd >= 0);
	assert_int_equal(fcntl(extra.fd, F_GETFD), FD_CLOEXEC);
	assert_false(fstat(fd, &first) || fstat(extra.fd, &second));
	assert_true(first.st_rdev == second.st_rdev);
	close(extra.fd);
	close(fd);
}

static void close_unwanted(const struct socket_extra *extra)
{
	for (unsigned i = 0; i < extra->unwanted_count; i++)
		close(extra->unwanted[i]);
}

/* However many were sent, and whether the kernel stamps messages or not: pair_close() counts. */
static void expect_dropped(bool want_fd, size_t count)
{
	struct wire_message sent = make(WIRE_STAT), got;
	struct socket_extra extra;
	int fds[8];

	for (size_t i = 0; i < count; i++)
		fds[i] = STDIN_FILENO;
	send_raw(&sent, sizeof sent, fds, count);
	assert_int_equal(receive(&got, &extra, want_fd), 0);
	if (want_fd)
		assert_true(extra.fd >= 0);
	else
		assert_int_equal(extra.fd, -1);
	assert_int_equal(extra.unwanted_count, want_fd ? 0 : count);
	if (extra.fd >= 0)
		close(extra.fd);
	close_unwanted(&extra);
	assert_int_equal(descriptors(), descriptors_before + 2);
}

static void invariant_5_unwanted_descriptors_are_dropped(void **state)
{
	int on = 1;

	(void)state;
	for (size_t count = 1; count <= 8; count++) {
		expect_dropped(false, count);
		expect_dropped(true, count);
	}
	assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
	for (size_t count = 1; count <= 8; count++)
		expect_dropped(false, count);
}

static void test_sender_is_stamped(void **state)
{
	struct wire_message sent = make(WIRE_HELLO), got;
	struct socket_extra extra;
	int on = 1;

	(void)state;
	assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
	assert_int_equal(socket_send(pair[0], &sent, -1, 0), 0);
	assert_int_equal(receive(&got, &extra, false), 0);
	assert_true(extra.has_sender);
	assert_int_equal(extra.sender.pid, getpid());
	assert_int_equal(extra.sender.uid, getuid());
	/* also beside descriptors that are thrown away */
	send_raw(&sent, sizeof sent, (int[]){ 0, 1, 2 }, 3);
	assert_int_equal(receive(&got, &extra, false), 0);
	assert_true(extra.has_sender);
	close_unwanted(&extra);
}

/* Shorter and longer messages, and the descriptor that came with a malformed one. */
static void test_malformed_messages_leave_nothing(void **state)
{
	struct wire_message bad = make(WIRE_DONE), got;
	struct socket_extra extra;
	char longer[WIRE_SIZE + 1] = { 0 };
	int fd = STDIN_FILENO;

	(void)state;
	send_raw(&bad, WIRE_SIZE - 1, &fd, 1);
	assert_int_equal(receive(&got, &extra, true), -EPROTO);
	assert_int_equal(extra.fd, -1);
	memcpy(longer, &bad, sizeof bad);
	send_raw(longer, sizeof longer, &fd, 1);
	assert_int_equal(receive(&got, &extra, true), -EPROTO);
	assert_int_equal(extra.fd, -1);
	bad.magic = 0;
	send_raw(&bad, sizeof bad, &fd, 1);
	assert_int_equal(receive(&got, &extra, true), -EPROTO);
	assert_int_equal(extra.fd, -1);
	/* the next message is read as if nothing had been */
	bad = make(WIRE_DONE);
	send_raw(&bad, sizeof bad, NULL, 0);
	assert_int_equal(receive(&got, &extra, true), 0);
}

static void test_empty_message_and_end_of_file(void **state)
{
	struct wire_message message = make(WIRE_DONE), got;
	struct socket_extra extra;

	(void)state;
	send_raw("", 0, NULL, 0);
	assert_int_equal(receive(&got, &extra, false), -ECONNRESET);
	assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
	assert_int_equal(receive(&got, &extra, false), -ECONNRESET);
	assert_int_equal(shutdown(pair[0], SHUT_RD), 0);
	assert_int_equal(socket_send(pair[1], &message, -1, 0), -ECONNRESET);
}

static void test_full_queue_does_not_block(void **state)
{
	struct wire_message message = make(WIRE_NOTICE);
	int error = 0, sent;

	(void)state;
	for (sent = 0; sent < 1000000 && !error; sent++)
		error = socket_send(pair[0], &message, -1, MSG_DONTWAIT);
	assert_int_equal(error, -EAGAIN);
	assert_true(sent > 1);
}

static void test_no_room_for_a_descriptor(void **state)
{
	struct wire_message message = make(WIRE_GRANT), got;
	struct socket_extra extra;
	struct rlimit old, none;

	(void)state;
	assert_int_equal(socket_send(pair[0], &message, STDIN_FILENO, 0), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(receive(&got, &extra, true), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(extra.fd, -EMFILE);
	assert_memory_equal(&got, &message, sizeof got);
}

/* ---- addresses ---- */

static void test_addresses(void **state)
{
	struct sockaddr_un sun;
	char address[5 + sizeof sun.sun_path + 1] = "unix:";

	(void)state;
	assert_int_equal(socket_address("unix:/run/x", &sun), 0);
	assert_string_equal(sun.sun_path, "/run/x");
	assert_int_equal(socket_address("unix:", &sun), -EINVAL);
	assert_int_equal(socket_address("/run/x", &sun), -EINVAL);
	assert_int_equal(socket_address("", &sun), -EINVAL);
	memset(address + 5, 'x', sizeof sun.sun_path - 1);
	assert_int_equal(socket_address(address, &sun), 0);
	address[5 + sizeof sun.sun_path - 1] = 'x';
	assert_int_equal(socket_address(address, &sun), -EINVAL);
}

static void test_connect_says_who_is_missing(void **state)
{
	struct sockaddr_un sun;

	(void)state;
	assert_int_equal(socket_address("unix:/nonexistent/broker", &sun), 0);
	assert_int_equal(socket_connect(&sun), -ENOENT);
	assert_non_null(strstr(error_text(), "/nonexistent/broker"));
}

#define ON_PAIR(name) cmocka_unit_test_setup_teardown(name, pair_open, pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_type_is_accepted),
		cmocka_unit_test(test_other_lengths_are_refused),
		cmocka_unit_test(test_each_bit_of_magic_and_version_counts),
		cmocka_unit_test(test_peers_agree_on_the_highest_common_revision),
		cmocka_unit_test(test_every_message_has_a_revision),
		cmocka_unit_test(test_unknown_types_are_refused),
		cmocka_unit_test(test_texts_without_end_are_refused),
		cmocka_unit_test(test_rows_fit_each_other),
		cmocka_unit_test(test_refusal_without_errno_is_refused),
		cmocka_unit_test(test_refuse_fills_and_cuts),
		ON_PAIR(test_message_arrives_whole),
		ON_PAIR(test_wanted_descriptor_comes_close_on_exec),
		ON_PAIR(invariant_5_unwanted_descriptors_are_dropped),
		ON_PAIR(test_sender_is_stamped),
		ON_PAIR(test_malformed_messages_leave_nothing),
		ON_PAIR(test_empty_message_and_end_of_file),
		ON_PAIR(test_full_queue_does_not_block),
		ON_PAIR(test_no_room_for_a_descriptor),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_connect_says_who_is_missing),
	};

	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
