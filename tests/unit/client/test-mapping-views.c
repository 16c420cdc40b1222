/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-mapping-views.c - memory that came by descriptors: its views, the chunks that it grew by, and what comes in
 * between, such as a reset, a close, or another thread.
 *
 * A device is a table of functions that counts what is mapped, and lets a test do something in the midst of a call.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "client/client.h"
#include "client/close.h"
#include "client/mapping.h"
#include "common/error.h"

#define MAPPING   9
#define SPAN    100 /* of each chunk */
#define RANGES  4
#define ADDRESS 0x200000000000ull

/* ---- the device ---- */

struct range {
	uint64_t size; /* that is mapped; 0: nothing is */
	bool     writable;
};

static struct range ranges[RANGES]; /* each range's address is its own */
static _Atomic uint64_t epoch;
static int failing; /* the so manieth call that maps more fails */
static int extensions;
static void (*in_the_midst)(void); /* once, in the next call that maps */

static void midst(void)
{
	void (*now)(void) = in_the_midst;

	in_the_midst = NULL;
	if (now)
		now();
}

static int range_take(uint64_t size, bool writable, void **ptr)
{
	for (int i = 0; i < RANGES; i++) {
		if (ranges[i].size)
			continue;
		ranges[i] = (struct range){ size, writable };
		*ptr = &ranges[i];
		return 0;
	}
	return error_set(-ENOMEM, "no range is left");
}

static unsigned ranges_mapped(void)
{
	unsigned count = 0;

	for (int i = 0; i < RANGES; i++)
		count += ranges[i].size > 0;
	return count;
}

static int fake_map(int ordinal, const struct device_memory *import, void **ptr)
{
	(void)ordinal;
	midst();
	return range_take(import->size, import->writable, ptr);
}

static int fake_extend(int ordinal, void *base, uint64_t offset, int descriptor, uint64_t size)
{
	struct range *range = base;

	(void)ordinal;
	midst();
	if (++extensions == failing)
		return error_set(-ENOMEM, "it does not map");
	assert_true(descriptor >= 0);
	assert_int_equal(offset, range->size);
	range->size += size;
	return 0;
}

static int fake_map_again(int ordinal, const void *ptr, bool writable, void **again)
{
	const struct range *range = ptr;
	uint64_t size = range->size;

	(void)ordinal;
	midst();
	return range_take(size, writable, again);
}

static int fake_make_writable(int ordinal, void *ptr)
{
	(void)ordinal;
	midst();
	((struct range *)ptr)->writable = true;
	return 0;
}

static int fake_unmap(int ordinal, void *ptr)
{
	(void)ordinal;
	assert_true(((struct range *)ptr)->size);
	((struct range *)ptr)->size = 0;
	return 0;
}

static int fake_check(int ordinal)
{
	(void)ordinal;
	return 0;
}

static uint64_t fake_epoch(int ordinal)
{
	(void)ordinal;
	return atomic_load(&epoch);
}

static void reset(void)
{
	atomic_fetch_add(&epoch, 1);
}

static const struct device fake = { .kind = DEVICE_HOST,
				    .map = fake_map,
				    .extend = fake_extend,
				    .map_again = fake_map_again,
				    .make_writable = fake_make_writable,
				    .unmap = fake_unmap,
				    .close = fake_unmap,
				    .check = fake_check,
				    .epoch = fake_epoch };

/* ---- a client, and what the broker sends it ---- */

static struct gpub_client *client;
static uint8_t key[WIRE_KEY_SIZE];
static struct board_header header;
static struct sealed_handle handles[1];

static int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	tables_init();
	memset(ranges, 0, sizeof ranges);
	atomic_store(&epoch, 1);
	failing = extensions = 0;
	in_the_midst = NULL;
	client = client_alloc();
	if (!client)
		return -1;
	client->device = &fake;
	client->link.sock.fd = -1;
	client->cache.mappings = CACHE_MAPPINGS;
	client->board.header = &header;
	client->board.handles = handles;
	client->key = sodium_malloc(sizeof key);
	memcpy(client->key, key, sizeof key);
	client->session = 0;
	client->chunks.count = 0;
	atomic_store(&client->epochs[0], 1);
	atomic_store(&client->guard->state, CLIENT_OPEN);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	chunks_drop(&client->chunks);
	sodium_free(client->key);
	client->key = NULL;
	atomic_store(&client->guard->state, CLIENT_ENDED);
	client_recycle(client);
	return 0;
}

static struct wire_grant grant_of(unsigned chunks, unsigned rights, uint64_t address)
{
	struct wire_grant grant = { .mapping = MAPPING,
				    .serial = 5,
				    .size = chunks * SPAN,
				    .span = chunks * SPAN,
				    .reserve = 10 * SPAN,
				    .rights = rights,
				    .exported = EXPORT_VMM,
				    .address = address };
	struct seal_terms terms = { .mapping = MAPPING,
				    .serial = 5,
				    .size = grant.size,
				    .rights = rights,
				    .version = WIRE_VERSION,
				    .exported = EXPORT_VMM,
				    .address = address };
	struct device_handle handle = { { 0 } };

	handle_seal(&handles[0], &terms, &handle, key);
	return grant;
}

/* MEMORY messages for the chunks from that one on. */
static void brings(const struct wire_grant *grant, unsigned first)
{
	chunks_drop(&client->chunks);
	for (uint64_t at = first * SPAN; at < grant->span; at += SPAN) {
		struct wire_memory memory = { .mapping = MAPPING, .offset = at, .span = SPAN };
		int fd = dup(STDIN_FILENO);

		chunks_keep(&client->chunks, &memory, &fd);
		assert_int_equal(fd, -1);
	}
}

static int open_of(unsigned chunks, unsigned rights, uint64_t address, struct mapping **mapping)
{
	struct wire_grant grant = grant_of(chunks, rights, address);

	brings(&grant, 0);
	*mapping = NULL;
	return mapping_open(client, &grant, 0, mapping);
}

/* Mapped, and the client's. Locked from here on. */
static struct mapping *opened(unsigned chunks, unsigned rights, uint64_t address)
{
	struct mapping *mapping;

	assert_int_equal(open_of(chunks, rights, address, &mapping), 0);
	pthread_mutex_lock(&client->lock);
	assert_int_equal(mapping_add(client, mapping), 0);
	return mapping;
}

static int grows(struct mapping *mapping, unsigned chunks)
{
	struct wire_grant grant = grant_of(chunks, mapping->opened.rights, mapping->opened.address);

	brings(&grant, (unsigned)(mapping->size / SPAN));
	return mapping_extend(client, mapping, &grant);
}

/* Unlocks. */
static void closes(struct mapping *mapping)
{
	mapping_remove(client, mapping);
	pthread_mutex_unlock(&client->lock);
	assert_int_equal(client->mapping_bytes, 0);
}

static uint64_t size_of(const struct mapping *mapping, enum view view)
{
	const struct range *range = mapping->base[view];

	return range ? range->size : 0;
}

/* ---- chunks ---- */

static void test_all_chunks_are_mapped_behind_each_other(void **state)
{
	struct mapping *mapping = opened(3, GPUB_WRITE, 0);

	(void)state;
	assert_true(size_of(mapping, VIEW_WRITE) == 3 * SPAN && !mapping->base[VIEW_READ] && mapping->size == 3 * SPAN);
	assert_int_equal(client->mapping_bytes, 3 * SPAN);
	assert_int_equal(mapping_view(client, mapping, VIEW_READ), 0);
	assert_int_equal(size_of(mapping, VIEW_READ), 3 * SPAN);
	assert_int_equal(grows(mapping, 5), 0);
	assert_true(size_of(mapping, VIEW_READ) == 5 * SPAN && size_of(mapping, VIEW_WRITE) == 5 * SPAN &&
		    mapping->size == 5 * SPAN);
	assert_int_equal(extensions, 2 + 2 * 2);
	closes(mapping);
}

static void test_one_address_is_extended_once(void **state)
{
	struct mapping *mapping = opened(1, GPUB_READ, ADDRESS);

	(void)state;
	assert_int_equal(mapping_view(client, mapping, VIEW_WRITE), 0);
	assert_ptr_equal(mapping->base[VIEW_READ], mapping->base[VIEW_WRITE]);
	assert_int_equal(grows(mapping, 2), 0);
	assert_int_equal(extensions, 1);
	closes(mapping);
}

static void test_a_chunk_that_does_not_map_undoes_the_open(void **state)
{
	struct mapping *mapping;

	(void)state;
	failing = 2;
	assert_int_equal(open_of(4, GPUB_READ, 0, &mapping), -ENOMEM);
	assert_null(mapping);
	assert_int_equal(ranges_mapped(), 0);
}

static void test_a_growth_that_does_not_map(void **state)
{
	struct mapping *mapping = opened(1, GPUB_READ, 0);

	(void)state;
	assert_int_equal(mapping_view(client, mapping, VIEW_WRITE), 0);
	failing = 2; /* in the second view */
	assert_int_equal(grows(mapping, 2), -ENOMEM);
	assert_true(mapping->size == SPAN && !mapping->changing && !mapping->syncing);
	assert_int_equal(client->mapping_bytes, SPAN);
	closes(mapping);
}

/* A chunk of another grant, for another place, of another size, or none. */
static void invariant_4_chunks_are_those_of_the_grant(void **state)
{
	struct mapping *mapping = opened(1, GPUB_READ, 0);
	struct wire_grant grant = grant_of(2, GPUB_READ, 0);

	(void)state;
	brings(&grant, 1);
	client->chunks.mapping++;
	assert_int_equal(mapping_extend(client, mapping, &grant), -EPROTO);
	brings(&grant, 1);
	client->chunks.chunk[0].offset = 0;
	assert_int_equal(mapping_extend(client, mapping, &grant), -EPROTO);
	brings(&grant, 1);
	client->chunks.chunk[0].span = SPAN / 2;
	assert_int_equal(mapping_extend(client, mapping, &grant), -EPROTO);
	chunks_drop(&client->chunks);
	assert_int_equal(mapping_extend(client, mapping, &grant), -EPROTO);
	brings(&grant, 1);
	owned_fd_close(&client->chunks.chunk[0].file);
	client->chunks.chunk[0].file.fd = -EMFILE;
	assert_int_equal(mapping_extend(client, mapping, &grant), -EMFILE);
	assert_true(!extensions && size_of(mapping, VIEW_READ) == SPAN);
	closes(mapping);
}

/* As from the successor of a broker that ended between the MEMORY and its GRANT. */
static void test_a_chunk_that_comes_again_replaces_the_first(void **state)
{
	struct mapping *mapping = opened(1, GPUB_READ, 0);
	struct wire_grant grant = grant_of(3, GPUB_READ, 0);
	struct wire_memory memory = { .mapping = MAPPING, .offset = 2 * SPAN, .span = SPAN };
	int first, fd = dup(STDIN_FILENO);

	(void)state;
	brings(&grant, 1);
	first = client->chunks.chunk[1].file.fd;
	chunks_keep(&client->chunks, &memory, &fd);
	assert_int_equal(client->chunks.count, 2);
	assert_true(client->chunks.chunk[1].file.fd != first && fcntl(first, F_GETFD) < 0);
	assert_int_equal(mapping_extend(client, mapping, &grant), 0);
	assert_int_equal(size_of(mapping, VIEW_READ), 3 * SPAN);
	closes(mapping);
	/* unless this process had no descriptor left for the second */
	grant = grant_of(3, GPUB_READ, 0);
	brings(&grant, 1);
	first = client->chunks.chunk[1].file.fd;
	fd = -EMFILE;
	chunks_keep(&client->chunks, &memory, &fd);
	assert_true(client->chunks.count == 2 && client->chunks.chunk[1].file.fd == first);
	/* but had none for the first, and one for the second */
	owned_fd_close(&client->chunks.chunk[1].file);
	client->chunks.chunk[1].file.fd = -EMFILE;
	fd = dup(STDIN_FILENO);
	chunks_keep(&client->chunks, &memory, &fd);
	assert_true(fd == -1 && client->chunks.count == 2 && client->chunks.chunk[1].file.fd >= 0);
	chunks_drop(&client->chunks);
	/* also the last of as many as there can be: the others stay */
	grant = grant_of(EXPORT_CHUNKS_MAX, GPUB_READ, 0);
	brings(&grant, 0);
	fd = dup(STDIN_FILENO);
	memory.offset = (EXPORT_CHUNKS_MAX - 1) * SPAN;
	chunks_keep(&client->chunks, &memory, &fd);
	assert_int_equal(client->chunks.count, EXPORT_CHUNKS_MAX);
	chunks_drop(&client->chunks);
}

/* ---- what comes in between ---- */

static void invariant_8_a_reset_beside_an_open_leaves_nothing_mapped(void **state)
{
	struct mapping *mapping;

	(void)state;
	in_the_midst = reset;
	assert_int_equal(open_of(3, GPUB_READ, 0, &mapping), 0);
	assert_true(mapping->epoch == 2 && ranges_mapped() == 1 && size_of(mapping, VIEW_READ) == 3 * SPAN);
	free(mapping);
}

static void invariant_8_a_reset_before_a_view_or_a_growth(void **state)
{
	struct mapping *mapping = opened(1, GPUB_READ, 0);

	(void)state;
	reset();
	assert_int_equal(mapping_view(client, mapping, VIEW_WRITE), -EAGAIN);
	assert_int_equal(grows(mapping, 2), -EAGAIN);
	assert_true(ranges_mapped() == 1 && size_of(mapping, VIEW_READ) == SPAN && !mapping->wanted &&
		    !mapping->syncing);
	closes(mapping);
}

static struct mapping *between;
static pthread_t       other;
static int             other_result;

static void *make_view(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&client->lock);
	other_result = mapping_view(client, between, VIEW_WRITE);
	pthread_mutex_unlock(&client->lock);
	return NULL;
}

static void *close_it(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&client->lock);
	other_result = mapping_close(client, between, CLOSE_IF_UNUSED);
	pthread_mutex_unlock(&client->lock);
	return NULL;
}

/* Starts the other thread, and waits until it waits for this one. */
static void begin_other(void *(*run)(void *))
{
	unsigned before = between->syncing;

	assert_int_equal(pthread_create(&other, NULL, run, NULL), 0);
	for (int i = 0; i < 100; i++) {
		pthread_mutex_lock(&client->lock);
		bool waits = between->syncing > before;
		pthread_mutex_unlock(&client->lock);
		if (waits)
			return;
		usleep(1000);
	}
}

static void begin_view(void)
{
	begin_other(make_view);
}

static void begin_close(void)
{
	begin_other(close_it);
	assert_int_equal(ranges_mapped(), 1); /* not yet */
}

/* It would lack the chunk: who makes it waits for the growth, and maps all. */
static void test_a_view_beside_a_growth_has_all_of_it(void **state)
{
	(void)state;
	between = opened(1, GPUB_READ, 0);
	in_the_midst = begin_view;
	assert_int_equal(grows(between, 2), 0);
	pthread_mutex_unlock(&client->lock);
	pthread_join(other, NULL);
	pthread_mutex_lock(&client->lock);
	assert_int_equal(other_result, 0);
	assert_true(size_of(between, VIEW_READ) == 2 * SPAN && size_of(between, VIEW_WRITE) == 2 * SPAN);
	closes(between);
}

static void test_two_threads_make_one_view(void **state)
{
	(void)state;
	between = opened(1, GPUB_READ, 0);
	in_the_midst = begin_view;
	assert_int_equal(mapping_view(client, between, VIEW_WRITE), 0);
	pthread_mutex_unlock(&client->lock);
	pthread_join(other, NULL);
	pthread_mutex_lock(&client->lock);
	assert_true(!other_result && ranges_mapped() == 2);
	closes(between);
}

/* Nobody closes the mapping under a thread that maps a part of it: a reset may have ended the hold that kept it. */
static void invariant_2_a_close_waits_for_a_growth(void **state)
{
	(void)state;
	between = opened(1, GPUB_READ, 0);
	in_the_midst = begin_close;
	assert_int_equal(grows(between, 2), 0);
	pthread_mutex_unlock(&client->lock);
	pthread_join(other, NULL);
	assert_true(!other_result && !ranges_mapped() && !client->mapping_bytes);
}

/* The broker may want it back all the same: the service thread would try again and again. */
static void test_what_failed_to_close_is_not_closed_again(void **state)
{
	struct mapping *mapping = opened(1, GPUB_READ, 0);

	(void)state;
	mapping_leak(client, mapping);
	assert_int_equal(client->mapping_bytes, 0);
	mapping_want(client, mapping);
	assert_null(client->wanted);
	assert_null(client->mappings);
	pthread_mutex_unlock(&client->lock);
	mappings_forget(client);
	assert_null(client->mappings_by_id);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_chunk_that_comes_again_replaces_the_first),
		TEST(test_all_chunks_are_mapped_behind_each_other),
		TEST(test_one_address_is_extended_once),
		TEST(test_a_chunk_that_does_not_map_undoes_the_open),
		TEST(test_a_growth_that_does_not_map),
		TEST(invariant_4_chunks_are_those_of_the_grant),
		TEST(invariant_8_a_reset_beside_an_open_leaves_nothing_mapped),
		TEST(invariant_8_a_reset_before_a_view_or_a_growth),
		TEST(test_a_view_beside_a_growth_has_all_of_it),
		TEST(test_two_threads_make_one_view),
		TEST(invariant_2_a_close_waits_for_a_growth),
		TEST(test_what_failed_to_close_is_not_closed_again),
	};

	return cmocka_run_group_tests_name("mapping views", tests, NULL, NULL);
}
