/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name.c - gpub_acquire() by name and gpub_return() of mapped buffers, in an order without pattern, against the least
 * that could do it: a keyed hash of the name, open addressing under a sequence lock, the name compared, a slot of one's
 * own as in renew.c.
 *
 *     name [NAMES]     10000 of them, or as many as the broker has memory for
 */
#include <sodium.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "bench.h"
#include "gpubroker.h"

#define BATCH   200 /* rounds a sample */
#define SAMPLES 5000

static unsigned count = 10000;
static char (*name)[40];
static uint32_t *order; /* in which they are asked for, over and over */

/* ---- the floor ---- */

struct floor_buffer {
	_Atomic uint64_t generation;
	char             name[40];
};

struct floor_entry {
	uint64_t             hash;
	struct floor_buffer *buffer;
};

static struct floor_entry *table;
static uint64_t table_mask;
static _Atomic uint64_t version;
static uint8_t key[crypto_shorthash_KEYBYTES];
static _Alignas(64) _Atomic uint64_t slot;

static uint64_t hash_of(const char *text)
{
	uint64_t hash;

	crypto_shorthash((uint8_t *)&hash, (const uint8_t *)text, strlen(text), key);
	return hash;
}

static void floor_make(void)
{
	struct floor_buffer *buffers = calloc(count, sizeof *buffers);
	uint64_t size = 64, at;

	while (size < count * 2)
		size *= 2;
	table = calloc(size, sizeof *table);
	table_mask = size - 1;
	if (!buffers || !table)
		bench_fail("no memory for %u names", count);
	crypto_shorthash_keygen(key);
	for (unsigned i = 0; i < count; i++) {
		uint64_t hash = hash_of(name[i]);

		for (at = hash & table_mask; table[at].buffer; at = (at + 1) & table_mask)
			;
		strcpy(buffers[i].name, name[i]);
		buffers[i].generation = 1;
		table[at] = (struct floor_entry){ hash, &buffers[i] };
	}
}

static bool floor_acquire(const char *text, uint64_t hold)
{
	uint64_t seen = atomic_load_explicit(&version, memory_order_acquire), hash = hash_of(text);
	uint64_t at = hash & table_mask;
	const struct floor_buffer *buffer;

	while (table[at].buffer && (table[at].hash != hash || strcmp(table[at].buffer->name, text)))
		at = (at + 1) & table_mask;
	buffer = table[at].buffer;
	atomic_exchange(&slot, hold);
	return buffer && atomic_load_explicit(&buffer->generation, memory_order_acquire) == 1 &&
	       atomic_load_explicit(&version, memory_order_relaxed) == seen;
}

static double floor_batch(uint32_t from)
{
	uint64_t begin = bench_now_ns();

	for (uint32_t i = 0; i < BATCH; i++) {
		if (!floor_acquire(name[order[(from + i) % count]], i + 1))
			bench_fail("the floor lost a name");
		atomic_store_explicit(&slot, 0, memory_order_release);
	}
	return (double)(bench_now_ns() - begin) / BATCH;
}

/* ---- ours ---- */

static double our_batch(gpub_client *client, uint32_t from)
{
	uint64_t begin = bench_now_ns();
	gpub_lease lease;

	for (uint32_t i = 0; i < BATCH; i++)
		if (gpub_acquire(client, name[order[(from + i) % count]], GPUB_READ, 0, &lease) || gpub_return(&lease))
			bench_fail("%s", gpub_strerror_last());
	return (double)(bench_now_ns() - begin) / BATCH;
}

/* Creates them, acquires each once, and counts how many there are. */
static void buffers_make(gpub_client *client)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	gpub_lease lease;
	unsigned made = 0;

	spec.size = 4096;
	for (; made < count; made++) {
		snprintf(name[made], sizeof name[made], "layer/%05u/weights", made);
		if (gpub_create(client, name[made], &spec))
			break;
		bench_must(gpub_acquire(client, name[made], GPUB_READ, 0, &lease));
		bench_must(gpub_return(&lease));
	}
	if (made < count)
		fprintf(stderr, "%u names of %u: %s\n", made, count, gpub_strerror_last());
	count = made;
}

static void order_make(void)
{
	uint32_t state = 1, at, other;

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		state = state * 1664525 + 1013904223;
		at = (uint32_t)((uint64_t)state * i >> 32);
		other = order[at];
		order[at] = order[i - 1];
		order[i - 1] = other;
	}
}

int main(int argc, char **argv)
{
	static const char *const options[] = { "--buffers", "16384", NULL };
	struct bench_broker broker;
	struct bench bench;
	gpub_client *client;
	char title[64];

	if (argc > 1)
		count = (unsigned)strtoul(argv[1], NULL, 10);
	name = calloc(count, sizeof *name);
	order = calloc(count, sizeof *order);
	if (!name || !order || sodium_init() < 0)
		bench_fail("no memory for %u names", count);
	bench_broker_start_with(&broker, "host", bench_broker_has("--buffers") ? options : NULL);
	bench_pin(1);
	bench_must(gpub_connect(&client, NULL));
	buffers_make(client);
	if (!count)
		bench_fail("no buffer could be made");
	order_make();
	floor_make();
	snprintf(title, sizeof title, "acquire by name and return, %u names", count);
	bench_begin(&bench, title, "ns");
	for (uint32_t i = 0; i < SAMPLES + count / BATCH; i++) {
		/* each once first for the same names, which the second then finds in its cache */
		double first = i % 2 ? our_batch(client, i * BATCH) : floor_batch(i * BATCH);
		double second = i % 2 ? floor_batch(i * BATCH) : our_batch(client, i * BATCH);

		if (i < count / BATCH) /* all names once: warming up */
			continue;
		bench_sample(&bench, i % 2 ? BENCH_OURS : BENCH_PEER, first);
		bench_sample(&bench, i % 2 ? BENCH_PEER : BENCH_OURS, second);
	}
	bench_end(&bench);
	gpub_disconnect(client);
	bench_broker_stop(&broker);
	return 0;
}
