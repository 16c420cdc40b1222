/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-devices.c - what the broker does when the owner of the devices ends (core/devices.c): whom it blames, when it
 * starts another one, and when no more. And how the next broker joins an owner: what both have stays, and the rest is
 * released, adopted or unlinked.
 *
 * tests/integration/owner.sh and owner-kills.sh look at memory and clients meanwhile.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/core/devices.h"
#include "broker/memory/jobs.h"
#include "broker/memory/memory.h"
#include "broker/owner/owner.h"
#include "broker/registry/registry.h"
#include "owner-thread.h"
#include "session-harness.h"

#define CRASHED 10 /* strikes, of 100 */
#define KILLED  1

static unsigned failures;
static unsigned jobs_done;
static atomic_uint starts; /* number of owners that were about to start their devices */
static int gate[2]; /* an owner whose start is held up reads a byte */

static void note_failure(void *context)
{
	assert_ptr_equal(context, &broker);
	failures++;
}

static int setup(void **state)
{
	int error = harness_setup(state);

	failures = starts = jobs_done = 0;
	owner_thread_crashes = true;
	owner_thread_starts = NULL;
	broker_when_no_owner(&broker, note_failure, &broker);
	return error;
}

static bool serves(void)
{
	return !broker.jobs->lost;
}

static void owner_ends(bool crashes)
{
	owner_thread_crashes = crashes;
	owner_thread_die(&broker.devices->owner);
	EXPECT_SOON(!serves());
	owner_thread_gone(&broker.devices->owner);
}

static void test_an_owner_that_ends_is_replaced(void **state)
{
	(void)state;
	owner_ends(true);
	EXPECT_SOON(serves());
	assert_int_equal(events_of(EVENT_OWNER_DIED), 1);
	assert_int_equal(events_of(EVENT_OWNER_STARTED), 1);
	assert_int_equal(broker.devices->strikes, CRASHED);
	assert_int_equal(failures, 0);
}

/* Its device work may land until then. */
static void test_none_starts_before_the_last_one_is_gone(void **state)
{
	(void)state;
	owner_thread_die(&broker.devices->owner);
	EXPECT_SOON(!serves());
	run_passes();
	assert_false(serves());
	assert_int_equal(events_of(EVENT_OWNER_STARTED), 0);
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
}

static void test_no_other_one_starts_after_a_hundred_strikes(void **state)
{
	(void)state;
	broker.devices->strikes = 100 - CRASHED;
	owner_ends(true);
	EXPECT_SOON(failures);
	run_passes();
	assert_false(serves());
	assert_int_equal(failures, 1);
	assert_true(broker.devices->failed);
}

/* Whoever sends SIGKILL is more patient than a hundred crashes. */
static void test_one_that_is_killed_counts_little_and_not_if_it_has_worked(void **state)
{
	(void)state;
	owner_ends(false);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, KILLED);
	owner_ends(false);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * KILLED);
	broker.devices->strikes = 70;
	broker.jobs->answered++; /* as by an order */
	owner_ends(false);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, KILLED);
}

static void test_a_crash_counts_although_orders_were_answered_but_not_after_a_while(void **state)
{
	(void)state;
	broker.jobs->answered++;
	owner_ends(true);
	EXPECT_SOON(serves());
	broker.jobs->answered++;
	owner_ends(true);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * CRASHED);
	broker.devices->since -= 10;
	owner_ends(true);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, CRASHED);
}

static bool ends_at_once(void)
{
	starts++;
	return false;
}

static void test_one_that_does_not_start_counts_as_a_crash(void **state)
{
	(void)state;
	owner_thread_starts = ends_at_once;
	owner_ends(true);
	EXPECT_SOON(starts);
	EXPECT_SOON(broker.devices->gone);
	owner_thread_starts = NULL;
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * CRASHED);
	assert_int_equal(events_of(EVENT_OWNER_STARTED), 1);
}

static bool starts_late(void)
{
	char byte;

	starts++;
	return read(gate[0], &byte, 1) == 1;
}

/* The broker ends such a one by SIGKILL itself. */
static void test_one_that_is_late_counts_as_a_crash(void **state)
{
	(void)state;
	assert_int_equal(pipe(gate), 0);
	owner_thread_starts = starts_late;
	owner_ends(false);
	EXPECT_SOON(starts);
	assert_non_null(broker.devices->begun);
	event_active(broker.devices->begun, EV_TIMEOUT, 0);
	EXPECT_SOON(broker.devices->gone);
	owner_thread_starts = NULL;
	assert_int_equal(write(gate[1], "x", 1), 1);
	owner_thread_die(&broker.devices->owner);
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, KILLED + CRASHED);
	close(gate[0]);
	close(gate[1]);
}

static bool starts_well(void)
{
	starts++;
	return true;
}

static void test_one_with_other_devices_is_refused(void **state)
{
	char first;

	(void)state;
	first = broker.devices->facts.device[0].uuid[0];
	broker.devices->facts.device[0].uuid[0] = (char)(first ^ 1);
	owner_thread_starts = starts_well;
	owner_ends(true);
	EXPECT_SOON(starts);
	EXPECT_SOON(broker.devices->gone);
	broker.devices->facts.device[0].uuid[0] = first;
	assert_false(serves());
	owner_thread_die(&broker.devices->owner);
	owner_thread_gone(&broker.devices->owner);
	EXPECT_SOON(serves());
	assert_int_equal(broker.devices->strikes, 2 * CRASHED);
}

static void test_a_stop_without_an_owner_is_regular(void **state)
{
	(void)state;
	owner_ends(true);
	broker_end_now();
	assert_false(broker.devices->crashed);
}

static void test_an_owner_that_crashes_in_a_stop_is_told(void **state)
{
	(void)state;
	owner_thread_die(&broker.devices->owner);
	owner_thread_gone(&broker.devices->owner);
	broker_end_now();
	assert_true(broker.devices->crashed);
}

/* ---- an owner that has served another broker ---- */

static void forget(struct job *job)
{
	jobs_done++;
	free(job);
}

/* Orders what no allocation knows of. */
static void order(enum order_kind kind, uint64_t memory)
{
	struct job *job = calloc(1, sizeof *job);

	assert_non_null(job);
	job->order = (struct order){ .kind = kind, .memory = memory, .size = 2 << 20, .exported = EXPORT_VMM };
	job->descriptor = -1;
	job->done = forget;
	jobs_submit(broker.jobs, job);
	jobs_send(broker.jobs);
}

static bool count_memory(void *context, struct listed *listed)
{
	*(unsigned *)context += listed->kind == LISTED_MEMORY;
	return true;
}

/* Number of allocations' memory that the owner has. Read while it carries out nothing. */
static unsigned owned(void)
{
	unsigned count = 0;

	owner_list(&owner_thread_service.server[0].owner, count_memory, &count);
	return count;
}

/* The broker dies, as far as its owner sees, and a next one joins it that has all that this one has. */
static void dies_and_joins(void)
{
	static uint64_t number = 7;
	struct devices *devices = broker.devices;
	struct owner_setup like = devices->setup;
	int kept = dup(devices->owner.sock);

	event_free(devices->again);
	event_free(devices->ends);
	jobs_stop(broker.jobs);
	owner_link_drop(&devices->owner);
	assert_int_equal(devices_join(&broker, kept, number++, &like), 0);
	assert_int_equal(devices_serve(&broker), 0);
	jobs_done = 0;
}

static bool has_listed(void)
{
	return !broker.jobs->lane[0].listing && !broker.jobs->lane[1].listing && !broker.jobs->pending;
}

static struct allocation *made(struct peer *peer, const char *name, unsigned exported)
{
	broker.memory->exported = exported;
	create_with_mode(peer, name, 0600);
	return registry_find(broker.registry, name)->allocation;
}

static void test_what_owner_and_broker_have_stays(void **state)
{
	struct peer peer = join();
	uint64_t pooled;

	(void)state;
	usages_limit(&broker.memory->usages, 64 << 20);
	made(&peer, "a", EXPORT_IPC);
	made(&peer, "b", EXPORT_VMM);
	create_with_mode(&peer, "c", 0640);
	expect_done(&peer, WIRE_UNLINK, "c");
	EXPECT_SOON(!broker.jobs->pending);
	pooled = broker.memory->usages.bytes[0][SPARE_POOLED] + broker.memory->usages.bytes[0][SPARE_IDLE];
	assert_true(pooled);
	dies_and_joins();
	EXPECT_SOON(has_listed());
	run_passes();
	assert_int_equal(owned(), 3);
	assert_int_equal(broker.memory->usages.bytes[0][SPARE_POOLED] + broker.memory->usages.bytes[0][SPARE_IDLE],
			 pooled);
	assert_int_equal(events_of(EVENT_UNLINK_ORPHAN), 0);
	assert_non_null(registry_find(broker.registry, "a"));
	usages_limit(&broker.memory->usages, 0);
	part(&peer);
}

/* The last broker died when the owner had made the memory, and before it noted that. */
static void test_memory_that_nobody_knows_is_released(void **state)
{
	struct peer peer = join();
	int before;

	(void)state;
	made(&peer, "a", EXPORT_VMM);
	EXPECT_SOON(!broker.jobs->pending);
	before = descriptors();
	order(ORDER_ALLOCATE, 0);
	dies_and_joins();
	assert_int_equal(jobs_done, 0);
	EXPECT_SOON(has_listed());
	assert_int_equal(owned(), 1);
	EXPECT_SOON(descriptors() <= before + 1); /* the host device keeps the one of freed memory for a while */
	broker.counters.allocations_made++; /* so does the harness count that one */
	broker.counters.allocations_freed++;
	assert_int_equal(events_of(EVENT_DEVICE_FAILED), 0);
	part(&peer);
}

/* The last broker died after an owner's end, and before the next owner had taken this over. */
static void test_memory_by_a_descriptor_is_taken_over_again(void **state)
{
	struct peer peer = join();
	struct allocation *allocation = made(&peer, "a", EXPORT_VMM);
	int descriptor;

	(void)state;
	descriptor = allocation->descriptor;
	allocation->descriptor = -1; /* the next owner is not told */
	owner_ends(true);
	EXPECT_SOON(serves());
	allocation->descriptor = descriptor;
	EXPECT_SOON(!broker.jobs->pending);
	assert_int_equal(owned(), 0);
	dies_and_joins();
	EXPECT_SOON(has_listed());
	assert_int_equal(owned(), 1);
	assert_non_null(registry_find(broker.registry, "a"));
	assert_false(allocation->ended);
	part(&peer);
}

static void test_other_memory_has_ended_with_its_owner(void **state)
{
	struct peer peer = join();
	struct allocation *allocation;

	(void)state;
	allocation = made(&peer, "a", EXPORT_IPC);
	create_with_mode(&peer, "b", 0640);
	order(ORDER_RELEASE, allocation->memory);
	EXPECT_SOON(jobs_done == 1 && !broker.jobs->pending);
	dies_and_joins();
	EXPECT_SOON(has_listed());
	assert_null(registry_find(broker.registry, "a")); /* its allocation may be freed by now */
	assert_non_null(registry_find(broker.registry, "b"));
	assert_int_equal(events_of(EVENT_UNLINK_ORPHAN), 1);
	part(&peer);
}

/* What the next broker had pooled is of no use. */
static void test_a_pool_that_the_owner_lacks_is_evicted(void **state)
{
	struct peer peer = join();
	struct allocation *allocation;

	(void)state;
	usages_limit(&broker.memory->usages, 64 << 20);
	allocation = made(&peer, "a", EXPORT_IPC);
	expect_done(&peer, WIRE_UNLINK, "a");
	EXPECT_SOON(!broker.jobs->pending);
	order(ORDER_RELEASE, allocation->memory);
	EXPECT_SOON(jobs_done == 1 && !broker.jobs->pending);
	dies_and_joins();
	EXPECT_SOON(has_listed());
	assert_int_equal(broker.memory->usages.bytes[0][SPARE_POOLED], 0);
	assert_int_equal(broker.memory->usages.limit, 64 << 20);
	usages_limit(&broker.memory->usages, 0);
	part(&peer);
}

static void test_an_owner_that_has_ended_is_not_joined(void **state)
{
	struct owner_setup like = broker.devices->setup;
	static struct devices joining;
	struct broker next = broker;
	int pair[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	close(pair[1]);
	next.devices = &joining;
	assert_int_equal(devices_join(&next, pair[0], 1, &like), -ECONNRESET);
	assert_int_equal(close(pair[0]), -1);
	assert_false(joining.joined);
}

#define WITH_OWNER(name) cmocka_unit_test_setup_teardown(name, setup, harness_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_OWNER(test_an_owner_that_ends_is_replaced),
		WITH_OWNER(test_none_starts_before_the_last_one_is_gone),
		WITH_OWNER(test_no_other_one_starts_after_a_hundred_strikes),
		WITH_OWNER(test_one_that_is_killed_counts_little_and_not_if_it_has_worked),
		WITH_OWNER(test_a_crash_counts_although_orders_were_answered_but_not_after_a_while),
		WITH_OWNER(test_one_that_does_not_start_counts_as_a_crash),
		WITH_OWNER(test_one_that_is_late_counts_as_a_crash),
		WITH_OWNER(test_one_with_other_devices_is_refused),
		WITH_OWNER(test_a_stop_without_an_owner_is_regular),
		WITH_OWNER(test_an_owner_that_crashes_in_a_stop_is_told),
		WITH_OWNER(test_what_owner_and_broker_have_stays),
		WITH_OWNER(test_memory_that_nobody_knows_is_released),
		WITH_OWNER(test_memory_by_a_descriptor_is_taken_over_again),
		WITH_OWNER(test_other_memory_has_ended_with_its_owner),
		WITH_OWNER(test_a_pool_that_the_owner_lacks_is_evicted),
		WITH_OWNER(test_an_owner_that_has_ended_is_not_joined),
	};

	return cmocka_run_group_tests_name("devices", tests, harness_group_setup, harness_group_teardown);
}
