/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - see ledger.h */
#include "ledger.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

/* How bytes get into the ledger, in their order. A test includes this file with a copy that ends in the middle. */
#ifndef LEDGER_STORE
#define LEDGER_STORE(to, from, size) memcpy(to, from, size)
#endif

#define MAGIC   0x72656764656c6267ull
#define FORMAT  1
#define SEALS   (F_SEAL_SHRINK | F_SEAL_SEAL)
#define PAGE    4096
#define PLACES  65536 /* bytes before the first slot: the header's page and the batch */

/* At the beginning. Written once. */
struct header {
	uint64_t checksum; /* of the bytes after this field */
	uint64_t magic;
	uint32_t format, slot, batch, places; /* FORMAT, LEDGER_SLOT, LEDGER_BATCH, PLACES */
};

/* In the second page. */
struct batch {
	uint64_t checksum; /* of the bytes after this field that are used; 0: all is in its place */
	uint64_t count;    /* number of slots used */
	uint8_t  slot[LEDGER_BATCH][LEDGER_SLOT]; /* each as it is to be */
};

static_assert(PAGE + sizeof(struct batch) <= PLACES, "the batch fits in front of the slots");
static_assert(sizeof(struct ledger_head) % 8 == 0 && LEDGER_SLOT % 8 == 0, "records are of whole words");

static uint64_t checksum(const void *bytes, size_t size)
{
	uint64_t sum = size, word;

	for (size_t at = 0; at < size; at += sizeof word) {
		size_t rest = size - at < sizeof word ? size - at : sizeof word;

		word = 0;
		memcpy(&word, (const uint8_t *)bytes + at, rest);
		sum = (sum ^ word) * 0x9e3779b97f4a7c15;
		sum = sum << 32 | sum >> 32;
	}
	return sum ? sum : 1;
}

static struct batch *batch_of(uint8_t *base)
{
	return (struct batch *)(base + PAGE);
}

static uint8_t *slot_at(uint8_t *base, uint32_t slot)
{
	return base + PLACES + (size_t)slot * LEDGER_SLOT;
}

static size_t size_for(uint32_t slots)
{
	size_t size = PLACES + (size_t)slots * LEDGER_SLOT;

	return (size + PAGE - 1) / PAGE * PAGE;
}

static struct ledger_head head_of(const uint8_t *bytes)
{
	struct ledger_head head;

	memcpy(&head, bytes, sizeof head);
	return head;
}

/* Bytes of a slot that say something: the head, and the record behind it. */
static size_t used_of(const struct ledger_head *head)
{
	return sizeof *head + head->size;
}

/* What the checksum of a record is of: all but the checksum. */
static uint64_t record_checksum(const struct ledger_head *head, const uint8_t *bytes)
{
	return checksum(bytes + sizeof head->checksum, used_of(head) - sizeof head->checksum);
}

/* The batch's checksum, of the number of its slots and of their heads: each head has a checksum of its record. */
static uint64_t batch_checksum(const struct batch *batch)
{
	uint64_t sum = checksum(&batch->count, sizeof batch->count);

	for (uint64_t i = 0; i < batch->count; i++)
		sum ^= checksum(batch->slot[i], sizeof(struct ledger_head)) * (2 * i + 1);
	return sum ? sum : 1;
}

/* ---- the writer ---- */

static int extend(struct ledger *ledger, uint32_t slots)
{
	size_t size = size_for(slots);
	int error = -posix_fallocate(ledger->fd, 0, (off_t)size);
	void *base = MAP_FAILED;

	if (!error)
		base = ledger->base ? mremap(ledger->base, ledger->size, size, MREMAP_MAYMOVE) :
				      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
	if (!error && base == MAP_FAILED)
		error = -errno;
	if (error)
		return error_set(error, "there is no memory for the broker's ledger: %s", strerror(-error));
	ledger->base = base;
	ledger->size = size;
	ledger->slots = (uint32_t)((size - PLACES) / LEDGER_SLOT);
	return 0;
}

int ledger_create(struct ledger *ledger, uint32_t slots)
{
	struct header header = {
		.magic = MAGIC, .format = FORMAT, .slot = LEDGER_SLOT, .batch = LEDGER_BATCH, .places = PLACES
	};
	int error;

	*ledger = (struct ledger){ .fd = memfd_create("gpubroker-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	if (ledger->fd < 0)
		return error_set(-errno, "the broker's ledger cannot be made: %m");
	error = extend(ledger, slots);
	if (!error && fcntl(ledger->fd, F_ADD_SEALS, SEALS))
		error = error_set(-errno, "the broker's ledger cannot be sealed: %m");
	if (error) {
		ledger_destroy(ledger);
		return error;
	}
	header.checksum = checksum(&header.magic, sizeof header - sizeof header.checksum);
	memcpy(ledger->base, &header, sizeof header);
	return 0;
}

void ledger_destroy(struct ledger *ledger)
{
	if (ledger->base)
		munmap(ledger->base, ledger->size);
	if (ledger->base || ledger->fd > 0)
		close(ledger->fd);
	*ledger = (struct ledger){ 0 };
}

int ledger_fd(const struct ledger *ledger)
{
	return ledger->fd;
}

int ledger_reserve(struct ledger *ledger, uint32_t slots)
{
	uint32_t doubled = ledger->slots < UINT32_MAX / 2 ? 2 * ledger->slots : UINT32_MAX;

	if (slots <= ledger->slots)
		return 0;
	return extend(ledger, slots > doubled ? slots : doubled);
}

/* The place in the batch that has the next contents of the slot; NULL: the slot does not change. */
static uint8_t *find_in_batch(const struct ledger *ledger, uint32_t slot)
{
	struct batch *batch = batch_of(ledger->base);

	for (uint32_t i = 0; i < ledger->staged; i++)
		if (head_of(batch->slot[i]).slot == slot)
			return batch->slot[i];
	return NULL;
}

/* The place in the batch for the next contents of the slot: that of an earlier change, or a new one. */
static uint8_t *place_in_batch(struct ledger *ledger, uint32_t slot)
{
	uint8_t *place = find_in_batch(ledger, slot);

	if (place)
		return place;
	if (ledger->staged == LEDGER_BATCH)
		ledger_commit(ledger);
	return batch_of(ledger->base)->slot[ledger->staged++];
}

static void stage(struct ledger *ledger, struct ledger_head head, const void *record)
{
	uint8_t bytes[LEDGER_SLOT];

	assert(head.slot < ledger->slots && head.size <= LEDGER_RECORD_MAX && head.type < LEDGER_TYPES);
	memcpy(bytes, &head, sizeof head);
	if (head.size)
		memcpy(bytes + sizeof head, record, head.size);
	if (head.type) {
		head.checksum = record_checksum(&head, bytes);
		memcpy(bytes, &head.checksum, sizeof head.checksum);
	}
	LEDGER_STORE(place_in_batch(ledger, head.slot), bytes, used_of(&head));
}

void ledger_put(struct ledger *ledger, uint32_t slot, uint16_t type, const void *record, size_t size)
{
	assert(type && size <= LEDGER_RECORD_MAX);
	stage(ledger, (struct ledger_head){ .type = type, .size = (uint16_t)size, .slot = slot }, record);
}

void ledger_free(struct ledger *ledger, uint32_t slot)
{
	if (head_of(slot_at(ledger->base, slot)).checksum || find_in_batch(ledger, slot))
		stage(ledger, (struct ledger_head){ .slot = slot }, NULL);
}

/* Puts the batch's slots in their places. */
static void apply(uint8_t *base)
{
	struct batch *batch = batch_of(base);

	for (uint64_t i = 0; i < batch->count; i++) {
		struct ledger_head head = head_of(batch->slot[i]);

		LEDGER_STORE(slot_at(base, head.slot), batch->slot[i], used_of(&head));
	}
}

/* A kill between any two stores leaves what a reader can use: signal fences keep their order in this thread. */
void ledger_commit(struct ledger *ledger)
{
	struct batch *batch = batch_of(ledger->base);
	uint64_t count = ledger->staged, sum;

	if (!count)
		return;
	LEDGER_STORE(&batch->count, &count, sizeof count);
	sum = batch_checksum(batch);
	atomic_signal_fence(memory_order_release);
	LEDGER_STORE(&batch->checksum, &sum, sizeof sum); /* the commit */
	atomic_signal_fence(memory_order_seq_cst);
	apply(ledger->base);
	atomic_signal_fence(memory_order_release);
	sum = 0;
	LEDGER_STORE(&batch->checksum, &sum, sizeof sum);
	atomic_signal_fence(memory_order_seq_cst);
	ledger->staged = 0;
}

/* ---- the reader ---- */

static bool header_is_good(const struct header *header)
{
	return header->checksum == checksum(&header->magic, sizeof *header - sizeof header->checksum) &&
	       header->magic == MAGIC && header->format == FORMAT && header->slot == LEDGER_SLOT &&
	       header->batch == LEDGER_BATCH && header->places == PLACES;
}

static bool record_is_good(const uint8_t *bytes)
{
	struct ledger_head head = head_of(bytes);

	return head.type && head.type < LEDGER_TYPES && head.size <= LEDGER_RECORD_MAX &&
	       head.checksum == record_checksum(&head, bytes);
}

static bool batch_is_good(const struct ledger_view *view)
{
	const struct batch *batch = batch_of(view->base);

	if (batch->count > LEDGER_BATCH || batch->checksum != batch_checksum(batch))
		return false;
	for (uint64_t i = 0; i < batch->count; i++) {
		struct ledger_head head = head_of(batch->slot[i]);

		if (head.slot >= view->slots || (head.checksum ? !record_is_good(batch->slot[i]) : head.size != 0))
			return false;
	}
	return true;
}

static int view_check(struct ledger_view *view)
{
	struct batch *batch = batch_of(view->base);

	if (!header_is_good((const struct header *)view->base))
		return error_set(-EBADMSG, "the broker's ledger has a bad header");
	view->slots = (uint32_t)((view->size - PLACES) / LEDGER_SLOT);
	if (batch->checksum && !batch_is_good(view))
		return error_set(-EBADMSG, "the broker's ledger has a bad batch");
	if (batch->checksum)
		apply(view->base);
	return 0;
}

int ledger_open(struct ledger_view *view, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS), error;
	struct stat st;

	*view = (struct ledger_view){ 0 };
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < PLACES)
		return error_set(-EBADMSG, "this is no broker's ledger");
	view->size = (size_t)st.st_size;
	view->base = mmap(NULL, view->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (view->base == MAP_FAILED) {
		view->base = NULL;
		return error_set(-errno, "the broker's ledger cannot be mapped: %m");
	}
	error = view_check(view);
	if (error)
		ledger_close(view);
	return error;
}

void ledger_close(struct ledger_view *view)
{
	if (view->base)
		munmap(view->base, view->size);
	*view = (struct ledger_view){ 0 };
}

uint32_t ledger_each(const struct ledger_view *view, void (*take)(const struct ledger_record *record, void *context),
		     void *context)
{
	uint32_t damaged = 0;

	for (uint32_t slot = 0; slot < view->slots; slot++) {
		const uint8_t *bytes = slot_at(view->base, slot);
		struct ledger_head head = head_of(bytes);

		if (!head.checksum)
			continue;
		if (head.slot == slot && record_is_good(bytes))
			take(&(struct ledger_record){ slot, head.type, head.size, bytes + sizeof head }, context);
		else
			damaged++;
	}
	return damaged;
}

void ledger_copy(const struct ledger_record *record, void *to, size_t size)
{
	size_t common = record->size < size ? record->size : size;

	memcpy(to, record->bytes, common);
	memset((uint8_t *)to + common, 0, size - common);
}
