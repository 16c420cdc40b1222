/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-refresh.c - a status file may name any socket as its broker's: broker-status waits for a bounded time there, and
 * does not even connect where no broker could be trusted.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/show/refresh.h"
#include "common/error.h"

static char directory[] = "/tmp/gpub-refresh.XXXXXX";
static struct sockaddr_un name = { .sun_family = AF_UNIX };
static int listener;
static union status_record address;
static struct shown shown = {
	.instance = "one", .state = SHOWN_RUNNING, .trusted = true, .records = &address, .count = 1
};

static int setup(void **state)
{
	(void)state;
	refresh_seconds = 1;
	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(name.sun_path, sizeof name.sun_path, "%s/socket", directory);
	address.address.type = TRACKED_ADDRESS;
	snprintf(address.address.address, sizeof address.address.address, "unix:%s", name.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	return bind(listener, (struct sockaddr *)&name, sizeof name) || listen(listener, 0);
}

static int teardown(void **state)
{
	(void)state;
	close(listener);
	return unlink(name.sun_path) || rmdir(directory);
}

/* Nobody accepts, and there is no room for another one. */
static void test_a_queue_that_is_full(void **state)
{
	int waiting[8], count = 0;

	(void)state;
	while (count < 8) {
		waiting[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(waiting[count++], (struct sockaddr *)&name, sizeof name))
			break;
	}
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(shown_refresh(&shown), -ETIMEDOUT);
	assert_non_null(strstr(error_text(), "takes no more connections"));
	while (count)
		close(waiting[--count]);
}

/* It is accepted, and never greeted. */
static void test_a_server_that_says_nothing(void **state)
{
	(void)state;
	assert_int_equal(shown_refresh(&shown), -ETIMEDOUT);
	assert_non_null(strstr(error_text(), "does not answer in time"));
}

static void expect_not_connected(void)
{
	struct pollfd came = { .fd = listener, .events = POLLIN };

	assert_int_equal(shown_refresh(&shown), -EPERM);
	assert_int_equal(poll(&came, 1, 0), 0);
}

static void test_a_place_of_others(void **state)
{
	(void)state;
	chmod(directory, 0777);
	expect_not_connected();
	chmod(directory, 0700);
	if (geteuid())
		return;
	assert_int_equal(chown(directory, 4001, 4001), 0);
	expect_not_connected();
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_queue_that_is_full),
		ON(test_a_server_that_says_nothing),
		ON(test_a_place_of_others),
	};

	alarm(60);
	return cmocka_run_group_tests_name("refresh", tests, NULL, NULL);
}
