/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-identity.c - the identity of a peer: what the kernel says of the process that connected, and of no other.
 *
 * A forked child connects; as root it first becomes another user with groups of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/users/identity.h"
#include "common/error.h"

#define OTHER_USER  4001
#define OTHER_GROUP 4002

static const gid_t other_groups[] = { 5001, 5002, 5003 };

/* ---- a peer ---- */

struct peer {
	pid_t pid;
	int   sock;
};

/* The kernel notes who makes a pair of sockets, so that has to be the child; it hands one end over. */
_Noreturn static void peer_run(int channel, bool as_other)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = '!';
	struct iovec  io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1,
			      .msg_control = &control, .msg_controllen = sizeof control };
	int pair[2];

	prctl(PR_SET_NAME, "a\x01\xff b");
	if (as_other && (setgroups(3, other_groups) || setresgid(OTHER_GROUP, OTHER_GROUP, OTHER_GROUP) ||
			 setresuid(OTHER_USER, OTHER_USER, OTHER_USER)))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user takes it away */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair))
		_exit(1);
	control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof pair[0]),
					   .cmsg_level = SOL_SOCKET,
					   .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.header), &pair[0], sizeof pair[0]);
	if (sendmsg(channel, &msg, 0) != 1)
		_exit(1);
	for (;;)
		pause();
}

static struct peer peer_start(bool as_other)
{
	union {
		struct cmsghdr header;
		char           bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec  io = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &io, .msg_iovlen = 1,
			      .msg_control = &control, .msg_controllen = sizeof control };
	struct peer peer;
	int channel[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
	peer.pid = fork();
	assert_true(peer.pid >= 0);
	if (!peer.pid)
		peer_run(channel[1], as_other);
	close(channel[1]);
	assert_int_equal(recvmsg(channel[0], &msg, MSG_CMSG_CLOEXEC), 1);
	memcpy(&peer.sock, CMSG_DATA(&control.header), sizeof peer.sock);
	close(channel[0]);
	return peer;
}

static void peer_end(struct peer *peer)
{
	close(peer->sock);
	kill(peer->pid, SIGKILL);
	waitpid(peer->pid, NULL, 0);
}

/* As a test whose assertion failed does: it ends, and nobody ends its peer. */
_Noreturn static void leave_a_peer(int told, int leave)
{
	struct peer peer = peer_start(!geteuid());
	char byte;

	_exit(write(told, &peer.pid, sizeof peer.pid) != sizeof peer.pid || read(leave, &byte, 1) < 0);
}

static void test_a_peer_ends_with_its_test(void **state)
{
	struct pollfd p = { .events = POLLIN };
	int told[2], leave[2];
	pid_t test, peer;

	(void)state;
	assert_int_equal(pipe2(told, O_CLOEXEC), 0);
	assert_int_equal(pipe2(leave, O_CLOEXEC), 0);
	test = fork();
	assert_true(test >= 0);
	if (!test) {
		close(leave[1]);
		leave_a_peer(told[1], leave[0]);
	}
	assert_int_equal(read(told[0], &peer, sizeof peer), sizeof peer);
	p.fd = (int)syscall(SYS_pidfd_open, peer, 0);
	assert_true(p.fd >= 0);
	kill(test, SIGKILL);
	assert_int_equal(waitpid(test, NULL, 0), test);
	if (poll(&p, 1, 10000) != 1) {
		kill(peer, SIGKILL);
		fail_msg("the peer lives on");
	}
	close(p.fd);
	for (int i = 0; i < 2; i++) {
		close(told[i]);
		close(leave[i]);
	}
}

/* ---- who it is ---- */

static void test_the_kernel_names_process_and_user(void **state)
{
	struct peer peer = peer_start(false);
	struct identity identity;
	gid_t groups[256];
	int count = getgroups(256, groups);
	pid_t pid;

	(void)state;
	memset(&identity, 0x5a, sizeof identity);
	assert_int_equal(identity_of_peer(peer.sock, &pid, &identity), 0);
	assert_int_equal(pid, peer.pid);
	assert_int_equal(identity.uid, geteuid());
	assert_int_equal(identity.gid, getegid());
	assert_int_equal(identity.group_count, count);
	for (int i = 0; i < count; i++)
		assert_true(identity_in_group(&identity, groups[i]));
	identity_clear(&identity);
	peer_end(&peer);
}

static void test_another_user_has_its_groups(void **state)
{
	struct identity identity;
	struct peer peer;
	pid_t pid;

	(void)state;
	if (geteuid()) {
		print_message("# not root: nobody else can be played\n");
		return;
	}
	peer = peer_start(true);
	assert_int_equal(identity_of_peer(peer.sock, &pid, &identity), 0);
	assert_int_equal(identity.uid, OTHER_USER);
	assert_int_equal(identity.gid, OTHER_GROUP);
	assert_int_equal(identity.group_count, 3);
	for (int i = 0; i < 3; i++)
		assert_true(identity_in_group(&identity, other_groups[i]));
	assert_true(identity_in_group(&identity, OTHER_GROUP));
	assert_false(identity_in_group(&identity, 0));
	assert_false(identity_is_admin(&identity));
	identity_clear(&identity);
	assert_null(identity.groups);
	assert_false(identity_in_group(&identity, other_groups[0]));
	identity_clear(&identity);
	peer_end(&peer);
}

static void test_an_unknown_peer_changes_no_identity(void **state)
{
	struct identity identity, before;
	pid_t pid = 77;
	int pipes[2];

	(void)state;
	memset(&identity, 0x5a, sizeof identity);
	before = identity;
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(identity_of_peer(pipes[0], &pid, &identity), -ENOTSOCK);
	assert_memory_equal(&identity, &before, sizeof identity);
	assert_int_equal(pid, 77);
	close(pipes[0]);
	close(pipes[1]);
}

static void test_groups_primary_first_and_no_others(void **state)
{
	gid_t groups[] = { 30, 40 };
	struct identity identity = { .uid = 10, .gid = 20, .groups = groups, .group_count = 1 };

	(void)state;
	assert_true(identity_in_group(&identity, 20));
	assert_true(identity_in_group(&identity, 30));
	assert_false(identity_in_group(&identity, 40));
	assert_false(identity_in_group(&identity, 10));
}

static void test_root_and_the_brokers_own_user_may_do_all(void **state)
{
	(void)state;
	assert_true(identity_is_admin(&(struct identity){ .uid = 0, .gid = 1000 }));
	assert_true(identity_is_admin(&(struct identity){ .uid = geteuid(), .gid = 1000 }));
	assert_false(identity_is_admin(&(struct identity){ .uid = geteuid() + 1, .gid = 0 }));
}

/* ---- its process ---- */

static void invariant_9_the_pidfd_tells_of_that_process_end(void **state)
{
	struct peer peer = peer_start(false);
	int pidfd = identity_pidfd(peer.sock, peer.pid);
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	(void)state;
	assert_true(pidfd >= 0);
	assert_true(identity_alive(pidfd));
	kill(peer.pid, SIGKILL);
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_false(identity_alive(pidfd));
	close(pidfd);
	peer_end(&peer);
}

/* It goes to terminals and JSON. */
static void test_what_a_process_calls_itself_is_made_plain(void **state)
{
	struct peer peer = peer_start(false);
	char command[16];

	(void)state;
	identity_command(peer.pid, command);
	assert_string_equal(command, "a?? b");
	peer_end(&peer);
	identity_command(peer.pid, command); /* reaped */
	assert_string_equal(command, "?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_peer_ends_with_its_test),
		cmocka_unit_test(test_the_kernel_names_process_and_user),
		cmocka_unit_test(test_another_user_has_its_groups),
		cmocka_unit_test(test_an_unknown_peer_changes_no_identity),
		cmocka_unit_test(test_groups_primary_first_and_no_others),
		cmocka_unit_test(test_root_and_the_brokers_own_user_may_do_all),
		cmocka_unit_test(invariant_9_the_pidfd_tells_of_that_process_end),
		cmocka_unit_test(test_what_a_process_calls_itself_is_made_plain),
	};

	return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
