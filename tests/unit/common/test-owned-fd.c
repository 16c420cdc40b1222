/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-owned-fd.c - an owned descriptor stands as long as its number names its file, and nothing else is ever closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/owned-fd.h"

static int socket_make(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static int memory_make(void)
{
	return memfd_create("test-owned-fd", MFD_CLOEXEC);
}

static int file_make(void)
{
	return open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static int (*const makers[])(void) = { socket_make, memory_make, file_make };

#define MAKERS (sizeof makers / sizeof *makers)

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void test_it_is_closed_once(void **state)
{
	struct owned_fd owned;
	int fd;

	(void)state;
	for (size_t i = 0; i < MAKERS; i++) {
		fd = makers[i]();
		assert_true(fd >= 0);
		owned_fd_take(&owned, fd);
		assert_true(owned_fd_stands(&owned));
		owned_fd_close(&owned);
		assert_false(is_open(fd) || owned_fd_stands(&owned));
		assert_int_equal(owned.fd, -1);
		owned_fd_close(&owned);
	}
}

/* Whatever kind of file has the number now, also one more of the same kind. */
static void test_what_has_its_number_now_stays(void **state)
{
	struct owned_fd owned;
	int fd, other;

	(void)state;
	for (size_t i = 0; i < MAKERS; i++)
		for (size_t j = 0; j < MAKERS; j++) {
			fd = makers[i]();
			owned_fd_take(&owned, fd);
			close(fd);
			errno = EDOM;
			assert_false(owned_fd_stands(&owned));
			assert_int_equal(errno, EDOM);
			other = makers[j]();
			assert_int_equal(other, fd);
			assert_false(owned_fd_stands(&owned));
			owned_fd_close(&owned);
			assert_true(is_open(other));
			close(other);
		}
}

static void test_none_stands_nowhere(void **state)
{
	struct owned_fd none = OWNED_FD_NONE, failed;

	(void)state;
	owned_fd_take(&failed, -EMFILE);
	assert_int_equal(failed.fd, -EMFILE);
	assert_false(owned_fd_stands(&none) || owned_fd_stands(&failed));
	owned_fd_close(&none);
	owned_fd_close(&failed);
	assert_int_equal(failed.fd, -1);
	assert_true(is_open(STDERR_FILENO));
}

/* A child has the same file. */
static void test_it_stands_in_a_child(void **state)
{
	struct owned_fd owned;
	int status;
	pid_t pid;

	(void)state;
	owned_fd_take(&owned, socket_make());
	pid = fork();
	if (!pid)
		_exit(owned_fd_stands(&owned) ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	owned_fd_close(&owned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_closed_once),
		cmocka_unit_test(test_what_has_its_number_now_stays),
		cmocka_unit_test(test_none_stands_nowhere),
		cmocka_unit_test(test_it_stands_in_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
