/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-records-reset.c - what a client keeps, and what it lets go of, when a device of its process is reset: slots of
 * returns that have not landed, timelines of leases that were ended, open handles, loaded modules.
 *
 * Records are made open by hand, as in records-harness.c. A device is a table with an epoch that a test sets. It opens
 * a handle at the same address each time, as a driver may.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "client/client.h"
#include "client/close.h"
#include "client/hold.h"
#include "client/lease.h"
#include "client/mapping.h"
#include "client/records.h"
#include "client/timeline-maps.h"
#include "common/error.h"
#include "launch/module.h"

#define MAPPING 9
#define LIVE  BOARD_WORD(5, BOARD_LIVE)

static char memory[64];

/* ---- devices ---- */

static _Atomic uint64_t epoch = 1;
/* strays: closes of what is not open, or was opened in another epoch */
static atomic_uint      opens, closes, syncs, strays;
static uint64_t         opened_in;
static int              now_open, open_error;
static void (*during_call)(void); /* done once, in the midst of the next call that opens or closes */

static void reset(void)
{
	now_open = 0;
	atomic_fetch_add(&epoch, 1);
}

static void in_the_midst(void)
{
	void (*now)(void) = during_call;

	during_call = NULL;
	if (now)
		now();
}

static uint64_t fake_epoch(int ordinal)
{
	(void)ordinal;
	return atomic_load(&epoch);
}

static int fake_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	if (!atomic_load(&epoch))
		atomic_store(&epoch, 1);
	atomic_fetch_add(&opens, 1);
	if (!open_error) {
		now_open++;
		opened_in = atomic_load(&epoch);
		*ptr = memory;
	}
	in_the_midst();
	return open_error ? error_set(open_error, "it does not open") : 0;
}

static int fake_close(int ordinal, void *base)
{
	uint64_t began = atomic_load(&epoch);

	(void)ordinal;
	(void)base;
	in_the_midst();
	atomic_fetch_add(&closes, 1);
	if (!now_open)
		return error_set(-EINVAL, "it is not open");
	strays += opened_in != began;
	now_open--;
	return 0;
}

static int fake_sync(int ordinal, const struct device_handle *handle, uint64_t size)
{
	(void)ordinal;
	(void)handle;
	(void)size;
	atomic_fetch_add(&syncs, 1);
	in_the_midst();
	return 0;
}

/* A first use begins the first epoch. */
static int fake_check(int ordinal)
{
	uint64_t unused = 0;

	(void)ordinal;
	atomic_compare_exchange_strong(&epoch, &unused, 1);
	return 0;
}

static int fake_page(void *page, size_t size, bool writable)
{
	(void)page;
	(void)size;
	(void)writable;
	return 0;
}

static unsigned unregistered;

static int fake_page_end(void *page)
{
	(void)page;
	unregistered++;
	return 0;
}

/* What is queued lands when the test says so. */
static uint64_t *queued_word[2], queued_value[2];
static unsigned  queued;

static int fake_write(void *stream, uint64_t *word, uint64_t value)
{
	(void)stream;
	queued_word[queued % 2] = word;
	queued_value[queued++ % 2] = value;
	return 0;
}

static void land(unsigned which)
{
	atomic_store((_Atomic uint64_t *)queued_word[which], queued_value[which]);
}

static char loaded_module;
static unsigned readied[DEVICE_CUDA + 1];

static int fake_load(const char *path, void **module)
{
	(void)path;
	*module = &loaded_module;
	return 0;
}

static int fake_unload(void *module)
{
	(void)module;
	return 0;
}

static int host_readied(void *module, int ordinal)
{
	(void)module;
	(void)ordinal;
	readied[DEVICE_HOST]++;
	return 0;
}

static int cuda_readied(void *module, int ordinal)
{
	(void)module;
	(void)ordinal;
	readied[DEVICE_CUDA]++;
	return 0;
}

#define FAKE                                                                                                 \
	.open = fake_open, .close = fake_close, .sync = fake_sync, .check = fake_check, .epoch = fake_epoch,  \
	.page_register = fake_page, .page_unregister = fake_page_end, .stream_write = fake_write,             \
	.module_load = fake_load, .module_unload = fake_unload, .module_suffix = ""

static const struct device one_kind = { .kind = DEVICE_HOST, .module_ready = host_readied, FAKE };
static const struct device other_kind = { .kind = DEVICE_CUDA, .module_ready = cuda_readied, FAKE };

/* ---- a client ---- */

static struct gpub_client *client;
static struct record *record;
static _Atomic uint64_t board_generation = LIVE;

static void record_opens(uint64_t id)
{
	struct mapping *mapping = calloc(1, sizeof *mapping);

	assert_non_null(mapping);
	mapping->id = id;
	mapping->base[VIEW_READ] = mapping->base[VIEW_WRITE] = memory;
	mapping->epoch = atomic_load(&epoch);
	now_open++;
	opened_in = mapping->epoch;
	assert_int_equal(mapping_add(client, mapping), 0);
	record->generation = &board_generation;
	record->live = LIVE;
	record->rights = GPUB_READ | GPUB_WRITE;
	mapping_attach(mapping, record);
	atomic_store(&record->state, RECORD_WORD(id, RECORD_OPEN));
}

static int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	tables_init();
	atomic_store(&epoch, 1);
	opens = closes = syncs = strays = 0;
	now_open = open_error = 0;
	queued = unregistered = 0;
	during_call = NULL;
	client = client_alloc();
	if (!client)
		return -1;
	client->device = &one_kind;
	client->link.sock.fd = -1;
	client->records.free_min = 0; /* a record serves again at once */
	client->cache.mappings = CACHE_MAPPINGS;
	atomic_store(&client->epochs[0], 1);
	atomic_store(&client->guard->state, CLIENT_OPEN);
	record = record_bind(client, "a", 0);
	return record ? record_grow(client, record) : -1;
}

static int teardown(void **state)
{
	struct record *next;

	(void)state;
	timeline_maps_forget(client);
	for (; client->records.all; client->records.all = next) {
		next = client->records.all->next;
		free(client->records.all);
	}
	free(client->records.numbered);
	memset(&client->records, 0, sizeof client->records);
	munmap(client->slots.slot, SLOTS_MAX * sizeof(struct slot));
	memset(&client->slots, 0, sizeof client->slots);
	table_deinit(&client->table);
	table_init(&client->table);
	sodium_free(client->key);
	client->key = NULL;
	atomic_store(&client->guard->state, CLIENT_ENDED);
	client_recycle(client);
	return 0;
}

static gpub_lease lease_take(void)
{
	uint64_t token = 0;

	assert_int_equal(record_hold(record, &token), 0);
	return (gpub_lease){ .client = client, .token = token, .rights = GPUB_READ };
}

static void notice(void)
{
	pthread_mutex_lock(&client->lock);
	assert_int_equal(client_notice_reset(client, 0), 1);
	pthread_mutex_unlock(&client->lock);
}

static void trim(void)
{
	assert_int_equal(gpub_trim(client), 0);
}

/* ---- slots ---- */

/*
 * A lease of before a reset is returned on a stream of another device, or of the context behind the reset: that lands
 * later. Were its slot taken before, its sequence would hide the next return's, and the mapping would never be closed.
 */
static void invariant_10_a_return_that_lands_late_hides_no_other(void **state)
{
	gpub_lease old, fresh[SLOTS_FIRST];

	(void)state;
	record_opens(MAPPING);
	old = lease_take();
	assert_int_equal(gpub_return_on(&old, NULL), 0);
	reset();
	notice();
	assert_null(client->mappings); /* it was not waited for */
	assert_ptr_equal(record_bind(client, "b", 0), record);
	record_opens(MAPPING + 1);
	fresh[0] = lease_take();
	assert_int_not_equal(token_index(fresh[0].token), token_index(old.token));
	assert_int_equal(gpub_return_on(&fresh[0], NULL), 0);
	land(1);
	land(0);
	assert_int_equal(gpub_return_on(&old, NULL), -ESTALE);
	trim();
	assert_null(client->mappings);
	assert_int_equal(closes, 1);
	/* and then its slot is as good as any */
	assert_ptr_equal(record_bind(client, "c", 0), record);
	record_opens(MAPPING + 2);
	for (unsigned i = 0; i < SLOTS_FIRST; i++)
		fresh[i] = lease_take();
	for (unsigned i = 0; i < SLOTS_FIRST; i++)
		assert_int_equal(gpub_return(&fresh[i]), 0);
	trim();
	assert_null(client->mappings);
}

/* One that never lands holds up no close either, neither of its own buffer nor of the next ones. */
static void test_a_return_that_never_lands(void **state)
{
	gpub_lease lost, fresh;

	(void)state;
	for (uint64_t i = 0; i < 2 * SLOTS_FIRST; i++) {
		record_opens(MAPPING + 2 * i);
		if (record_hold_any(record, &lost.token))
			assert_int_equal(record_grow(client, record), 0);
		else
			record_drop_holds(record);
		lost = lease_take();
		assert_int_equal(gpub_return_on(&lost, NULL), 0);
		reset();
		notice();
		assert_null(client->mappings);
		assert_ptr_equal(record_bind(client, "b", 0), record);
		record_opens(MAPPING + 2 * i + 1);
		assert_int_equal(record_grow(client, record), 0);
		fresh = lease_take();
		assert_int_equal(gpub_return(&fresh), 0);
		trim();
		assert_null(client->mappings);
		assert_ptr_equal(record_bind(client, "c", 0), record);
	}
	assert_int_equal(strays, 0);
}

/*
 * However many leases a slot had: where no reset ended a return it is the present buffer's, and waited for until it
 * lands.
 */
static void invariant_2_a_return_is_waited_for_after_any_number_of_leases(void **state)
{
	/* from base 0 half of all there are, and one */
	const uint64_t sequence = (1ull << (SLOT_SEQUENCE_BITS - 1)) + 1;
	struct slot *slot = NULL;
	bool held;

	(void)state;
	record_opens(MAPPING);
	lease_take();
	for (unsigned i = 0; i < SLOTS_FIRST; i++)
		if (SLOT_STATE(atomic_load(&record->block[0][i].hold)) == SLOT_HELD)
			slot = &record->block[0][i];
	assert_non_null(slot);
	assert_int_equal(atomic_load(&slot->base), 0);
	atomic_store(&slot->hold, SLOT_HOLD(sequence, SLOT_RETURNED));
	assert_false(record_unused(record, &held));
	atomic_store(slot->word, sequence);
	assert_true(record_unused(record, &held));
	trim();
	assert_null(client->mappings);
}

/* ---- timelines ---- */

static struct timeline_map *timeline_of_serial(uint64_t serial)
{
	struct wire_grant grant = { .serial = serial };
	struct timeline_map *map;
	int fd = memfd_create("gpubroker-timeline", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0 && !ftruncate(fd, TIMELINE_PAGE_SIZE) &&
		    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	map = timeline_map_get(client, &grant, fd);
	close(fd);
	assert_non_null(map);
	map->registered = true; /* a stream has waited for it: it is given back by a trim, not at once */
	return map;
}

/*
 * The reference of a record whose lease was ended by force is kept, for a call may be under way. That of the record's
 * next buffer is not.
 */
static void test_the_timeline_of_an_ended_lease(void **state)
{
	static struct board_end ends[1];
	static _Atomic uint64_t words[1];
	struct timeline_map *kept, *next;

	(void)state;
	client->board.words = words;
	client->board.ends = ends;
	kept = timeline_of_serial(1);
	record_opens(MAPPING);
	record->timeline = kept;
	(void)lease_take();
	reset();
	notice();
	assert_int_equal(kept->references, 1);
	trim();
	assert_int_equal(unregistered, 0);
	assert_int_equal(HASH_COUNT(client->timelines.by_serial), 1);
	assert_ptr_equal(record_bind(client, "b", 0), record);
	next = timeline_of_serial(2);
	record_opens(MAPPING + 1);
	record->timeline = next;
	trim();
	assert_int_equal(unregistered, 1);
	assert_int_equal(HASH_COUNT(client->timelines.by_serial), 1);
	assert_int_equal(kept->references, 1);
	timeline_maps_forget(client); /* as a disconnect */
	assert_int_equal(unregistered, 2);
	assert_int_equal(HASH_COUNT(client->timelines.by_serial), 0);
}

/* ---- handles ---- */

static uint8_t key[WIRE_KEY_SIZE];
static struct board_header header;
static struct sealed_handle handles[2];

/* A GRANT whose sealed handle is good. */
static struct wire_grant grant_made(uint64_t mapping)
{
	struct wire_grant made = { .mapping = mapping,
				   .serial = 5,
				   .size = sizeof memory,
				   .span = sizeof memory,
				   .reserve = sizeof memory,
				   .place = mapping % 2 };
	struct seal_terms terms = { .mapping = mapping, .serial = 5, .size = sizeof memory, .version = WIRE_VERSION };
	struct device_handle handle = { 0 };

	client->board.header = &header;
	client->board.handles = handles;
	sodium_free(client->key);
	client->key = sodium_malloc(sizeof key);
	assert_non_null(client->key);
	memcpy(client->key, key, sizeof key);
	client->session = 0;
	handle_seal(&handles[made.place], &terms, &handle, key);
	return made;
}

static struct mapping *handle_opens(uint64_t id)
{
	struct wire_grant made = grant_made(id);
	struct mapping *mapping = NULL;

	assert_int_equal(mapping_open(client, &made, 0, &mapping), 0);
	return mapping;
}

static bool is_mapped(const struct mapping *mapping)
{
	return now_open == 1 && opened_in == mapping->epoch && mapping->epoch == atomic_load(&epoch);
}

static void invariant_8_what_opens_beside_a_reset_is_opened_again(void **state)
{
	struct mapping *mapping;

	(void)state;
	during_call = reset;
	mapping = handle_opens(MAPPING);
	assert_true(is_mapped(mapping) && opens == 2 && !strays);
	assert_int_equal(mapping_unmap(client, mapping), 0);
	free(mapping);
}

/* In the first use of a device, too, which has no epoch until then. */
static void invariant_8_a_reset_in_the_first_use_of_a_device(void **state)
{
	struct mapping *mapping;

	(void)state;
	atomic_store(&epoch, 0);
	during_call = reset;
	mapping = handle_opens(MAPPING);
	assert_true(is_mapped(mapping) && opens == 2 && !strays);
	free(mapping);
	now_open = 0;
	atomic_store(&epoch, 0);
	opens = 0;
	mapping = handle_opens(MAPPING);
	assert_true(is_mapped(mapping) && opens == 1);
	free(mapping);
}

static void test_an_open_that_fails_is_not_repeated(void **state)
{
	struct wire_grant made = grant_made(MAPPING);
	struct mapping *mapping = NULL;

	(void)state;
	open_error = -EAGAIN;
	assert_int_equal(mapping_open(client, &made, 0, &mapping), -EAGAIN);
	assert_true(!mapping && opens == 1);
}

/*
 * A program that has reset a device and not used it since: what was noted stays, or the next context would be taken
 * for the old one.
 */
static void invariant_8_a_device_without_a_context_is_refused(void **state)
{
	(void)state;
	atomic_store(&epoch, 0);
	pthread_mutex_lock(&client->lock);
	assert_int_equal(client_notice_reset(client, 0), -EIO);
	assert_int_equal(atomic_load(&client->epochs[0]), 1);
	atomic_store(&epoch, 2);
	assert_int_equal(client_notice_reset(client, 0), 1);
	assert_int_equal(client_notice_reset(client, 0), 0);
	pthread_mutex_unlock(&client->lock);
}

/* It would close what has the address now. */
static void invariant_8_a_lost_mapping_closes_nothing(void **state)
{
	struct mapping *lost = handle_opens(MAPPING), *fresh;

	(void)state;
	reset();
	fresh = handle_opens(MAPPING + 1);
	assert_ptr_equal(fresh->base[VIEW_READ], lost->base[VIEW_READ]);
	assert_int_equal(mapping_unmap(client, lost), 0);
	assert_true(is_mapped(fresh) && !closes);
	pthread_mutex_lock(&client->lock);
	assert_int_equal(mapping_sync(client, lost), 0);
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(syncs, 0);
	free(lost);
	free(fresh);
}

#define SCANS 5000

static pthread_t       other;
static struct mapping *others;
static atomic_bool     early;

static void *open_elsewhere(void *unused)
{
	(void)unused;
	others = handle_opens(MAPPING + 1);
	return NULL;
}

/* In the midst of one thread's call the program resets the device, and another thread opens the handle. */
static void reset_and_open(void)
{
	unsigned before = atomic_load(&opens);

	reset();
	assert_int_equal(pthread_create(&other, NULL, open_elsewhere, NULL), 0);
	for (int i = 0; i < SCANS && atomic_load(&opens) == before; i++)
		sched_yield();
	atomic_store(&early, atomic_load(&opens) != before);
}

static void invariant_8_a_close_beside_a_reset_closes_nothing_new(void **state)
{
	struct mapping *mapping = handle_opens(MAPPING);

	(void)state;
	during_call = reset_and_open;
	assert_int_equal(mapping_unmap(client, mapping), 0);
	pthread_join(other, NULL);
	assert_true(!atomic_load(&early) && !strays && is_mapped(others));
	assert_int_equal(mapping_unmap(client, others), 0);
	assert_int_equal(now_open, 0);
	free(mapping);
	free(others);
}

static void invariant_8_a_synchronisation_beside_a_reset(void **state)
{
	struct mapping *mapping = handle_opens(MAPPING);

	(void)state;
	during_call = reset_and_open;
	pthread_mutex_lock(&client->lock);
	assert_int_equal(mapping_sync(client, mapping), 0);
	pthread_mutex_unlock(&client->lock);
	pthread_join(other, NULL);
	assert_true(!atomic_load(&early) && is_mapped(others));
	free(mapping);
	free(others);
}

/* ---- modules ---- */

/*
 * A process may be connected to brokers of both kinds. Their devices have the same ordinals, and may have the same
 * epochs.
 */
static void test_modules_of_both_kinds(void **state)
{
	struct gpub_client *second = client_alloc();
	gpub_module *module[2];

	(void)state;
	assert_non_null(second);
	second->device = &other_kind;
	atomic_store(&second->guard->state, CLIENT_OPEN);
	assert_int_equal(gpub_module_open(&module[0], client, "/etc/passwd"), 0);
	assert_int_equal(gpub_module_open(&module[1], second, "/etc/passwd"), 0);
	for (int i = 0; i < 2; i++) {
		readied[DEVICE_HOST] = readied[DEVICE_CUDA] = 0;
		modules_ready(client, 0);
		modules_ready(second, 0);
		assert_true(readied[DEVICE_HOST] == 1 && readied[DEVICE_CUDA] == 1);
		modules_ready(client, 0);
		modules_ready(second, 0);
		assert_true(readied[DEVICE_HOST] == 1 && readied[DEVICE_CUDA] == 1); /* once */
		reset();
	}
	assert_int_equal(gpub_module_close(module[0]), 0);
	assert_int_equal(gpub_module_close(module[1]), 0);
	atomic_store(&second->guard->state, CLIENT_ENDED);
	client_recycle(second);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(invariant_10_a_return_that_lands_late_hides_no_other),
		TEST(test_a_return_that_never_lands),
		TEST(invariant_2_a_return_is_waited_for_after_any_number_of_leases),
		TEST(test_the_timeline_of_an_ended_lease),
		TEST(invariant_8_what_opens_beside_a_reset_is_opened_again),
		TEST(invariant_8_a_reset_in_the_first_use_of_a_device),
		TEST(invariant_8_a_device_without_a_context_is_refused),
		TEST(test_an_open_that_fails_is_not_repeated),
		TEST(invariant_8_a_lost_mapping_closes_nothing),
		TEST(invariant_8_a_close_beside_a_reset_closes_nothing_new),
		TEST(invariant_8_a_synchronisation_beside_a_reset),
		TEST(test_modules_of_both_kinds),
	};

	alarm(60);
	return cmocka_run_group_tests_name("reset", tests, NULL, NULL);
}
