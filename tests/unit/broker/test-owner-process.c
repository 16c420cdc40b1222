/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-owner-process.c - the process that owns the devices (owner/process.h): its start and its ends, and what of this
 * process it has. tests/integration/owner.sh looks at it beside a real broker.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker/owner/forked.h"
#include "broker/owner/order.h"
#include "broker/owner/packet.h"
#include "broker/owner/process.h"
#include "common/error.h"

static struct owner_link owner;
static struct owner_setup wish;
static struct owner_facts facts;

static pid_t child; /* the owner's process */

/* Forks an owner, as the keeper does. owner.ended is its pidfd. Returns 0 or a negative errno. */
static int begin(void)
{
	int owners = owner_link_open(&owner);
	pid_t parent = getpid();

	if (owners < 0)
		return owners;
	child = fork();
	if (!child)
		forked_owner(owners, parent);
	close(owners);
	owner.ended = (int)syscall(SYS_pidfd_open, child, 0);
	return owner.ended < 0 ? -errno : 0;
}

/* Whether the owner ends within so many milliseconds. */
static bool ends_in(int ms)
{
	return poll(&(struct pollfd){ .fd = owner.ended, .events = POLLIN }, 1, ms) == 1;
}

/* Ends the link, and waits for the owner's end. Does nothing if there is none. */
static void end(void)
{
	int status;

	if (owner.sock < 0)
		return;
	if (ends_in(0))
		owner_link_drop(&owner);
	else
		owner_link_close(&owner);
	assert_int_equal(waitpid(child, &status, 0), child);
	owner.crashed = status;
	close(owner.ended);
	owner.ended = -1;
}

static int setup(void **state)
{
	(void)state;
	wish = (struct owner_setup){ .device = "host:2" };
	snprintf(wish.instance, sizeof wish.instance, "unit%d", (int)getpid());
	owner = (struct owner_link){ .sock = -1, .ended = -1 };
	return begin();
}

static int teardown(void **state)
{
	char path[64];

	(void)state;
	end();
	snprintf(path, sizeof path, "/dev/shm/gpubroker.%s.mem", wish.instance);
	rmdir(path);
	return owner.sock != -1 || owner.lanes;
}

static bool has_ended(void)
{
	return kill(owner.pid, 0) && errno == ESRCH;
}

static void test_it_starts_with_a_lane_for_each_device_and_one_for_questions(void **state)
{
	(void)state;
	assert_int_not_equal(owner.pid, getpid());
	assert_int_equal(owner_link_start(&owner, &wish, &facts), 0);
	assert_int_equal(facts.kind, DEVICE_HOST);
	assert_int_equal(facts.count, 2);
	assert_int_equal(owner.lanes, 3);
	end();
	assert_true(has_ended());
	assert_false(owner.crashed);
	end(); /* once more does nothing */
}

static void test_devices_that_do_not_start_are_told_of(void **state)
{
	(void)state;
	strcpy(wish.device, "host:x");
	assert_int_equal(owner_link_start(&owner, &wish, &facts), -EINVAL);
	assert_non_null(strstr(error_text(), "'host:x' is no device"));
	assert_int_equal(owner.lanes, 0);
}

static void test_one_that_dies_before_its_devices_have_started(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	assert_true(ends_in(5000));
	assert_int_equal(owner_link_start(&owner, &wish, &facts), -ECONNRESET);
	assert_non_null(strstr(error_text(), "ended while they started"));
	end();
	assert_true(owner.crashed);
}

static void test_one_that_dies_between_lanes(void **state)
{
	(void)state;
	assert_int_equal(owner_link_start(&owner, &wish, &facts), 0);
	kill(owner.pid, SIGKILL);
	assert_true(ends_in(5000));
	assert_int_equal(owner_link_lanes(&owner, owner.lanes + 1), -ECONNRESET);
	assert_int_equal(owner.lanes, 3);
}

static void test_one_follows_the_other(void **state)
{
	pid_t before = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(owner_link_start(&owner, &wish, &facts), 0);
		assert_int_not_equal(owner.pid, before);
		before = owner.pid;
		if (i % 2)
			kill(before, SIGKILL);
		else
			kill(child, SIGKILL);
		assert_true(ends_in(5000));
		end();
		assert_true(owner.crashed && has_ended());
		assert_int_equal(begin(), 0);
	}
}

/* What a broker that stops has sent is carried out, although its answers are not read. */
static void test_an_end_waits_for_all_orders(void **state)
{
	const struct order make = { .kind = ORDER_ALLOCATE, .number = 1, .memory = 1, .size = 64u << 20 };
	const struct order names = { .kind = ORDER_NAMES, .number = 2 };

	(void)state;
	assert_int_equal(owner_link_start(&owner, &wish, &facts), 0);
	assert_int_equal(packet_send(owner.lane[0], &make, sizeof make, -1, 0), 0);
	assert_int_equal(packet_send(owner.lane[2], &names, sizeof names, -1, 0), 0);
	end();
	assert_true(has_ended());
	assert_false(owner.crashed);
}

static void test_signals_do_not_end_it(void **state)
{
	(void)state;
	assert_int_equal(owner_link_start(&owner, &wish, &facts), 0);
	kill(owner.pid, SIGTERM);
	kill(owner.pid, SIGINT);
	assert_int_equal(owner_link_lanes(&owner, owner.lanes), 0);
	assert_int_equal(kill(owner.pid, 0), 0);
	end();
	assert_false(owner.crashed);
}

/* ---- another broker ---- */

static int keepers; /* a duplicate of the broker's end of the owner's socket */

/* The broker ends without a word, and all its lanes with it; the duplicate is left. */
static void broker_dies(void)
{
	keepers = fcntl(owner.sock, F_DUPFD_CLOEXEC, 3);
	assert_true(keepers >= 0);
	owner_link_drop(&owner);
}

/* Receives a packet of the first lane within 5 seconds. */
static void receive(void *packet, size_t size)
{
	int none;

	assert_int_equal(poll(&(struct pollfd){ .fd = owner.lane[0], .events = POLLIN }, 1, 5000), 1);
	assert_int_equal(packet_receive(owner.lane[0], packet, size, &none, MSG_DONTWAIT), 0);
}

static void test_the_next_broker_finds_owner_and_memory(void **state)
{
	const struct order make = { .kind = ORDER_ALLOCATE, .number = 1, .memory = 1, .size = 2u << 20 };
	const struct order release = { .kind = ORDER_RELEASE, .number = 2, .memory = 1, .acknowledged = 1 };
	struct owner_facts before;
	struct outcome made, again;
	struct listed listed;
	pid_t pid;

	(void)state;
	assert_int_equal(owner_link_start(&owner, &wish, &before), 0);
	pid = owner.pid;
	assert_int_equal(packet_send(owner.lane[0], &make, sizeof make, -1, 0), 0);
	receive(&made, sizeof made);
	broker_dies();
	owner.pid = 0;
	assert_int_equal(owner_link_join(&owner, keepers, 1, &facts), 0);
	assert_int_equal(owner.pid, pid);
	assert_int_equal(owner.lanes, 3);
	assert_memory_equal(&facts, &before, sizeof facts);
	receive(&listed, sizeof listed);
	assert_int_equal(listed.kind, LISTED_MEMORY);
	assert_int_equal(listed.memory, 1);
	assert_int_equal(listed.size, 2u << 20);
	receive(&listed, sizeof listed);
	assert_int_equal(listed.kind, LISTED_OUTCOME);
	assert_int_equal(listed.outcome.error, 0);
	assert_memory_equal(&listed.outcome.handle, &made.handle, sizeof made.handle);
	receive(&listed, sizeof listed);
	assert_int_equal(listed.kind, LISTED_END);
	assert_int_equal(packet_send(owner.lane[0], &release, sizeof release, -1, 0), 0);
	receive(&again, sizeof again);
	assert_int_equal(again.error, 0);
	end();
	assert_true(has_ended());
	assert_false(owner.crashed);
	assert_int_equal(begin(), 0);
	assert_int_equal(owner_link_start(&owner, &wish, &facts), 0); /* the next owner, with a first broker */
}

static void test_without_any_duplicate_it_ends(void **state)
{
	(void)state;
	assert_int_equal(owner_link_start(&owner, &wish, &facts), 0);
	broker_dies();
	assert_false(ends_in(50));
	close(keepers);
	assert_true(ends_in(5000));
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(owner.ended);
}

/* There is no owner yet that another broker could go on with. */
static void test_one_without_its_setup_ends_when_another_broker_comes(void **state)
{
	(void)state;
	broker_dies();
	assert_int_equal(owner_link_join(&owner, keepers, 1, &facts), -ECONNRESET);
	assert_non_null(strstr(error_text(), "ended while they started"));
	assert_true(ends_in(5000));
}

/* The broker has died while the devices start: the answer to it is not the next one's. */
static void test_one_whose_devices_start_meanwhile(void **state)
{
	struct listed listed;

	(void)state;
	assert_int_equal(owner_link_setup(&owner, &wish), 0);
	broker_dies();
	assert_int_equal(owner_link_join(&owner, keepers, 1, &facts), 0);
	assert_int_equal(facts.count, 2);
	assert_int_equal(owner.lanes, 3);
	assert_int_equal(poll(&(struct pollfd){ .fd = owner.sock, .events = POLLIN }, 1, 50), 0);
	receive(&listed, sizeof listed);
	assert_int_equal(listed.kind, LISTED_END);
}

#define ON(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_it_starts_with_a_lane_for_each_device_and_one_for_questions),
		ON(test_devices_that_do_not_start_are_told_of),
		ON(test_one_that_dies_before_its_devices_have_started),
		ON(test_one_that_dies_between_lanes),
		ON(test_one_follows_the_other),
		ON(test_an_end_waits_for_all_orders),
		ON(test_signals_do_not_end_it),
		ON(test_the_next_broker_finds_owner_and_memory),
		ON(test_without_any_duplicate_it_ends),
		ON(test_one_without_its_setup_ends_when_another_broker_comes),
		ON(test_one_whose_devices_start_meanwhile),
	};

	return cmocka_run_group_tests_name("owner's process", tests, NULL, NULL);
}
