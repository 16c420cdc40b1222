/* SPDX-License-Identifier: Apache-2.0 */
/* records-harness.c - see records-harness.h */
#include "records-harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sodium.h>

int fake_register_error;
static unsigned fake_registered;

int fake_register(void *page, size_t size, bool writable)
{
	assert_true(writable && !((uintptr_t)page % 4096) && size % 4096 == 0);
	fake_registered++;
	return fake_register_error;
}

int fake_close_error;
unsigned fake_closed;

static int fake_close(int ordinal, void *base)
{
	(void)ordinal;
	(void)base;
	fake_closed++;
	return fake_close_error;
}

int fake_check(int ordinal)
{
	(void)ordinal;
	return 0;
}

/* What a stream does with a release word is the test's to decide: it lands when the test lets it. */
uint64_t *landing_word, landing_value;
int fake_write_error;

static int fake_stream_write(void *stream, uint64_t *word, uint64_t value)
{
	(void)stream;
	landing_word = word;
	landing_value = value;
	return fake_write_error;
}

void land(void)
{
	atomic_store((_Atomic uint64_t *)landing_word, landing_value);
}

const struct device fake = { .kind = DEVICE_HOST,
				    .page_register = fake_register,
				    .close = fake_close,
				    .check = fake_check,
				    .stream_write = fake_stream_write };

_Atomic uint64_t board_generation;
struct gpub_client *client;
struct record *record;
char memory[64];

/* As messages.c's mapping_publish() leaves it; one for each record here. */
static struct mapping *mapping_made(uint64_t id)
{
	struct mapping *mapping = calloc(1, sizeof *mapping);

	assert_non_null(mapping);
	mapping->id = id;
	mapping->base[VIEW_READ] = mapping->base[VIEW_WRITE] = memory;
	assert_int_equal(mapping_add(client, mapping), 0);
	return mapping;
}

/* As messages.c's record_open() leaves it. */
void open_record(struct record *which, uint64_t mapping)
{
	which->generation = &board_generation;
	which->live = LIVE;
	which->ptr[VIEW_READ] = which->ptr[VIEW_WRITE] = memory;
	which->size = sizeof memory;
	which->rights = GPUB_READ | GPUB_WRITE;
	which->serial = 5;
	mapping_attach(mapping_made(mapping), which);
	atomic_store(&which->state, RECORD_WORD(mapping, RECORD_OPEN));
}

int setup(void **state)
{
	(void)state;
	if (sodium_init() < 0)
		return -1;
	fake_register_error = fake_close_error = fake_write_error = 0;
	fake_registered = fake_closed = 0;
	atomic_store(&board_generation, LIVE);
	client = client_alloc();
	if (!client)
		return -1;
	client->device = &fake;
	client->link.sock.fd = -1;
	client->records.free_min = 0; /* a record serves again at once */
	atomic_store(&client->guard->state, CLIENT_OPEN);
	record = record_bind(client, "a", 0);
	for (int b = 0; b < BLOCKS; b++)
		if (!record || record_grow(client, record))
			return -1;
	open_record(record, MAPPING);
	return 0;
}

/* A client is never freed, for leases may lead to it: its parts are, so that each test begins anew. */
int teardown(void **state)
{
	struct record *next;

	(void)state;
	mappings_forget(client);
	client->mappings = client->wanted = NULL;
	client->due = NULL;
	client->mapping_count = 0;
	for (; client->records.all; client->records.all = next) {
		next = client->records.all->next;
		free(client->records.all);
	}
	munmap(client->slots.slot, SLOTS_MAX * sizeof(struct slot));
	memset(&client->slots, 0, sizeof client->slots);
	client->records.free_count = 0;
	client->records.free = NULL;
	table_deinit(&client->table);
	table_init(&client->table);
	sodium_free(client->key);
	atomic_store(&client->guard->state, CLIENT_ENDED);
	client_recycle(client);
	return 0;
}

/* ---- shorthands ---- */

uint64_t hold(void)
{
	uint64_t token = 0;

	assert_int_equal(record_hold(record, &token), 0);
	return token;
}

gpub_lease lease_of(uint64_t token)
{
	return (gpub_lease){ .client = client, .token = token, .rights = GPUB_READ };
}

int give_back(uint64_t token)
{
	gpub_lease lease = lease_of(token);

	return gpub_return(&lease);
}

int give_back_on(uint64_t token)
{
	gpub_lease lease = lease_of(token);

	return gpub_return_on(&lease, NULL);
}

bool idle(void)
{
	bool held;

	return record_unused(record, &held);
}

int close_now(bool wait)
{
	int error;

	pthread_mutex_lock(&client->lock);
	error = record->mapping ? mapping_close(client, record->mapping, wait ? CLOSE_WHEN_LANDED : CLOSE_IF_UNUSED) :
				  -EBUSY;
	pthread_mutex_unlock(&client->lock);
	return error;
}
