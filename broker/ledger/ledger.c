/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - see ledger.h */
#include "ledger.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
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
#define FORMAT  4
#define SEALS   (F_SEAL_SHRINK | F_SEAL_SEAL)
#define PAGE    4096
#define PLACES  (PAGE + LEDGER_HAND) /* bytes before the first slot: the header's page and the hand */
#define SLOT    (2 * LEDGER_VERSION)

/* At the beginning. */
struct header {
	uint64_t checksum; /* of the bytes after this field, to the version */
	uint64_t magic;
	uint32_t format, version, places, unused; /* FORMAT, LEDGER_VERSION, PLACES */
	/* what changes */
	uint64_t commit;  /* commit_word() of the last commit */
	uint64_t writing; /* index of the slot that is being changed, plus 1; 0: none */
};

#define HEADER_SEALED (offsetof(struct header, commit) - offsetof(struct header, magic))

static_assert(sizeof(struct ledger_head) % 8 == 0 && LEDGER_VERSION % 8 == 0, "records are of whole words");

/* The sum of the words so far, and the sum of all those sums, which tells where a word stands. */
struct sum {
	uint64_t words, places;
};

static struct sum sum_word(struct sum sum, uint64_t word)
{
	sum.words += word;
	sum.places += sum.words;
	return sum;
}

/* size: of whole words. */
static struct sum sum_words(struct sum sum, const uint8_t *bytes, size_t size)
{
	for (const uint8_t *end = bytes + size; bytes < end; bytes += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, bytes, sizeof word);
		sum = sum_word(sum, word);
	}
	return sum;
}

/* Finds damage, and no forgery. Is not 0. */
static uint64_t sum_end(struct sum sum)
{
	uint64_t mixed = (sum.words ^ sum.places << 32 ^ sum.places >> 32) * 0x9e3779b97f4a7c15;

	mixed = (mixed ^ mixed >> 32 ^ sum.places) * 0x9e3779b97f4a7c15;
	return mixed ^ mixed >> 32 ? mixed ^ mixed >> 32 : 1;
}

static uint64_t checksum(const void *bytes, size_t size)
{
	return sum_end(sum_words((struct sum){ 0 }, bytes, size));
}

/* The number of a commit as the header has it: with a checksum, in one word, because it is one store. */
static uint64_t commit_word(uint64_t commit)
{
	return commit << 16 | (checksum(&commit, sizeof commit) & 0xffff);
}

static uint8_t *version_at(const uint8_t *base, uint32_t slot, unsigned which)
{
	return (uint8_t *)(uintptr_t)base + PLACES + (size_t)slot * SLOT + (size_t)which * LEDGER_VERSION;
}

static size_t size_for(uint32_t slots)
{
	size_t size = PLACES + (size_t)slots * SLOT;

	return (size + PAGE - 1) / PAGE * PAGE;
}

static struct ledger_head head_of(const uint8_t *bytes)
{
	struct ledger_head head;

	memcpy(&head, bytes, sizeof head);
	return head;
}

/* What the checksum of a record is of: all of its head but the checksum, and the record. */
static uint64_t checksum_of(const struct ledger_head *head, const void *record)
{
	struct sum sum = sum_word((struct sum){ 0 }, head->commit);

	sum = sum_word(sum, (uint64_t)head->slot << 32 | (uint32_t)head->type << 16 | head->size);
	return sum_end(sum_words(sum, record, head->size));
}

static bool header_is_good(const struct header *header)
{
	return header->checksum == checksum(&header->magic, HEADER_SEALED) && header->magic == MAGIC &&
	       header->format == FORMAT && header->version == LEDGER_VERSION && header->places == PLACES &&
	       header->commit == commit_word(header->commit >> 16);
}

/* Maps the memory of a ledger. Returns MAP_FAILED with *error, and with the error message set. */
static void *map_all(int fd, int protection, int flags, size_t *size, int *error)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *base;

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size < PLACES) {
		*error = error_set(-EBADMSG, "this is no broker's ledger");
		return MAP_FAILED;
	}
	*size = (size_t)st.st_size;
	base = mmap(NULL, *size, protection, flags | MAP_POPULATE, fd, 0);
	if (base == MAP_FAILED) {
		*error = error_set(-errno, "the broker's ledger cannot be mapped: %m");
	} else if (!header_is_good(base)) {
		munmap(base, *size);
		base = MAP_FAILED;
		*error = error_set(-EBADMSG, "the broker's ledger has a bad header");
	}
	return base;
}

static bool version_is_good(const uint8_t *bytes, uint32_t slot)
{
	struct ledger_head head = head_of(bytes);

	return head.slot == slot && head.type < LEDGER_TYPES && head.size <= LEDGER_RECORD_MAX &&
	       head.size % sizeof(uint64_t) == 0 &&
	       head.checksum == checksum_of(&head, bytes + sizeof head);
}

/* ---- the writer ---- */

static struct header *header_of(const struct ledger *ledger)
{
	return (struct header *)ledger->base;
}

static int extend(struct ledger *ledger, uint32_t slots)
{
	size_t size = size_for(slots), former = ledger->size;
	int error = -posix_fallocate(ledger->fd, (off_t)former, (off_t)(size - former));
	void *base = MAP_FAILED;

	if (!error)
		base = ledger->base ? mremap(ledger->base, ledger->size, size, MREMAP_MAYMOVE) :
				      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, 0);
	if (!error && base == MAP_FAILED)
		error = -errno;
	if (error)
		return error_set(error, "there is no memory for the broker's ledger: %s", strerror(-error));
	/* faster than a fault for each page; where the kernel cannot (before Linux 5.14), the faults come */
	(void)madvise((uint8_t *)base + former, size - former, MADV_POPULATE_WRITE);
	ledger->base = base;
	ledger->size = size;
	ledger->slots = (uint32_t)((size - PLACES) / SLOT);
	return 0;
}

static int map_hand(struct ledger *ledger)
{
	void *hand = mmap(NULL, LEDGER_HAND, PROT_READ | PROT_WRITE, MAP_SHARED, ledger->fd, PAGE);

	if (hand == MAP_FAILED)
		return error_set(-errno, "there is no memory for the broker's ledger: %m");
	ledger->hand = hand;
	return 0;
}

int ledger_create(struct ledger *ledger, uint32_t slots)
{
	struct header header = {
		.magic = MAGIC, .format = FORMAT, .version = LEDGER_VERSION, .places = PLACES
	};
	int error;

	*ledger = (struct ledger){ .fd = memfd_create("gpubroker-ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	if (ledger->fd < 0)
		return error_set(-errno, "the broker's ledger cannot be made: %m");
	error = extend(ledger, slots);
	if (!error)
		error = map_hand(ledger);
	if (!error && fcntl(ledger->fd, F_ADD_SEALS, SEALS))
		error = error_set(-errno, "the broker's ledger cannot be sealed: %m");
	if (error) {
		ledger_destroy(ledger);
		return error;
	}
	header.commit = commit_word(0);
	header.checksum = checksum(&header.magic, HEADER_SEALED);
	memcpy(ledger->base, &header, sizeof header);
	return 0;
}

/* Clears the version that the former writer was changing when it ended: it is of no commit, and may be anything. */
static void clear_half_written(struct ledger *ledger)
{
	const struct ledger_head none = { 0 };
	uint64_t slot = header_of(ledger)->writing - 1, no_slot = 0;

	for (unsigned which = 0; which < 2 && slot < ledger->slots; which++) {
		uint8_t *version = version_at(ledger->base, (uint32_t)slot, which);

		if (!version_is_good(version, (uint32_t)slot))
			LEDGER_STORE(version, &none, sizeof none);
	}
	atomic_signal_fence(memory_order_seq_cst);
	LEDGER_STORE(&header_of(ledger)->writing, &no_slot, sizeof no_slot);
}

/*
 * The next commit has the number of the one that the former writer did not finish. So what that writer put for it
 * counts as put for this one, and next_version() has it overwritten.
 */
int ledger_go_on(struct ledger *ledger, int fd)
{
	int error;
	void *base;

	*ledger = (struct ledger){ 0 };
	base = map_all(fd, PROT_READ | PROT_WRITE, MAP_SHARED, &ledger->size, &error);
	if (base == MAP_FAILED)
		return error;
	ledger->base = base;
	ledger->slots = (uint32_t)((ledger->size - PLACES) / SLOT);
	ledger->commit = header_of(ledger)->commit >> 16;
	ledger->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	error = ledger->fd < 0 ? error_set(-errno, "the broker's ledger cannot be kept: %m") : map_hand(ledger);
	if (error)
		ledger_destroy(ledger);
	else
		clear_half_written(ledger);
	return error;
}

void ledger_destroy(struct ledger *ledger)
{
	if (ledger->hand)
		munmap(ledger->hand, LEDGER_HAND);
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

/* The version that the next commit changes: the one that is of it already, or the older one. */
static uint8_t *next_version(const struct ledger *ledger, uint32_t slot)
{
	uint8_t *first = version_at(ledger->base, slot, 0), *second = version_at(ledger->base, slot, 1);
	uint64_t a = head_of(first).commit, b = head_of(second).commit;

	if (a > ledger->commit)
		return first;
	return b > ledger->commit || b < a ? second : first;
}

/* The version that a reader takes after the next commit. */
static uint8_t *last_version(const struct ledger *ledger, uint32_t slot)
{
	uint8_t *first = version_at(ledger->base, slot, 0), *second = version_at(ledger->base, slot, 1);

	return head_of(first).commit > head_of(second).commit ? first : second;
}

/* A kill between any two stores leaves what a reader can use: signal fences keep their order in this thread. */
static void write_version(struct ledger *ledger, struct ledger_head head, const void *record)
{
	uint64_t writing = head.slot + 1ull, none = 0;
	uint8_t *version = next_version(ledger, head.slot);

	assert(head.slot < ledger->slots && head.size <= LEDGER_RECORD_MAX && head.type < LEDGER_TYPES);
	head.commit = ledger->commit + 1;
	head.checksum = checksum_of(&head, record);
	LEDGER_STORE(&header_of(ledger)->writing, &writing, sizeof writing);
	atomic_signal_fence(memory_order_seq_cst);
	LEDGER_STORE(version, &head, sizeof head);
	if (head.size)
		LEDGER_STORE(version + sizeof head, record, head.size);
	atomic_signal_fence(memory_order_seq_cst);
	LEDGER_STORE(&header_of(ledger)->writing, &none, sizeof none);
	ledger->changed = true;
}

/* The record's bytes without the words of zeroes at its end. */
static size_t without_zeroes(const uint8_t *record, size_t size)
{
	uint64_t word;

	for (; size; size -= sizeof word) {
		memcpy(&word, record + size - sizeof word, sizeof word);
		if (word)
			break;
	}
	return size;
}

void ledger_put(struct ledger *ledger, uint32_t slot, uint16_t type, const void *record, size_t size)
{
	assert(type && size <= LEDGER_RECORD_MAX && size % sizeof(uint64_t) == 0);
	size = without_zeroes(record, size);
	write_version(ledger, (struct ledger_head){ .type = type, .size = (uint16_t)size, .slot = slot }, record);
}

void ledger_free(struct ledger *ledger, uint32_t slot)
{
	if (head_of(last_version(ledger, slot)).type)
		write_version(ledger, (struct ledger_head){ .slot = slot }, NULL);
}

void ledger_commit(struct ledger *ledger)
{
	uint64_t word = commit_word(ledger->commit + 1);

	if (!ledger->changed)
		return;
	ledger->changed = false;
	ledger->commit++;
	atomic_signal_fence(memory_order_seq_cst);
	LEDGER_STORE(&header_of(ledger)->commit, &word, sizeof word); /* the commit */
	atomic_signal_fence(memory_order_seq_cst);
}

void *ledger_hand(const struct ledger *ledger)
{
	return ledger->hand;
}

/* ---- the reader ---- */

const void *ledger_view_hand(const struct ledger_view *view)
{
	return view->base + PAGE;
}

int ledger_open(struct ledger_view *view, int fd)
{
	const struct header *header;
	size_t size;
	int error;
	void *base = map_all(fd, PROT_READ, MAP_PRIVATE, &size, &error);

	*view = (struct ledger_view){ 0 };
	if (base == MAP_FAILED)
		return error;
	header = base;
	*view = (struct ledger_view){ .base = base,
				      .size = size,
				      .slots = (uint32_t)((size - PLACES) / SLOT),
				      .commit = header->commit >> 16,
				      .writing = (uint32_t)header->writing };
	return 0;
}

void ledger_close(struct ledger_view *view)
{
	if (view->base)
		munmap((void *)(uintptr_t)view->base, view->size);
	*view = (struct ledger_view){ 0 };
}

static bool is_empty(const uint8_t *bytes)
{
	static const struct ledger_head none;

	return !memcmp(bytes, &none, sizeof none);
}

/*
 * Finds the newest committed version of a slot; NULL: there is none. Returns whether no version is damaged. A version
 * that the writer was changing when it ended is of no commit yet, and may be anything.
 */
static bool find_version(const struct ledger_view *view, uint32_t slot, const uint8_t **found)
{
	bool good = true;

	*found = NULL;
	for (unsigned which = 0; which < 2; which++) {
		const uint8_t *bytes = version_at(view->base, slot, which);

		if (is_empty(bytes))
			continue;
		if (!version_is_good(bytes, slot))
			good = good && view->writing == slot + 1;
		else if (head_of(bytes).commit <= view->commit &&
			 (!*found || head_of(bytes).commit > head_of(*found).commit))
			*found = bytes;
	}
	return good;
}

uint32_t ledger_each(const struct ledger_view *view, void (*take)(const struct ledger_record *record, void *context),
		     void *context)
{
	uint32_t damaged = 0;

	for (uint32_t slot = 0; slot < view->slots; slot++) {
		const uint8_t *bytes;
		struct ledger_head head;

		if (!find_version(view, slot, &bytes)) {
			damaged++;
			continue;
		}
		if (!bytes)
			continue;
		head = head_of(bytes);
		if (head.type)
			take(&(struct ledger_record){ slot, head.type, head.size, bytes + sizeof head }, context);
	}
	return damaged;
}

void ledger_copy(const struct ledger_record *record, void *to, size_t size)
{
	size_t common = record->size < size ? record->size : size;

	memcpy(to, record->bytes, common);
	memset((uint8_t *)to + common, 0, size - common);
}
