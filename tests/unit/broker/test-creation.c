/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-creation.c - creates of buffers: which are refused at once, what a create that fails later leaves behind, and
 * who is told.
 *
 * How long a create waits for memory is test-create-queue.c's, and what becomes of a buffer whose creator has ended
 * test-creation-creator.c's. session-harness.h makes the broker and its clients.
 */
#include "session-harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "broker/memory/memory.h"
#include "broker/registry/timeline.h"
#include "broker/request/creation.h"
#include "common/error.h"
#include "device/host.h"
#include "tests/unit/broker/failing.h"

#define DEVICE_MEMORY (256ull << 20)
#define OWNER         4001

static uint64_t granule(void)
{
	return broker.board->header->device[0].granule;
}

/* Nothing of a create is left: no name, no charge, no memory, no slot of the status file. */
static void expect_nothing_made(void)
{
	assert_null(broker.registry->names);
	assert_int_equal(broker.registry->buffer_count, 0);
	assert_true(registry_empty(broker.registry));
	for (enum resource resource = RESOURCE_BYTES; resource <= RESOURCE_BUFFERS; resource++)
		assert_int_equal(used(geteuid(), resource), 0);
	assert_int_equal(broker.counters.buffers_created, 0);
	assert_int_equal(broker.waiting->count, 0);
}

/* ---- what the broker itself creates ---- */

static unsigned done_count;
static int done_error;
static char done_text[320];
static char context_of_done;

static void done(void *context, int error, const char *text)
{
	assert_ptr_equal(context, &context_of_done);
	done_count++;
	done_error = error;
	snprintf(done_text, sizeof done_text, "%s", text ? text : "");
}

static int create(const char *name, const struct amount *amount, unsigned flags)
{
	done_count = 0;
	done_error = 1;
	return broker_create(&broker, name, amount, flags, 0640, done, &context_of_done);
}

static void test_the_broker_creates_a_buffer_of_its_own_user(void **state)
{
	const struct amount amount = { .size = SIZE };
	struct buffer *buffer;
	const struct broker_event *event;

	(void)state;
	assert_int_equal(create("a", &amount, 0), 0);
	buffer = registry_find(broker.registry, "a");
	assert_int_equal(buffer->state, BUFFER_CREATING);
	assert_int_equal(done_count, 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_error, 0);
	assert_int_equal(done_count, 1);
	assert_int_equal(buffer->state, BUFFER_LIVE);
	assert_int_equal(buffer->owner, geteuid());
	assert_int_equal(buffer->group, getegid());
	assert_int_equal(buffer->mode, 0640);
	assert_int_equal(buffer->size, SIZE);
	assert_null(buffer->ephemerals);
	assert_int_equal(broker.counters.buffers_created, 1);
	event = event_last(EVENT_CREATE);
	assert_int_equal(event->actor.session, 0);
	assert_int_equal(event->bytes, SIZE);
	assert_int_equal(event->detail, 0640);
	assert_string_equal(event->name, "a");
	assert_int_equal(event->error, 0);
	/* nobody waited for an answer, so none is timed */
	assert_int_equal(broker.histograms.of[HISTOGRAM_CREATE].nanoseconds, 0);
}

/* The event of the broker's own create has no actor, whoever the buffer's owner is. */
static void test_a_create_of_nobody_has_no_actor(void **state)
{
	const struct creation_order order = { .done = done, .context = &context_of_done };
	struct buffer_spec spec = { .name = "a", .size = SIZE, .owner = OWNER, .group = OWNER, .mode = 0600 };

	(void)state;
	done_count = 0;
	assert_int_equal(creation_begin(&broker, &spec, &order), 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_error, 0);
	assert_int_equal(used(OWNER, RESOURCE_BUFFERS), 1);
	assert_int_equal(event_last(EVENT_CREATE)->actor.uid, 0);
	assert_int_equal(event_last(EVENT_CREATE)->actor.session, 0);
}

static void test_the_broker_is_told_when_a_device_fails(void **state)
{
	const struct amount amount = { .size = SIZE };
	const struct broker_event *event;

	(void)state;
	host_fail_next(HOST_ALLOCATE, 1, EIO);
	assert_int_equal(create("a", &amount, 0), 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_count, 1);
	assert_int_equal(done_error, -EIO);
	assert_string_not_equal(done_text, "");
	event = event_last(EVENT_CREATE_REFUSED);
	assert_int_equal(event->error, -EIO);
	assert_string_equal(event->text, done_text);
	assert_string_equal(event->name, "a");
	assert_int_equal(event->bytes, SIZE);
	assert_int_equal(events_of(EVENT_CREATE), 0);
	expect_nothing_made();
}

/* ---- refused at once ---- */

struct refused {
	const char    *what;  /* in the error message */
	int            error;
	const char    *name;  /* NULL: a good one */
	struct amount  amount;
	unsigned       flags;
};

static const struct refused refused[] = {
	{ "unknown flags", -EINVAL, NULL, { .size = SIZE }, 1u << 31 },
	{ "unknown flags", -EINVAL, NULL, { .size = SIZE }, GPUB_GROWABLE },
	{ "no device 1", -ENODEV, NULL, { .size = SIZE, .device = 1 }, 0 },
	{ "no device 4294967295", -ENODEV, NULL, { .size = SIZE, .device = UINT32_MAX }, 0 },
	{ "at least 1 byte", -EINVAL, NULL, { .size = 0 }, 0 },
	{ "", -EINVAL, "", { .size = SIZE }, 0 },
	{ "", -EINVAL, "no blank", { .size = SIZE }, 0 },
	{ "no element type", -EINVAL, NULL, { .size = SIZE, .layout = { .code = 200, .bits = 32, .lanes = 1 } }, 0 },
	{ "the layout needs", -EINVAL, NULL,
	  { .size = 1023, .layout = { .code = GPUB_FLOAT, .bits = 32, .lanes = 1, .ndim = 1, .shape = { 256 } } }, 0 },
	{ "larger than the whole device", -ENOMEM, NULL, { .size = DEVICE_MEMORY + 1 }, 0 },
	{ "larger than the whole device", -ENOMEM, NULL, { .size = UINT64_MAX }, 0 },
	{ "larger than the whole device", -ENOMEM, NULL, { .size = UINT64_MAX }, GPUB_DEDICATED },
	{ "the reserve is less than the size", -EINVAL, NULL, { .size = SIZE, .reserve = SIZE - 1 }, 0 },
	{ "the reserve is larger than the whole device", -EINVAL, NULL,
	  { .size = SIZE, .reserve = DEVICE_MEMORY + 1 }, 0 },
	{ "the reserve is larger than the whole device", -EINVAL, NULL, { .size = SIZE, .reserve = UINT64_MAX }, 0 },
	{ "at most 16 times the size", -EINVAL, NULL,
	  { .size = SIZE, .reserve = 16 * SIZE + 1 }, GPUB_SAME_ADDRESS },
	{ "at most 16 times the size", -EINVAL, NULL,
	  { .size = UINT64_MAX, .reserve = UINT64_MAX }, GPUB_SAME_ADDRESS },
};

static void invariant_5_absurd_creates_are_refused_and_leave_nothing(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		const struct refused *bad = &refused[i];

		if (create(bad->name ? bad->name : "a", &bad->amount, bad->flags) != bad->error)
			fail_msg("%zu is not refused, or with another error", i);
		if (!strstr(error_text(), bad->what))
			fail_msg("%zu: '%s' is said, and not '%s'", i, error_text(), bad->what);
		run_pass();
		assert_int_equal(done_count, 0);
		expect_nothing_made();
	}
	assert_int_equal(events_of(EVENT_CREATE_REFUSED), 0); /* the caller makes the event, who knows more */
}

static void test_mode_bits_that_no_buffer_has_are_refused(void **state)
{
	const struct amount amount = { .size = SIZE };

	(void)state;
	assert_int_equal(broker_create(&broker, "a", &amount, 0, 01000, done, NULL), -EINVAL);
	assert_int_equal(broker_create(&broker, "a", &amount, 0, 0777u | 1u << 31, done, NULL), -EINVAL);
	expect_nothing_made();
	context_of_done = 0;
	done_count = 0;
	assert_int_equal(broker_create(&broker, "a", &amount, 0, 0777, done, &context_of_done), 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_error, 0);
}

/* The largest of what is allowed. */
static void test_what_is_just_small_enough_is_created(void **state)
{
	const struct amount amounts[] = {
		{ .size = 1 },
		{ .size = 1024, .layout = { .code = GPUB_FLOAT, .bits = 32, .lanes = 1, .ndim = 1, .shape = { 256 } } },
		{ .size = SIZE, .reserve = SIZE },
		{ .size = SIZE, .reserve = DEVICE_MEMORY },
		{ .size = SIZE, .reserve = 16 * SIZE },
	};
	char name[8];

	(void)state;
	for (unsigned i = 0; i < sizeof amounts / sizeof *amounts; i++) {
		snprintf(name, sizeof name, "b%u", i);
		assert_int_equal(create(name, &amounts[i], i == 4 ? GPUB_SAME_ADDRESS : 0), 0);
		EXPECT_SOON(done_count);
		assert_int_equal(done_error, 0);
	}
}

static void test_a_buffer_may_be_as_large_as_the_device(void **state)
{
	const struct amount amount = { .size = DEVICE_MEMORY };

	(void)state;
	assert_int_equal(create("a", &amount, 0), 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_error, 0);
	assert_int_equal(registry_find(broker.registry, "a")->allocation->span, DEVICE_MEMORY);
}

static void test_a_stopping_broker_creates_nothing(void **state)
{
	const struct amount amount = { .size = SIZE };

	(void)state;
	broker.stopping = true;
	assert_int_equal(create("a", &amount, 0), -ECONNREFUSED);
	assert_non_null(strstr(error_text(), "stopping"));
	broker.stopping = false;
	expect_nothing_made();
}

static void test_only_who_may_create_does(void **state)
{
	const struct access_list creators = { .restricted = true };
	const struct access_list *before = broker.creators;
	struct wire_message message = named(WIRE_CREATE, 77, "a");
	struct peer peer = join_as(OWNER);

	(void)state;
	broker.creators = &creators;
	expect_refused_saying(&peer, &message, -EACCES, "uid 4001 may not create buffers here");
	assert_null(broker.registry->names);
	broker.creators = before;
	assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
	part(&peer);
}

static void test_a_name_that_is_taken_stays_who_has_it(void **state)
{
	const struct amount amount = { .size = SIZE }, other = { .size = 2 * SIZE };

	(void)state;
	assert_int_equal(create("a", &amount, 0), 0);
	/* the name is taken from the request on */
	assert_int_equal(create("a", &other, 0), -EEXIST);
	EXPECT_SOON(registry_find(broker.registry, "a")->state == BUFFER_LIVE);
	assert_int_equal(create("a", &other, 0), -EEXIST);
	assert_int_equal(registry_find(broker.registry, "a")->size, SIZE);
	assert_int_equal(used(geteuid(), RESOURCE_BUFFERS), 1);
}

/* ---- shapes ---- */

static struct buffer *made(const char *name, const struct amount *amount, unsigned flags)
{
	assert_int_equal(create(name, amount, flags), 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_error, 0);
	return registry_find(broker.registry, name);
}

static void test_small_buffers_lie_side_by_side(void **state)
{
	const struct amount small = { .size = 100 }, growing = { .size = 100, .reserve = 200 };
	struct buffer *first = made("a", &small, 0), *second, *other;

	(void)state;
	assert_int_equal(broker.counters.buffers_recycled, 0);
	/* its memory is there, so it is live at once */
	assert_int_equal(create("b", &small, 0), 0);
	assert_int_equal(done_count, 1);
	assert_int_equal(done_error, 0);
	second = registry_find(broker.registry, "b");
	assert_int_equal(second->state, BUFFER_LIVE);
	assert_ptr_equal(first->allocation, second->allocation);
	assert_int_equal(broker.counters.buffers_recycled, 1);
	assert_int_equal(broker.counters.buffers_created, 2);
	assert_int_equal(broker.counters.allocations_made, 1);
	assert_int_equal(first->allocation->slab.kind.exported, EXPORT_IPC);
	/* alone in whole granules */
	other = made("c", &small, GPUB_DEDICATED);
	assert_ptr_not_equal(other->allocation, first->allocation);
	assert_int_equal(other->allocation->span, granule());
	assert_int_equal(other->allocation->slab.kind.range, granule());
	assert_int_equal(other->allocation->slab.kind.exported, EXPORT_IPC);
	/* what may grow, or has one address, is of a kind that can */
	other = made("d", &small, GPUB_SAME_ADDRESS);
	assert_int_equal(other->allocation->span, granule());
	assert_int_equal(other->allocation->slab.kind.exported, EXPORT_VMM);
	assert_true(other->allocation->address);
	other = made("e", &growing, 0);
	assert_int_equal(other->allocation->span, granule());
	assert_int_equal(other->allocation->slab.kind.exported, EXPORT_VMM);
	assert_int_equal(other->reserve, granule());
	assert_int_equal(broker.counters.buffers_recycled, 1);
}

/* ---- undone ---- */

/* Each of the calls for memory fails once. The create is refused, or has what it needs. */
static void expect_undone_without_memory(const struct amount *amount, unsigned flags, unsigned at_least)
{
	int before = descriptors();
	unsigned calls = 0, refusals = 0;

	for (bool failed = true; failed; calls++) {
		uint64_t created = broker.counters.buffers_created;
		int error;

		fail_after(calls);
		error = create("a", amount, flags);
		failed = fail_ended();
		if (error) {
			assert_true(failed);
			assert_int_equal(error, -ENOMEM);
			assert_int_equal(done_count, 0);
			refusals++;
		} else {
			EXPECT_SOON(done_count);
			assert_int_equal(done_count, 1);
			if (!done_error) {
				assert_int_equal(registry_find(broker.registry, "a")->state, BUFFER_LIVE);
				registry_unlink(broker.registry, registry_find(broker.registry, "a"));
				EXPECT_SOON(registry_empty(broker.registry));
			}
			refusals += done_error == -ENOMEM;
		}
		assert_null(broker.registry->names);
		assert_int_equal(broker.registry->buffer_count, 0);
		assert_true(registry_empty(broker.registry));
		assert_int_equal(broker.counters.buffers_created, created + (!error && !done_error));
		assert_int_equal(used(geteuid(), RESOURCE_BUFFERS), 0);
		assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), 0);
		assert_true(descriptors() <= before + 64);
	}
	assert_in_range(refusals, at_least, calls);
}

static void test_a_create_without_memory_is_undone(void **state)
{
	const struct amount amount = { .size = SIZE };

	(void)state;
	expect_undone_without_memory(&amount, 0, 5);
}

static void test_a_create_with_a_timeline_without_memory_is_undone(void **state)
{
	const struct amount amount = { .size = SIZE, .reserve = 2 * SIZE };

	(void)state;
	expect_undone_without_memory(&amount, GPUB_TIMELINE | GPUB_SAME_ADDRESS, 6);
}

static void test_a_create_over_a_quota_is_undone(void **state)
{
	uint64_t *limit = broker.accounting->quotas.fallback.limit;
	const struct amount amount = { .size = SIZE };

	(void)state;
	limit[RESOURCE_BUFFERS] = 0;
	assert_int_equal(create("a", &amount, 0), -EDQUOT);
	expect_nothing_made();
	limit[RESOURCE_BUFFERS] = QUOTA_NONE;
	limit[RESOURCE_BYTES] = SIZE - 1;
	assert_int_equal(create("a", &amount, 0), -EDQUOT);
	expect_nothing_made();
	limit[RESOURCE_BYTES] = QUOTA_NONE;
	/* the device has one more for the allocation, which is charged first */
	limit[RESOURCE_DESCRIPTORS] = broker.memory->descriptors + TIMELINE_DESCRIPTORS - 1;
	assert_int_equal(create("a", &amount, GPUB_TIMELINE), -EDQUOT);
	expect_nothing_made();
	assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), 0);
	limit[RESOURCE_DESCRIPTORS]++;
	made("a", &amount, GPUB_TIMELINE);
	assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), limit[RESOURCE_DESCRIPTORS]);
	assert_non_null(registry_find(broker.registry, "a")->timeline);
	limit[RESOURCE_DESCRIPTORS] = QUOTA_NONE;
}

/* There is no descriptor for the timeline's page: its charge is returned, too. */
static void test_a_create_without_descriptors_is_undone(void **state)
{
	const struct amount amount = { .size = SIZE };
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(create("a", &amount, GPUB_TIMELINE), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	expect_nothing_made();
	assert_int_equal(used(geteuid(), RESOURCE_DESCRIPTORS), 0);
}

/* Creates "first", and has a create of "waits" wait for memory: its request has the number 2. */
static void have_one_wait(struct peer *peer)
{
	struct wire_message message = named(WIRE_CREATE, 1, "first");

	message.create.size = 160u << 20;
	assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
	message = named(WIRE_CREATE, 2, "waits");
	message.create.size = 160u << 20;
	message.create.timeout_ms = -1;
	say(peer->sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
}

/* The device has memory, so the create neither waits nor counts as a failure of the device. */
static void test_an_owner_out_of_memory_refuses_the_create(void **state)
{
	struct wire_message message = named(WIRE_CREATE, 1, "first");
	struct peer peer = join();

	(void)state;
	message.create.timeout_ms = -1;
	message.create.size = 160u << 20;
	host_fail_next(HOST_ALLOCATE, 1, ENOBUFS);
	expect_refused(&peer, &message, -ENOMEM);
	assert_int_equal(events_of(EVENT_DEVICE_FAILED), 0);
	assert_int_equal(broker.waiting->count, 0);
	part(&peer);
}

/* Others of its user wait for memory, and it would not wait: it is refused before the device is asked. */
static void test_a_create_that_may_not_wait_is_undone(void **state)
{
	struct wire_message message;
	struct peer peer = join();

	(void)state;
	have_one_wait(&peer);
	message = named(WIRE_CREATE, 3, "third");
	message.create.size = 200u << 10; /* would fit */
	expect_refused_saying(&peer, &message, -ENOMEM, "wait with a timeout");
	assert_null(registry_find(broker.registry, "third"));
	assert_int_equal(broker.registry->buffer_count, 2);
	assert_int_equal(event_last(EVENT_CREATE_REFUSED)->error, -ENOMEM);
	/* one that waits is answered when its time is over or when it is cancelled, and once */
	wire_init(&message, WIRE_CANCEL, 2);
	say(peer.sock, &message);
	message = receive_message(peer.sock);
	assert_int_equal(message.type, WIRE_REFUSED);
	assert_int_equal(message.request, 2);
	assert_int_equal(message.refused.error, -ENOMEM);
	run_passes();
	assert_int_equal(received_already(peer.sock, &message), 0);
	assert_null(registry_find(broker.registry, "waits"));
	assert_int_equal(broker.registry->buffer_count, 1);
	part(&peer);
}

/* It says so, and not that there was no memory in time. */
static void test_a_stopping_broker_refuses_a_create_that_waits(void **state)
{
	struct wire_message message;
	struct peer peer = join();

	(void)state;
	have_one_wait(&peer);
	broker_stop(&broker, NULL, NULL);
	message = receive_message(peer.sock);
	assert_int_equal(message.request, 2);
	assert_int_equal(message.refused.error, -ECONNREFUSED);
	assert_non_null(strstr(message.refused.text, "stopping"));
	assert_int_equal(event_last(EVENT_CREATE_REFUSED)->error, -ECONNREFUSED);
	part(&peer);
}

/* The memory that was made for it goes back. */
static void test_a_create_without_addresses_is_undone(void **state)
{
	const struct amount amount = { .size = SIZE };

	(void)state;
	while (addresses_take(&broker.memory->addresses, 1))
		;
	assert_int_equal(create("a", &amount, GPUB_SAME_ADDRESS), 0);
	EXPECT_SOON(done_count);
	assert_int_equal(done_error, -ENOMEM);
	assert_string_not_equal(done_text, "");
	assert_int_equal(event_last(EVENT_CREATE_REFUSED)->error, -ENOMEM);
	EXPECT_SOON(broker.counters.allocations_freed == 1);
	expect_nothing_made();
}

/* ---- answers ---- */

static void test_a_session_gets_one_answer(void **state)
{
	struct wire_message message = named(WIRE_CREATE, 5, "a"), none;
	struct peer peer = join();
	struct socket_extra extra;
	const struct broker_event *event;

	(void)state;
	message.create.mode = 0604;
	say(peer.sock, &message);
	assert_int_equal(receive_with(peer.sock, &message, &extra), 0);
	assert_int_equal(message.type, WIRE_DONE);
	assert_int_equal(message.request, 5);
	assert_int_equal(extra.fd, -1);
	event = event_last(EVENT_CREATE);
	assert_int_equal(event->actor.session, peer.session);
	assert_int_equal(event->actor.pid, getpid());
	assert_int_equal(event->detail, 0604);
	assert_true(broker.histograms.of[HISTOGRAM_CREATE].nanoseconds > 0);
	run_passes();
	assert_int_equal(received_already(peer.sock, &none), 0);
	host_fail_next(HOST_ZERO, 1, EIO);
	message = named(WIRE_CREATE, 6, "b");
	message.create.flags = GPUB_DEDICATED;
	expect_refused(&peer, &message, -EIO);
	assert_int_equal(event_last(EVENT_CREATE_REFUSED)->actor.session, peer.session);
	run_passes();
	assert_int_equal(received_already(peer.sock, &none), 0);
	assert_null(registry_find(broker.registry, "b"));
	assert_int_equal(broker.counters.refused_other, 1);
	part(&peer);
}

/* Whoever reads the status file after the answer sees the buffer: it is written before the answer is sent. */
static unsigned published;

static void count_publish(struct broker *of)
{
	(void)of;
	published++;
}

static void test_the_status_is_written_before_the_answer(void **state)
{
	const struct amount amount = { .size = 100 };
	void (*before)(struct broker *of) = broker.publish;

	(void)state;
	made("a", &amount, 0);
	published = 0;
	broker.publish = count_publish;
	broker.changed = false;
	assert_int_equal(create("b", &amount, 0), 0);
	assert_int_equal(done_count, 1);
	broker.publish = before;
	assert_int_equal(published, 1);
	assert_true(broker.changed);
}

/* Who waits for the name is answered. */
static void test_a_live_buffer_wakes_who_waits_for_it(void **state)
{
	struct wire_message message = named(WIRE_ACQUIRE, 9, "a");
	struct peer creator = join(), waiter = join();

	(void)state;
	message.acquire.timeout_ms = -1;
	say(waiter.sock, &message);
	EXPECT_SOON(broker.waiting->count == 1);
	expect_done(&creator, WIRE_CREATE, "a");
	message = receive_message(waiter.sock);
	assert_int_equal(message.type, WIRE_GRANT);
	assert_int_equal(message.request, 9);
	send_closed(waiter.sock, message.grant.mapping);
	part(&waiter);
	part(&creator);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(test_the_broker_creates_a_buffer_of_its_own_user),
		ON(test_a_create_of_nobody_has_no_actor),
		ON(test_the_broker_is_told_when_a_device_fails),
		ON(invariant_5_absurd_creates_are_refused_and_leave_nothing),
		ON(test_mode_bits_that_no_buffer_has_are_refused),
		ON(test_what_is_just_small_enough_is_created),
		ON(test_a_buffer_may_be_as_large_as_the_device),
		ON(test_a_stopping_broker_creates_nothing),
		ON(test_only_who_may_create_does),
		ON(test_a_name_that_is_taken_stays_who_has_it),
		ON(test_small_buffers_lie_side_by_side),
		ON(test_a_create_without_memory_is_undone),
		ON(test_a_create_with_a_timeline_without_memory_is_undone),
		ON(test_a_create_over_a_quota_is_undone),
		ON(test_a_create_without_descriptors_is_undone),
		ON(test_an_owner_out_of_memory_refuses_the_create),
		ON(test_a_create_that_may_not_wait_is_undone),
		ON(test_a_stopping_broker_refuses_a_create_that_waits),
		ON(test_a_create_without_addresses_is_undone),
		ON(test_a_session_gets_one_answer),
		ON(test_the_status_is_written_before_the_answer),
		ON(test_a_live_buffer_wakes_who_waits_for_it),
	};

	return cmocka_run_group_tests_name("creation", tests, harness_group_setup, harness_group_teardown);
}
