/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-load.c - a ledger that was cut between two commits, that is damaged, or that another version wrote, and a load
 * that runs out of memory. test-load-random.c has what is noted of each kind of object. successor.h is the world.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/memory/restore.h"
#include "broker/registry/mappings.h"
#include "broker/session/restore.h"
#include "broker/session/session-end.h"
#include "common/error.h"
#include "tests/unit/broker/failing.h"
#include "successor.h"

#define BUFFERS 100 /* more than a commit has room for */

/* ---- what note.c puts into the ledger, seen and changed on its way ---- */

static void (*on_put)(uint16_t type, void *record, size_t *size);
static bool loads_at_each_put, is_loading;
static unsigned loads;

void __real_ledger_put(struct ledger *ledger, uint32_t slot, uint16_t type, const void *record, size_t size);
void __wrap_ledger_put(struct ledger *ledger, uint32_t slot, uint16_t type, const void *record, size_t size);
void __real_ledger_free(struct ledger *ledger, uint32_t slot);
void __wrap_ledger_free(struct ledger *ledger, uint32_t slot);

/* As a kill at this moment would leave the ledger: a part of what changes may be committed. */
static void load_now(void)
{
	struct loaded loaded;

	if (!loads_at_each_put || is_loading)
		return;
	is_loading = true;
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	if (loaded.damaged)
		print_message("%s\n", error_text());
	assert_int_equal(loaded.damaged, 0);
	successor_end();
	loads++;
	is_loading = false;
}

void __wrap_ledger_put(struct ledger *ledger, uint32_t slot, uint16_t type, const void *record, size_t size)
{
	uint8_t bytes[LEDGER_RECORD_MAX] __attribute__((aligned(8)));

	load_now();
	memcpy(bytes, record, size);
	if (on_put)
		on_put(type, bytes, &size);
	__real_ledger_put(ledger, slot, type, bytes, size);
}

void __wrap_ledger_free(struct ledger *ledger, uint32_t slot)
{
	load_now();
	__real_ledger_free(ledger, slot);
}

static int setup(void **state)
{
	int error;

	harness_buffers = 2 * BUFFERS;
	on_put = NULL;
	loads_at_each_put = is_loading = false;
	error = harness_setup(state);
	if (!error)
		successor_note();
	return error;
}

static int teardown(void **state)
{
	on_put = NULL;
	successor_forget();
	return harness_teardown(state);
}

/* ---- a session that uses much ---- */

static void create_many(struct peer *peer)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		struct wire_message message;
		char name[16];

		snprintf(name, sizeof name, "b%u", i);
		message = named(WIRE_CREATE, 7, name);
		message.create.size = 256;
		message.create.flags = i % 10 ? 0 : GPUB_TIMELINE;
		assert_int_equal(answer_to(peer, &message).type, WIRE_DONE);
		acquire(peer, name);
	}
}

static void unlink_many(struct peer *peer)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		char name[16];

		snprintf(name, sizeof name, "b%u", i);
		ask(peer, WIRE_UNLINK, name);
	}
}

/* The end of a session changes more records than a commit has room for: each beginning of them can be loaded. */
static void test_a_commit_of_many_parts(void **state)
{
	struct peer peer = join(), other = join();

	(void)state;
	create_many(&peer);
	expect_equal_successor();
	loads_at_each_put = true;
	bury(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	broker_publish(&broker);
	loads_at_each_put = false;
	assert_true(loads > BUFFERS);
	expect_equal_successor();
	unlink_many(&other);
	part(&other);
}

/* ---- other versions ---- */

static void grow(uint16_t type, void *record, size_t *size)
{
	(void)type;
	memset((uint8_t *)record + *size, 0xa5, 8);
	*size += 8;
}

/* Records of a newer broker, which has more to say. */
static void test_larger_records_are_read(void **state)
{
	struct peer peer = join();
	char *before, *after;
	struct loaded loaded;

	(void)state;
	on_put = grow;
	create_many(&peer);
	before = broker_text(&broker);
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	assert_int_equal(loaded.damaged + loaded.left_out, 0);
	after = broker_text(&successor);
	assert_string_equal(before, after);
	successor_end();
	free(before);
	free(after);
	bury(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	peer = join();
	unlink_many(&peer);
	part(&peer);
}

/* ---- damage ---- */

static unsigned seed = 20261129;

/* Puts a random byte into a record, which is then whole and wrong. */
static void spoil(uint16_t type, void *record, size_t *size)
{
	(void)type;
	if (!(rand_r(&seed) % 5))
		((uint8_t *)record)[(size_t)rand_r(&seed) % *size] = (uint8_t)rand_r(&seed);
}

static void test_wrong_records_do_no_harm(void **state)
{
	struct peer peer = join(), other = join();
	unsigned damaged = 0;
	struct loaded loaded;

	(void)state;
	on_put = spoil;
	for (unsigned i = 0; i < 30; i++) {
		create_many(&peer);
		assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
		damaged += loaded.damaged;
		successor_end();
		bury(&peer);
		EXPECT_SOON(!session_find(&broker, peer.session));
		peer = join();
		unlink_many(&other);
		assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
		successor_end();
	}
	assert_true(damaged > 10);
	part(&peer);
	part(&other);
}

static uint64_t lost_session;

/* Loses what is noted of a session: its record names none. */
static void lose_session(uint16_t type, void *record, size_t *size)
{
	struct session_record *session = record;

	(void)size;
	if (type == TRACKED_SESSION && session->id == lost_session)
		session->id = UINT64_MAX;
}

static void end_in_successor(uint64_t id)
{
	struct session *session = session_find(&successor, id);

	assert_non_null(session);
	while (session->mappings.by_id)
		mapping_end(successor.registry, session->mappings.by_id);
	session->place.ending = true; /* its death is proven */
	session_end_mappings(session);
}

static unsigned count_frees(void)
{
	const struct allocation *allocation;
	unsigned count = 0;

	for (allocation = successor.memory->allocations; allocation; allocation = allocation->next)
		count += allocation->state == ALLOCATION_FREEING;
	return count;
}

/* The mapping of the session whose record is lost is left out, and keeps the memory all the same. */
static void test_after_damage_nothing_is_freed_while_a_process_lives(void **state)
{
	struct peer peer = join(), other = join();
	struct loaded loaded;

	(void)state;
	broker_keep(&broker, 0);
	create_with_mode(&other, "one", 0600);
	lost_session = peer.session;
	on_put = lose_session;
	acquire(&peer, "one");
	tracked_changed(broker.tracking, &session_of(&peer)->tracked);
	expect_done(&other, WIRE_UNLINK, "one");
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	assert_int_equal(loaded.damaged, 1);
	assert_true(loaded.left_out > 0 && successor.memory->doubted);
	assert_int_equal(count_frees(), 0);
	session_hang_up(session_find(&successor, other.session)); /* and lives on */
	assert_non_null(session_find(&successor, other.session));
	end_in_successor(other.session);
	assert_int_equal(count_frees(), 0);
	end_in_successor(peer.session);
	assert_int_equal(count_frees(), 1);
	assert_false(successor.memory->doubted);
	successor_end();
	bury(&peer);
	part(&other);
}

static unsigned records_seen; /* of the type that is spoiled */

static bool is_second(uint16_t type, unsigned spoiled)
{
	return type == spoiled && ++records_seen == 2;
}

static void spoil_memory(uint16_t type, void *record, size_t *size)
{
	(void)size;
	if (type == TRACKED_ALLOCATION)
		((struct allocation_record *)record)->memory = 1; /* of each */
}

static void spoil_device(uint16_t type, void *record, size_t *size)
{
	(void)size;
	if (is_second(type, TRACKED_ALLOCATION))
		((struct allocation_record *)record)->device = 40;
}

static void spoil_state(uint16_t type, void *record, size_t *size)
{
	(void)size;
	if (is_second(type, TRACKED_ALLOCATION))
		((struct allocation_record *)record)->state = ALLOCATION_FREEING;
}

static void spoil_layout(uint16_t type, void *record, size_t *size)
{
	(void)size;
	if (is_second(type, TRACKED_BUFFER))
		((struct buffer_record *)record)->layout = (gpub_layout){ .lanes = 1, .ndim = 200 };
}

static void spoil_session(uint16_t type, void *record, size_t *size)
{
	(void)size;
	if (type == TRACKED_SESSION)
		((struct session_record *)record)->state = 99;
}

static void spoil_place(uint16_t type, void *record, size_t *size)
{
	(void)size;
	if (type == TRACKED_MAPPING)
		((struct mapping_record *)record)->place = 7; /* of each */
}

/*
 * Each is one impossible record of a buffer that a session maps, or of that session: nothing is freed or given to
 * others while its process lives.
 */
static void test_an_impossible_record_is_damage(void **state)
{
	static void (*const spoils[])(uint16_t, void *, size_t *) = { spoil_memory, spoil_device,  spoil_state,
								      spoil_layout, spoil_session, spoil_place };

	(void)state;
	for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
		struct peer peer = join();
		struct loaded loaded;

		create_with_mode(&peer, "one", 0600);
		create_with_mode(&peer, "two", 0600);
		acquire(&peer, "one");
		acquire(&peer, "two");
		successor_forget();
		records_seen = 0;
		on_put = spoils[i];
		successor_note();
		assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
		if (loaded.damaged != 1)
			print_message("%zu: %s\n", i, error_text());
		assert_int_equal(loaded.damaged, 1);
		assert_true(successor.memory->doubted);
		assert_int_equal(successor.sessions->before, 1);
		assert_int_equal(count_frees(), 0);
		assert_null(successor.memory->slabs.shelves);
		successor_end();
		on_put = NULL;
		ask(&peer, WIRE_UNLINK, "one");
		ask(&peer, WIRE_UNLINK, "two");
		bury(&peer);
		EXPECT_SOON(!session_find(&broker, peer.session) && registry_empty(broker.registry));
	}
}

/* What was written last is not given again, even if the record of the next numbers says so. */
static void test_numbers_are_above_all_that_are_used(void **state)
{
	struct peer peer = join();
	struct numbers_record none = { 0 };
	struct loaded loaded;

	(void)state;
	create_with_mode(&peer, "one", 0600);
	acquire(&peer, "one");
	ledger_put(&note.ledger, NOTE_NUMBERS_SLOT, NOTE_NUMBERS, &none, sizeof none);
	ledger_commit(&note.ledger);
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	assert_true(successor.registry->next_serial == broker.registry->next_serial);
	assert_true(successor.registry->next_mapping == broker.registry->next_mapping);
	assert_true(successor.memory->next == broker.memory->next);
	assert_true(successor.sessions->next_id == broker.sessions->next_id);
	assert_true(successor.jobs->numbers > broker.memory->allocations->memory);
	successor_end();
	ask(&peer, WIRE_UNLINK, "one");
	bury(&peer);
}

/* Nobody writes a timeline any more whose writer's record is lost: its readers must not hang. */
static void test_a_timeline_without_its_writer_ends(void **state)
{
	struct peer peer = join(), other = join();
	struct wire_message message = named(WIRE_CREATE, 1, "t");
	struct wire_grant grant;
	struct loaded loaded;

	(void)state;
	message.create.flags = GPUB_TIMELINE;
	assert_int_equal(answer_to(&other, &message).type, WIRE_DONE);
	message = named(WIRE_ACQUIRE, 2, "t");
	message.acquire.rights = GPUB_READ | GPUB_WRITE;
	grant = answer_to(&peer, &message).grant;
	wire_init(&message, WIRE_WRITER, 3);
	message.grant_id.mapping = grant.mapping;
	message.grant_id.serial = grant.serial;
	assert_int_equal(answer_to(&peer, &message).type, WIRE_DONE);
	lost_session = peer.session;
	on_put = lose_session;
	tracked_changed(broker.tracking, &session_of(&peer)->tracked);
	expect_served(&other);
	assert_int_equal(successor_load(ledger_fd(&note.ledger), &loaded), 0);
	assert_int_equal(registry_find(successor.registry, "t")->timeline->mark != 0, 1);
	successor_end();
	on_put = NULL;
	ask(&other, WIRE_UNLINK, "t");
	bury(&peer);
	part(&other);
}

/* ---- no memory ---- */

static void test_a_load_without_memory_ends(void **state)
{
	struct peer peer = join();
	struct loaded loaded;
	bool failed = true;

	(void)state;
	create_many(&peer);
	expect_equal_successor();
	for (unsigned after = 0; failed; after += 1 + after / 20) {
		successor_begin();
		fail_after(after);
		(void)successor_go_on(ledger_fd(&note.ledger), &loaded);
		failed = fail_ended();
		successor_end();
	}
	bury(&peer);
	EXPECT_SOON(!session_find(&broker, peer.session));
	peer = join();
	unlink_many(&peer);
	part(&peer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(test_a_commit_of_many_parts), TEST(test_larger_records_are_read),
					    TEST(test_wrong_records_do_no_harm),
					    TEST(test_after_damage_nothing_is_freed_while_a_process_lives),
					    TEST(test_an_impossible_record_is_damage),
					    TEST(test_numbers_are_above_all_that_are_used),
					    TEST(test_a_timeline_without_its_writer_ends),
					    TEST(test_a_load_without_memory_ends) };

	return cmocka_run_group_tests_name("load", tests, harness_group_setup, harness_group_teardown);
}
