/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-private-socket.c - the private socket of a process that died is taken over with its directory, its lock and the
 * connections that wait in it (run/private-socket.c). run.sh and names.sh look at all else.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/run/private-socket.h"
#include "broker/status/leftovers.h"
#include "common/socket.h"

static struct private_socket last, next;
static struct private_socket_kept kept;

static int copy(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* Makes a socket, and lets its process die: its descriptors are closed, and nothing is removed. */
static int setup(void **state)
{
	(void)state;
	assert_int_equal(private_socket_make(&last, "unit", "socket"), 0);
	kept = (struct private_socket_kept){ .fd = copy(last.fd),
					     .directory = copy(last.directory.fd),
					     .lock = copy(last.directory.lock),
					     .file = private_socket_identify(&last) };
	assert_true(kept.file >= 0);
	close(last.fd);
	close(last.directory.fd);
	close(last.directory.lock);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	private_socket_remove(&next);
	close(kept.file);
	return access(last.directory.path, F_OK) ? 0 : -1;
}

static int dial(void)
{
	char address[SOCKET_ADDRESS_SIZE + 8];
	struct sockaddr_un sun;
	int sock;

	snprintf(address, sizeof address, "unix:%s", last.path);
	assert_int_equal(socket_address(address, &sun), 0);
	sock = socket_connect(&sun);
	assert_true(sock >= 0);
	return sock;
}

static void test_a_connection_that_waits_is_the_next_ones(void **state)
{
	int sock = dial(), accepted, former;

	(void)state;
	leftovers_remove(NULL); /* as by another broker that starts */
	assert_int_equal(private_socket_adopt(&next, &kept), 0);
	assert_string_equal(next.path, last.path);
	assert_string_equal(next.directory.path, last.directory.path);
	accepted = accept4(next.fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(accepted >= 0);
	close(accepted);
	close(sock);
	leftovers_remove(NULL);
	assert_int_equal(private_socket_restore(&next, &former), 0);
}

static void test_a_socket_that_lost_its_file_is_made_again(void **state)
{
	int former = -1;

	(void)state;
	assert_int_equal(unlink(last.path), 0);
	assert_int_equal(private_socket_adopt(&next, &kept), 0);
	assert_int_equal(private_socket_restore(&next, &former), 1);
	close(former);
	close(dial());
}

static void test_what_is_no_such_socket_is_refused(void **state)
{
	struct private_socket_kept other = kept;
	char lock[sizeof last.path];

	(void)state;
	other.fd = kept.lock;
	assert_int_equal(private_socket_adopt(&next, &other), -ENOTSOCK);
	snprintf(lock, sizeof lock, "%s/lock", last.directory.path);
	other = kept;
	other.lock = open(lock, O_RDWR | O_CLOEXEC); /* an open file of its own, without the lock */
	assert_int_equal(private_socket_adopt(&next, &other), -EBUSY);
	close(other.lock);
	assert_int_equal(private_socket_adopt(&next, &kept), 0);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_connection_that_waits_is_the_next_ones),
		ON(test_a_socket_that_lost_its_file_is_made_again),
		ON(test_what_is_no_such_socket_is_refused),
	};

	return cmocka_run_group_tests_name("private-socket", tests, NULL, NULL);
}
