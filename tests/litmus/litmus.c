/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus.c - the client's lock-free code against itself, for the orders of memory that the model takes for granted
 * (tests/model: "Not modelled: weak memory"). README.md beside it says what is forbidden, race by race.
 *
 *     litmus [ROUNDS]     rounds of each race; without it, about 20 s in all
 *
 * Raced is the library's own code. close.c and messages.c are compiled into this file, for close_begin and record_open;
 * the rest is linked as it is, what lies beyond is outside.c. Only the controls, which must go wrong, are copies.
 * The broker is a process of its own: it writes W in a board that it shares with this one, which reads it through a
 * read-only mapping.
 */
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/close.c"
#include "client/messages.c"

#include "client/lease.h"
#include "race.h"
#include "table-race.h"

#define STRIDE 8u /* words of the board from cell to cell: a line each */
#define SERIAL 5u

struct cell {
	struct record   *record;
	char             name[2][NAME_SIZE];
	bool             renamed;         /* its record stands for name[1] */
	uint64_t         mapping;         /* M, open */
	gpub_lease       lease, copy;     /* the first side's, the second side's */
	uint64_t         value;           /* that the device is to write to its slot's word */
	_Atomic uint64_t *word;
	_Alignas(64) _Atomic uint64_t closed; /* the memory: unmapped; */
	_Alignas(64) _Atomic uint64_t used;   /* written by who held it, or by the device */
};

/* What the other process has a part in. */
struct shared {
	struct {
		_Alignas(64) _Atomic uint64_t told, made;
		uint64_t got;
	} cell[CELLS];
};

static struct gpub_client *client;
static struct cell cells[CELLS];
static struct shared *shared;
static struct board board_written; /* the broker's mapping of the board */
static uint64_t got[CELLS];        /* by the first side; by the second: shared */
static uint64_t mappings;
static char memory[2][64];

/* ---- the device and the broker ---- */

static int fake_register(void *page, size_t size, bool writable)
{
	(void)page;
	(void)size;
	(void)writable;
	return 0;
}

static int fake_close(int ordinal, void *base)
{
	(void)ordinal;
	(void)base;
	return 0;
}

/* The stream is the cell: what is queued there lands when the race says so. */
static int fake_write(void *stream, uint64_t *word, uint64_t value)
{
	struct cell *cell = stream;

	cell->word = (_Atomic uint64_t *)word;
	cell->value = value;
	return 0;
}

static const struct device fake = { .kind = DEVICE_HOST,
				    .page_register = fake_register,
				    .close = fake_close,
				    .stream_write = fake_write };

static void device_land(struct cell *cell)
{
	atomic_store_explicit(cell->word, cell->value, memory_order_release);
}

/* registry.c's only store to the board. */
static void broker_says(unsigned i, enum board_state state)
{
	atomic_store_explicit(&board_written.words[i * STRIDE], BOARD_WORD(SERIAL, state), memory_order_release);
}

/* ---- shorthands ---- */

static void cell_open(struct cell *cell, unsigned i, void *base)
{
	struct wire_grant grant = { .mapping = ++mappings,
				    .buffer = i * STRIDE,
				    .serial = SERIAL,
				    .size = sizeof memory[0],
				    .span = sizeof memory[0],
				    .rights = GPUB_READ | GPUB_WRITE };

	struct mapping *mapping = calloc(1, sizeof *mapping);

	if (!mapping)
		abort();
	mapping->id = mappings;
	mapping->base[VIEW_READ] = mapping->base[VIEW_WRITE] = base;
	if (mapping_add(client, mapping))
		abort();
	record_open(client, cell->record, &grant, mapping, NULL);
	cell->mapping = RECORD_WORD(mappings, RECORD_OPEN);
}

/* The buffer is closed and its record stands for the cell's other name. */
static bool cell_rebind(struct cell *cell, unsigned i, bool renamed)
{
	bool done;

	pthread_mutex_lock(&client->lock);
	done = !mapping_close(client, cell->record->mapping, CLOSE_IF_UNUSED);
	if (done) {
		if (record_bind(client, cell->name[renamed], 0) != cell->record)
			abort();
		cell_open(cell, i, memory[renamed]);
		cell->renamed = renamed;
	}
	pthread_mutex_unlock(&client->lock);
	return done;
}

static uint64_t cell_hold(struct cell *cell)
{
	cell->lease = (gpub_lease){ .client = client, .rights = GPUB_READ };
	return !record_hold(cell->record, &cell->lease.token);
}

static bool cell_close(struct cell *cell)
{
	bool held;

	return close_begin(cell->record->mapping, CLOSE_IF_UNUSED, &held);
}

static struct slot *cell_slot(const struct cell *cell)
{
	return slot_at(&client->slots, token_index(cell->lease.token));
}

static void slots_free(struct cell *cell)
{
	for (unsigned i = 0; i < SLOTS_FIRST; i++) {
		struct slot *slot = &cell->record->block[0][i];

		atomic_store(&slot->hold, SLOT_HOLD(SLOT_SEQUENCE(atomic_load(&slot->hold)), SLOT_FREE));
	}
}

/* ---- what races share ---- */

static void reset_open(unsigned i)
{
	struct cell *cell = &cells[i];

	slots_free(cell);
	atomic_store(&cell->record->state, cell->mapping);
	atomic_store(&cell->record->cursor, race_random() % SLOTS_FIRST);
	atomic_store(&cell->closed, 0);
	atomic_store(&cell->used, 0);
	broker_says(i, BOARD_LIVE);
	atomic_store(&shared->cell[i].told, 0);
	got[i] = shared->cell[i].got = 0;
}

/* And a lease that was returned. */
static void reset_returned(unsigned i)
{
	reset_open(i);
	cell_hold(&cells[i]);
	gpub_return(&cells[i].lease);
}

/* One that was returned in stream order, and has not landed. */
static void reset_returned_on(unsigned i)
{
	reset_open(i);
	cell_hold(&cells[i]);
	gpub_return_on(&cells[i].lease, &cells[i]);
}

/* Reads what the round will. */
static void touch(unsigned i)
{
	const struct cell *cell = &cells[i];
	volatile uint64_t sink;
	bool held;

	sink = atomic_load(&cell->record->state) + atomic_load(cell->record->generation);
	sink = record_unused(cell->record, &held);
	sink = atomic_load(&cell->closed) + atomic_load(&cell->used);
	sink = atomic_load(&shared->cell[i].told) + atomic_load(&shared->cell[i].made);
	(void)sink;
}

static void hold_first(unsigned i)
{
	got[i] = cell_hold(&cells[i]);
}

static void renew_first(unsigned i)
{
	got[i] = !gpub_renew(&cells[i].lease);
}

static void close_second(unsigned i)
{
	shared->cell[i].got = cell_close(&cells[i]);
}

/* Held and closed: the lease's memory is gone. */
static enum outcome judge_close(unsigned i)
{
	if (got[i])
		return shared->cell[i].got ? OUTCOME_FORBIDDEN : OUTCOME_ONE;
	return shared->cell[i].got ? OUTCOME_TWO : OUTCOME_OTHER;
}

#define CLOSES .seen = { "held", "closed", "neither" }, .touch = touch, .judge = judge_close

/* ---- the controls: one side as it must not be ---- */

/* record_hold_in() that neither exchanges nor fences. */
static void weak_hold_first(unsigned i)
{
	struct record *record = cells[i].record;
	struct slot *slot = record->block[0];
	uint64_t taken = slot_take(atomic_load_explicit(&slot->hold, memory_order_relaxed));

	atomic_store_explicit(&slot->hold, taken, memory_order_relaxed);
	got[i] = RECORD_STATE(atomic_load_explicit(&record->state, memory_order_relaxed)) == RECORD_OPEN &&
		 atomic_load_explicit(record->generation, memory_order_relaxed) == record->live;
	if (!got[i])
		atomic_store_explicit(&slot->hold, SLOT_HOLD(SLOT_SEQUENCE(taken), SLOT_FREE), memory_order_release);
}

/* close_begin() that does not fence. */
static void weak_close_second(unsigned i)
{
	struct cell *cell = &cells[i];
	struct slot *slot = cell->record->block[0];
	uint64_t closing = RECORD_WORD(RECORD_MAPPING(cell->mapping), RECORD_CLOSING), held = 0;

	atomic_store_explicit(&cell->record->state, closing, memory_order_relaxed);
	for (unsigned n = 0; n < SLOTS_FIRST; n++)
		held |= SLOT_STATE(atomic_load_explicit(&slot[n].hold, memory_order_relaxed));
	shared->cell[i].got = !held;
	if (held)
		atomic_store_explicit(&cell->record->state, cell->mapping, memory_order_relaxed);
}

/* ---- the memory's use, between hold and return, and the close ---- */

#define USED   1u
#define LATE   2u
#define CLOSED 4u

static void use_first(unsigned i)
{
	struct cell *cell = &cells[i];

	if (!cell_hold(cell))
		return;
	got[i] = USED;
	if (atomic_load_explicit(&cell->closed, memory_order_relaxed))
		got[i] |= LATE;
	atomic_store_explicit(&cell->used, 1, memory_order_relaxed);
	gpub_return(&cell->lease);
}

static void close_used_second(unsigned i)
{
	struct cell *cell = &cells[i];

	if (!cell_close(cell))
		return;
	shared->cell[i].got = CLOSED;
	if (atomic_load_explicit(&cell->used, memory_order_relaxed))
		shared->cell[i].got |= USED;
	atomic_store_explicit(&cell->closed, 1, memory_order_relaxed);
}

/* Closed behind the use: all of it is seen. Before: nobody uses it any more. */
static enum outcome judge_use(unsigned i)
{
	uint64_t other = shared->cell[i].got;

	if (got[i] & LATE || (got[i] & USED && other & CLOSED && !(other & USED)))
		return OUTCOME_FORBIDDEN;
	if (other & CLOSED)
		return got[i] ? OUTCOME_ONE : OUTCOME_TWO;
	return OUTCOME_OTHER;
}

/* ---- the device's release word ---- */

static void land_second(unsigned i)
{
	atomic_store_explicit(&cells[i].used, 1, memory_order_relaxed);
	device_land(&cells[i]);
}

static void close_landed_first(unsigned i)
{
	got[i] = cell_close(&cells[i]);
	if (got[i])
		got[i] += atomic_load_explicit(&cells[i].used, memory_order_relaxed);
}

/* Its slot is the one that is looked at first. */
static void take_landed_first(unsigned i)
{
	struct slot *before = cell_slot(&cells[i]);

	cell_hold(&cells[i]);
	got[i] = cell_slot(&cells[i]) == before;
	if (got[i])
		got[i] += atomic_load_explicit(&cells[i].used, memory_order_relaxed);
}

/* 1: it was taken for landed, and what the device wrote before was not there. */
static enum outcome judge_landed(unsigned i)
{
	return got[i] == 1 ? OUTCOME_FORBIDDEN : got[i] ? OUTCOME_ONE : OUTCOME_TWO;
}

/* ---- one slot, one lease: who gets it ---- */

/* Not in the threads' own slots: in the first that is free, which is the same for both. */
static void take_first(unsigned i)
{
	got[i] = !record_hold_any(cells[i].record, &cells[i].lease.token);
}

static void take_second(unsigned i)
{
	shared->cell[i].got = !record_hold_any(cells[i].record, &cells[i].copy.token);
}

static void renew_second(unsigned i)
{
	shared->cell[i].got = !gpub_renew(&cells[i].copy);
}

static enum outcome judge_slots(unsigned i)
{
	uint32_t a = token_index(cells[i].lease.token), b = token_index(cells[i].copy.token);

	if (!got[i] || !shared->cell[i].got || a == b)
		return OUTCOME_FORBIDDEN;
	return a == cells[i].record->block[0]->index ? OUTCOME_ONE : OUTCOME_TWO;
}

static void reset_two_takers(unsigned i)
{
	reset_open(i);
	atomic_store(&cells[i].record->cursor, 0);
	cells[i].lease = cells[i].copy = (gpub_lease){ .client = client, .rights = GPUB_READ };
}

/* In the first slot. */
static void reset_two_renewers(unsigned i)
{
	reset_two_takers(i);
	take_first(i);
	gpub_return(&cells[i].lease);
	cells[i].copy = cells[i].lease;
	got[i] = 0;
}

static void reset_copied(unsigned i)
{
	reset_open(i);
	cell_hold(&cells[i]);
	cells[i].copy = cells[i].lease;
}

static void return_first(unsigned i)
{
	got[i] = !gpub_return(&cells[i].lease);
}

static void return_on_second(unsigned i)
{
	shared->cell[i].got = !gpub_return_on(&cells[i].copy, &cells[i]);
}

static enum outcome judge_returns(unsigned i)
{
	if (got[i] == shared->cell[i].got)
		return OUTCOME_FORBIDDEN;
	return got[i] ? OUTCOME_ONE : OUTCOME_TWO;
}

/* ---- a record that comes to stand for another buffer ---- */

static void reset_named(unsigned i)
{
	reset_open(i);
	if (cells[i].renamed && !cell_rebind(&cells[i], i, false))
		abort();
}

static void reset_named_returned(unsigned i)
{
	reset_named(i);
	cell_hold(&cells[i]);
	gpub_return(&cells[i].lease);
}

static void rebind_second(unsigned i)
{
	shared->cell[i].got = cell_rebind(&cells[i], i, true);
}

static void acquire_first(unsigned i)
{
	struct cell *cell = &cells[i];

	got[i] = !gpub_acquire(client, cell->name[0], GPUB_READ, 0, &cell->lease);
}

static enum outcome judge_named(unsigned i)
{
	if (got[i] && (cells[i].lease.ptr != memory[0] || shared->cell[i].got))
		return OUTCOME_FORBIDDEN;
	if (got[i])
		return OUTCOME_ONE;
	return shared->cell[i].got ? OUTCOME_TWO : OUTCOME_OTHER;
}

/* ---- a grant that is opened ---- */

static void reset_requested(unsigned i)
{
	struct record *record = cells[i].record;

	reset_open(i);
	record->ptr[VIEW_READ] = record->ptr[VIEW_WRITE] = memory[0];
	record->size = 0;
	atomic_store(&record->state, RECORD_WORD(0, RECORD_REQUESTED));
}

static void open_second(unsigned i)
{
	pthread_mutex_lock(&client->lock);
	cell_open(&cells[i], i, memory[1]);
	pthread_mutex_unlock(&client->lock);
}

static void hold_filled_first(unsigned i)
{
	struct cell *cell = &cells[i];

	got[i] = cell_hold(cell);
	if (got[i])
		lease_fill(&cell->lease, client, cell->record, record_ptr(cell->record, GPUB_READ), GPUB_READ,
			   cell->lease.token);
}

static enum outcome judge_opened(unsigned i)
{
	const gpub_lease *lease = &cells[i].lease;

	if (got[i] && (lease->ptr != memory[1] || lease->size != sizeof memory[1]))
		return OUTCOME_FORBIDDEN;
	return got[i] ? OUTCOME_ONE : OUTCOME_TWO;
}

/* ---- the broker's word ---- */

static void unlink_second(unsigned i)
{
	broker_says(i, BOARD_DRAINING);
	/* gpub_unlink() returned, and whoever called it told the first side: no weaker way of telling is correct */
	atomic_store_explicit(&shared->cell[i].told, 1, memory_order_release);
}

#define HELD 1u
#define TOLD 2u

static void hold_told_first(unsigned i)
{
	struct cell *cell = &cells[i];
	uint64_t told = atomic_load_explicit(&shared->cell[i].told, memory_order_acquire) ? TOLD : 0;
	int error = i % 2 ? gpub_renew(&cell->lease) :
			    gpub_acquire(client, cell->name[0], GPUB_READ, 0, &cell->lease);

	got[i] = told | (error ? 0 : HELD);
}

static enum outcome judge_told(unsigned i)
{
	static const enum outcome outcomes[] = { OUTCOME_OTHER, OUTCOME_ONE, OUTCOME_TWO, OUTCOME_FORBIDDEN };

	return outcomes[got[i]];
}

static void reset_unmade(unsigned i)
{
	reset_open(i);
	atomic_store(&shared->cell[i].made, 0);
	broker_says(i, BOARD_FREE);
}

static void make_second(unsigned i)
{
	atomic_store_explicit(&shared->cell[i].made, 1, memory_order_relaxed);
	broker_says(i, BOARD_LIVE);
}

static void hold_made_first(unsigned i)
{
	got[i] = cell_hold(&cells[i]);
	if (got[i])
		got[i] += atomic_load_explicit(&shared->cell[i].made, memory_order_relaxed);
}

/* ---- all of them ---- */

/* Those of two processes first: qemu-user can hang in a fork once the process has had threads. */
static const struct race races[] = {
	{ .text = "invariant 8: two processes: who knows of the unlink neither renews nor acquires",
	  .seen = { "held before", "told", "seen before told" }, .touch = touch, .judge = judge_told, .process = true,
	  .delay = 511, .reset = reset_named_returned, .first = hold_told_first, .second = unlink_second },
	{ .text = "two processes: a hold that finds W live sees what the broker did before",
	  .seen = { "held", "not live yet" }, .touch = touch, .judge = judge_landed, .process = true,
	  .delay = 127, .reset = reset_unmade, .first = hold_made_first, .second = make_second },
	{ .text = "control: a hold without its exchange and fence is seen to slip past a close",
	  CLOSES, .control = true,
	  .delay = 127, .reset = reset_open, .first = weak_hold_first, .second = close_second },
	{ .text = "control: a close without its fence is seen to slip past a hold", CLOSES, .control = true,
	  .delay = 127, .reset = reset_open, .first = hold_first, .second = weak_close_second },
	{ .text = "invariant 2: record_hold and close_begin: never both", CLOSES,
	  .delay = 127, .reset = reset_open, .first = hold_first, .second = close_second },
	{ .text = "invariant 2: gpub_renew and close_begin: never both", CLOSES,
	  .delay = 127, .reset = reset_returned, .first = renew_first, .second = close_second },
	{ .text = "invariant 2: what is done between hold and return is done before the close, or not at all",
	  .seen = { "closed after use", "closed before", "not closed" }, .touch = touch, .judge = judge_use,
	  .delay = 255, .reset = reset_open, .first = use_first, .second = close_used_second },
	{ .text = "invariant 2: a close that takes a return for landed sees what the device wrote before it",
	  .seen = { "closed", "not landed yet" }, .touch = touch, .judge = judge_landed,
	  .delay = 127, .reset = reset_returned_on, .first = close_landed_first, .second = land_second },
	{ .text = "invariant 2: so does a hold that takes the slot again",
	  .seen = { "taken", "not landed yet" }, .touch = touch, .judge = judge_landed,
	  .delay = 127, .reset = reset_returned_on, .first = take_landed_first, .second = land_second },
	{ .text = "two record_hold_any: never one slot for both",
	  .seen = { "first was first", "second was first" }, .touch = touch, .judge = judge_slots,
	  .delay = 127, .reset = reset_two_takers, .first = take_first, .second = take_second },
	{ .text = "two gpub_renew of one lease: never one slot for both",
	  .seen = { "first was first", "second was first" }, .touch = touch, .judge = judge_slots,
	  .delay = 127, .reset = reset_two_renewers, .first = renew_first, .second = renew_second },
	{ .text = "gpub_return and gpub_return_on of one lease: one of them, always",
	  .seen = { "returned", "returned on a stream" }, .touch = touch, .judge = judge_returns,
	  .delay = 127, .reset = reset_copied, .first = return_first, .second = return_on_second },
	{ .text = "invariant 8: gpub_acquire while the record goes to another name: that buffer or none",
	  .seen = { "acquired", "went", "neither" }, .touch = touch, .judge = judge_named,
	  .delay = 1023, .reset = reset_named, .first = acquire_first, .second = rebind_second },
	{ .text = "invariant 8: gpub_renew while the record goes to another buffer: its own or none",
	  .seen = { "renewed", "went", "neither" }, .touch = touch, .judge = judge_named,
	  .delay = 1023, .reset = reset_named_returned, .first = renew_first, .second = rebind_second },
	{ .text = "a name that stays is found in a table that was not seen to change",
	  .seen = { "found", "changed" }, .touch = touch, .judge = judge_found,
	  .delay = 511, .reset = reset_open, .first = find_first, .second = move_second },
	{ .text = "a hold on a record that is being opened sees all of it",
	  .seen = { "held", "not open yet" }, .touch = touch, .judge = judge_opened,
	  .delay = 127, .reset = reset_requested, .first = hold_filled_first, .second = open_second },
};

#define RACES (sizeof races / sizeof races[0])

/* ---- setting up ---- */

/* As board-owner.c makes it: one writable mapping, and sealed. */
static int board_make(void)
{
	struct board_header *header, layout = { .magic = BOARD_MAGIC, .version = WIRE_VERSION, .devices = 1 };
	int fd = memfd_create("litmus-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	board_layout(&layout, CELLS * STRIDE, 1);
	if (fd < 0 || ftruncate(fd, (off_t)layout.size))
		return -errno;
	header = mmap(NULL, layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED || fcntl(fd, F_ADD_SEALS, BOARD_SEALS))
		return -errno;
	*header = layout;
	board_place(&board_written, header, layout.size);
	return board_map(&client->board, fd);
}

static int cell_make(struct cell *cell, unsigned i)
{
	int error = 0;

	snprintf(cell->name[0], NAME_SIZE, "cell/%u", i);
	snprintf(cell->name[1], NAME_SIZE, "other/%u", i);
	pthread_mutex_lock(&client->lock);
	client->records.free_min = 0; /* a record serves again at once: that is what races */
	cell->record = record_bind(client, cell->name[0], 0);
	if (!cell->record || record_grow(client, cell->record))
		error = -ENOMEM;
	else
		cell_open(cell, i, memory[0]);
	pthread_mutex_unlock(&client->lock);
	return error;
}

static int setup(void)
{
	int error;

	if (sodium_init() < 0)
		return -ENOSYS;
	shared = race_shared(sizeof *shared);
	client = client_alloc();
	if (!client)
		return -ENOMEM;
	client->device = &fake;
	client->link.sock.fd = -1;
	atomic_store(&client->guard->state, CLIENT_OPEN);
	error = board_make();
	if (!error)
		error = small_make();
	for (unsigned i = 0; i < CELLS && !error; i++)
		error = cell_make(&cells[i], i);
	return error;
}

int main(int argc, char **argv)
{
	int error = setup();

	if (error) {
		printf("Bail out! no client: %s (%s)\n", strerror(-error), error_text());
		return 1;
	}
	race_begin(argc > 1 ? strtoull(argv[1], NULL, 0) : 0, RACES);
	for (size_t i = 0; i < RACES; i++)
		race_run(&races[i]);
	return race_end();
}
