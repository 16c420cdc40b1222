/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-socket.c - the socket of a brokerd that died is taken over by the next one, with the connections that wait in it
 * (daemon/socket.c).
 *
 * brokerd.sh looks at all else. The dead brokerd is a process that sends its descriptors to this one, and is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/daemon/socket.h"
#include "broker/owner/packet.h"
#include "common/socket.h"

enum { FD, LOCK, FILE_KEPT, KEPT };

static char directory[] = "/tmp/test-socket.XXXXXX";
static struct brokerd_config config;
static struct brokerd_socket own;
static int kept[KEPT];

/* Opens the socket, sends its descriptors, and lives until it is killed. */
static void be_brokerd(int keeper)
{
	const char byte = 'x';
	int fds[KEPT];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (brokerd_socket_open(&own, &config))
		_exit(1);
	fds[FD] = own.fd;
	fds[LOCK] = own.lock;
	fds[FILE_KEPT] = brokerd_socket_identify(&own);
	for (int i = 0; i < KEPT; i++)
		if (packet_send(keeper, &byte, 1, fds[i], 0))
			_exit(2);
	for (;;)
		pause();
}

static int setup(void **state)
{
	int pair[2], status;
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		be_brokerd(pair[1]);
	for (int i = 0; i < KEPT; i++)
		assert_int_equal(packet_receive(pair[0], &byte, 1, &kept[i], 0), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(pair[0]);
	close(pair[1]);
	return 0;
}

/* Connects as a client does. */
static int dial(void)
{
	char address[SOCKET_ADDRESS_SIZE + 8];
	struct sockaddr_un sun;
	int sock;

	snprintf(address, sizeof address, "unix:%s", config.socket);
	assert_int_equal(socket_address(address, &sun), 0);
	sock = socket_connect(&sun);
	assert_true(sock >= 0);
	return sock;
}

static void adopt(void)
{
	assert_int_equal(brokerd_socket_adopt(&own, kept[FD], kept[LOCK], kept[FILE_KEPT]), 0);
	assert_string_equal(own.path, config.socket);
}

static void expect_accepted(void)
{
	int sock = accept4(own.fd, NULL, NULL, SOCK_CLOEXEC);

	assert_true(sock >= 0);
	close(sock);
}

static void end(void)
{
	brokerd_socket_close(&own);
	close(kept[FILE_KEPT]);
	assert_int_equal(access(config.socket, F_OK), -1);
}

static void test_a_connection_that_waits_is_the_next_brokers(void **state)
{
	int early = dial(), late, former;

	(void)state;
	adopt();
	expect_accepted();
	late = dial();
	expect_accepted();
	assert_int_equal(brokerd_socket_restore(&own, &config, &former), 0);
	close(early);
	close(late);
	end();
}

/* Nor does another brokerd get the path meanwhile. */
static void test_nobody_takes_the_path_in_the_gap(void **state)
{
	struct brokerd_socket other;

	(void)state;
	assert_int_equal(brokerd_socket_open(&other, &config), -EADDRINUSE);
	assert_int_equal(access(config.socket, F_OK), 0);
	adopt();
	assert_int_equal(brokerd_socket_open(&other, &config), -EADDRINUSE);
	end();
}

static void test_a_socket_that_lost_its_file_is_made_again(void **state)
{
	int former = -1;

	(void)state;
	assert_int_equal(unlink(config.socket), 0);
	adopt();
	assert_int_equal(brokerd_socket_restore(&own, &config, &former), 1);
	close(former);
	close(dial());
	end();
}

/* The last broker could not identify it any more. */
static void test_one_without_a_file_is_made_again(void **state)
{
	int former = -1;

	(void)state;
	assert_int_equal(unlink(config.socket), 0);
	assert_int_equal(brokerd_socket_adopt(&own, kept[FD], kept[LOCK], -1), 0);
	assert_int_equal(brokerd_socket_identify(&own), -ENOENT);
	assert_int_equal(brokerd_socket_restore(&own, &config, &former), 1);
	close(former);
	end();
}

static void test_what_is_no_such_socket_is_refused(void **state)
{
	char lock[sizeof own.path + sizeof ".lock"];
	int other;

	(void)state;
	memset(&own, 0x77, sizeof own);
	assert_int_equal(brokerd_socket_adopt(&own, kept[LOCK], kept[LOCK], -1), -ENOTSOCK);
	snprintf(lock, sizeof lock, "%s.lock", config.socket);
	other = open(lock, O_RDWR | O_CLOEXEC); /* an open file of its own, without the lock */
	assert_int_equal(brokerd_socket_adopt(&own, kept[FD], other, kept[FILE_KEPT]), -EADDRINUSE);
	close(other);
	assert_int_equal(own.fd, 0x77777777);
	adopt();
	end();
}

static int group_setup(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	config.group = BROKERD_NO_GROUP;
	config.mode = 0600;
	snprintf(config.socket, sizeof config.socket, "%s/socket", directory);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	return rmdir(directory);
}

#define ON(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_connection_that_waits_is_the_next_brokers),
		ON(test_nobody_takes_the_path_in_the_gap),
		ON(test_a_socket_that_lost_its_file_is_made_again),
		ON(test_one_without_a_file_is_made_again),
		ON(test_what_is_no_such_socket_is_refused),
	};

	return cmocka_run_group_tests_name("socket", tests, group_setup, group_teardown);
}
