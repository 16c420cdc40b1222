/* SPDX-License-Identifier: Apache-2.0 */
/* test-status.c - a status file that somebody removed is made again with its events. session-harness.h is the world. */
#include "session-harness.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "broker/status/status.h"

static uint8_t ring[STATUS_HEADER_SIZE - STATUS_RING];

static void expect_ring(void)
{
	assert_memory_equal(ring, broker.status->file.bytes + STATUS_RING, sizeof ring);
}

/* Without room for the events no new file is made: the former one, without a name, is written on and keeps them. */
static void test_a_removed_file_comes_again_with_its_events(void **state)
{
	struct peer peer = join();
	struct rlimit before, small;
	int fd = broker.status->file.fd;

	(void)state;
	create_with_mode(&peer, "a", 0600);
	memcpy(ring, broker.status->file.bytes + STATUS_RING, sizeof ring);
	assert_int_equal(shm_unlink(broker.status->name), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = (struct rlimit){ .rlim_cur = STATUS_HEADER_SIZE - 1, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(status_restore(&broker), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(broker.status->file.fd, fd);
	expect_ring();
	assert_int_equal(status_restore(&broker), 1);
	expect_ring();
	part(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_a_removed_file_comes_again_with_its_events),
	};

	return cmocka_run_group_tests_name("status", tests, harness_group_setup, harness_group_teardown);
}
