/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-ledger.c - the memory in which a broker notes what must survive it (broker/ledger/ledger.c): what a reader
 * finds, after random changes, after a kill between any two stores, and in damaged memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <signal.h>

#include <cmocka.h>

/* The ledger's own stores, word by word: the writer is killed in front of store number `stores_left`. */
static jmp_buf killed;
static long stores_left = -1;

static void store(void *to, const void *from, size_t size)
{
	for (size_t at = 0; at < size; at += 8) {
		if (!stores_left)
			longjmp(killed, 1);
		stores_left -= stores_left > 0;
		memcpy((char *)to + at, (const char *)from + at, 8);
	}
}

#define LEDGER_STORE store
#include "broker/ledger/ledger.c"

#define SLOTS 200

/* What the ledger is to have, by slot: size 0: nothing. */
struct content {
	uint16_t type, size;
	uint8_t  bytes[LEDGER_RECORD_MAX];
};

static struct content now[SLOTS], found[SLOTS]; /* what was put, and what a reader finds */
static struct ledger ledger;
static uint64_t random_state;

static uint32_t random_below(uint32_t end)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 20) % end;
}

static int setup(void **state)
{
	(void)state;
	memset(now, 0, sizeof now);
	random_state = 0x9e3779b97f4a7c15u;
	stores_left = -1;
	return ledger_create(&ledger, SLOTS);
}

static int teardown(void **state)
{
	(void)state;
	ledger_destroy(&ledger);
	ledger_destroy(&ledger); /* once more does nothing */
	return 0;
}

static bool is_dry; /* nothing is put but into `now` */

static void put(uint32_t slot, uint16_t type, uint16_t size, uint8_t fill)
{
	/* words of zeroes at the end are not stored */
	now[slot] = (struct content){ .type = type, .size = fill ? size : 0 };
	memset(now[slot].bytes, fill, size);
	if (!is_dry)
		ledger_put(&ledger, slot, type, now[slot].bytes, size);
}

static void take_away(uint32_t slot)
{
	now[slot] = (struct content){ 0 };
	if (!is_dry)
		ledger_free(&ledger, slot);
}

static void change(void)
{
	uint32_t slot = random_below(SLOTS);

	if (random_below(3))
		put(slot, (uint16_t)(1 + random_below(LEDGER_TYPES - 1)),
		    (uint16_t)(8 * random_below(LEDGER_RECORD_MAX / 8 + 1)), (uint8_t)random_below(256));
	else
		take_away(slot);
}

static void note(const struct ledger_record *record, void *context)
{
	(void)context;
	assert_true(record->slot < SLOTS);
	found[record->slot] = (struct content){ .type = record->type, .size = record->size };
	ledger_copy(record, found[record->slot].bytes, sizeof found->bytes);
}

/* Reads the ledger as a successor does. Returns the number of damaged slots. */
static uint32_t read_all(void)
{
	struct ledger_view view;
	uint32_t damaged;

	memset(found, 0, sizeof found);
	assert_int_equal(ledger_open(&view, ledger_fd(&ledger)), 0);
	damaged = ledger_each(&view, note, NULL);
	ledger_close(&view);
	return damaged;
}

static bool has(const struct content *contents)
{
	return !memcmp(found, contents, sizeof found);
}

static void test_after_each_commit_a_reader_finds_what_was_put(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		change();
		if (random_below(20))
			continue;
		ledger_commit(&ledger);
		assert_int_equal(read_all(), 0);
		assert_true(has(now));
	}
}

static void test_nothing_is_found_before_its_commit(void **state)
{
	static struct content before[SLOTS];

	(void)state;
	put(3, 1, 16, 7);
	ledger_commit(&ledger);
	memcpy(before, now, sizeof before);
	for (uint32_t i = 0; i < SLOTS; i++)
		put(i, 2, 24, 9);
	put(0, 3, 32, 1); /* once more */
	take_away(5);
	assert_int_equal(read_all(), 0);
	assert_true(has(before));
	ledger_commit(&ledger);
	assert_int_equal(read_all(), 0);
	assert_true(has(now));
}

static void change_some(void)
{
	for (uint32_t i = 0; i < 8; i++)
		change();
	change(); /* a slot may change twice */
}

/*
 * Kills a writer, which makes changes and a commit, in front of store number `after`. Returns false if it makes fewer
 * stores.
 */
static bool commit_cut(long after)
{
	bool was_killed = setjmp(killed);

	if (!was_killed) {
		stores_left = after;
		change_some();
		ledger_commit(&ledger);
	}
	stores_left = -1;
	return was_killed;
}

static void test_a_commit_that_is_cut_is_whole_or_nothing(void **state)
{
	static struct content before[SLOTS], after[SLOTS];
	unsigned old = 0, new = 0;
	bool was_killed = true;

	(void)state;
	for (long cut = 0; was_killed; cut++) {
		uint64_t random_before;

		ledger_destroy(&ledger);
		assert_int_equal(setup(NULL), 0);
		for (uint32_t i = 0; i < 100; i++)
			put(i % 40, 1, 104, (uint8_t)i);
		ledger_commit(&ledger);
		memcpy(before, now, sizeof before);
		random_before = random_state;
		is_dry = true;
		change_some();
		is_dry = false;
		memcpy(after, now, sizeof after);
		memcpy(now, before, sizeof now);
		random_state = random_before;
		was_killed = commit_cut(cut);
		assert_int_equal(read_all(), 0);
		assert_true(has(new ? after : before) || (!new && has(after)));
		if (has(after))
			new++;
		else
			old++;
	}
	assert_true(old > 8 && new >= 1);
}

/* However many records it changes. */
static void test_a_large_commit_is_whole_or_nothing(void **state)
{
	volatile long cut = 0;
	bool was_killed = true, was_whole = false;

	(void)state;
	for (; was_killed; cut += 397) {
		volatile uint32_t count = 0;

		ledger_destroy(&ledger);
		assert_int_equal(setup(NULL), 0);
		was_killed = setjmp(killed);
		if (!was_killed) {
			stores_left = cut;
			for (uint32_t i = 0; i < SLOTS; i++)
				put(i, 1, 8, 5);
			ledger_commit(&ledger);
		}
		stores_left = -1;
		assert_int_equal(read_all(), 0);
		for (uint32_t i = 0; i < SLOTS; i++)
			count += found[i].type == 1;
		assert_true(count == 0 || count == SLOTS);
		was_whole = count == SLOTS;
	}
	assert_true(was_whole);
}

/* ---- the next writer ---- */

/* Puts what was found into other slots, and frees the others, as the next writer does. */
static void go_on_shifted(struct ledger *next)
{
	assert_int_equal(ledger_go_on(next, ledger_fd(&ledger)), 0);
	for (uint32_t i = 0; i < next->slots; i++) {
		const struct content *content = &found[(i + 7) % SLOTS];

		if (i < SLOTS && content->type)
			ledger_put(next, i, content->type, content->bytes, content->size);
		else
			ledger_free(next, i);
	}
	ledger_commit(next);
}

/* Returns whether the writer was killed in front of that store. */
static bool go_on_cut(long after)
{
	struct ledger next = { 0 }, *volatile to = &next;
	bool was_killed = setjmp(killed);

	if (!was_killed) {
		stores_left = after;
		go_on_shifted(to);
	}
	stores_left = -1;
	ledger_destroy(to);
	return was_killed;
}

/* `found` as go_on_shifted() leaves it. */
static bool is_shifted(const struct content *before)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (memcmp(&found[i], &before[(i + 7) % SLOTS], sizeof found[i]))
			return false;
	return true;
}

/*
 * Whatever the last writer put and did not commit, and wherever the next ones are killed: what the last commit left is
 * there until the next commit, which is whole.
 */
static void test_the_next_writer_goes_on_from_the_last_commit(void **state)
{
	static struct content before[SLOTS];
	bool was_killed = true;
	volatile long cut = 0;

	(void)state;
	for (; was_killed; cut += 3) {
		volatile long step = 1;

		ledger_destroy(&ledger);
		assert_int_equal(setup(NULL), 0);
		for (uint32_t i = 0; i < SLOTS; i++)
			put(i, 1, 104, (uint8_t)i);
		ledger_commit(&ledger);

		was_killed = commit_cut(cut);
		assert_int_equal(read_all(), 0);
		memcpy(before, found, sizeof before);
		for (volatile long at = 0; go_on_cut(at); at += step, step += 13) {
			assert_int_equal(read_all(), 0);
			assert_true(has(before));
		}
		assert_int_equal(read_all(), 0);
		assert_true(is_shifted(before));
	}
}

/* As a reader that is killed in the middle leaves it to the next: it changes nothing. */
static void test_a_reader_changes_nothing(void **state)
{
	uint8_t *copy = malloc(ledger.size);

	(void)state;
	assert_true(commit_cut(30));
	assert_non_null(copy);
	memcpy(copy, ledger.base, ledger.size);
	assert_int_equal(read_all(), 0);
	assert_memory_equal(copy, ledger.base, ledger.size);
	free(copy);
}

static void flip(size_t at)
{
	ledger.base[at] ^= 0x40;
}

static void test_damage_is_told_and_costs_one_record(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++)
		put(i, 1, 104, 3);
	ledger_commit(&ledger);
	for (size_t at = 0; at < sizeof(struct ledger_head) + 104; at++) {
		flip(PLACES + 5 * SLOT + at);
		assert_int_equal(read_all(), 1);
		assert_int_equal(found[5].type, 0);
		assert_int_equal(found[4].type + found[6].type, 2);
		flip(PLACES + 5 * SLOT + at);
	}
	memcpy(ledger.base + PLACES + 6 * SLOT, ledger.base + PLACES + 7 * SLOT, SLOT);
	assert_int_equal(read_all(), 1);
	assert_int_equal(found[6].type, 0);
}

/* A reader must not take the version before the damaged one: what that says is over. */
static void test_an_older_version_does_not_stand_in_for_a_damaged_one(void **state)
{
	(void)state;
	put(5, 1, 104, 3);
	ledger_commit(&ledger);
	put(5, 2, 104, 4);
	ledger_commit(&ledger);
	flip(PLACES + 5 * SLOT + LEDGER_VERSION + 40);
	assert_int_equal(read_all(), 1);
	assert_int_equal(found[5].type, 0);
}

static void test_a_damaged_header_is_refused(void **state)
{
	struct ledger_view view;

	(void)state;
	for (size_t at = 0; at < offsetof(struct header, writing); at++) {
		flip(at);
		assert_int_equal(ledger_open(&view, ledger_fd(&ledger)), -EBADMSG);
		flip(at);
	}
}

static void test_what_is_no_ledger_is_refused(void **state)
{
	int file = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ledger_view view;

	(void)state;
	assert_int_equal(ledger_open(&view, -1), -EBADMSG);
	assert_int_equal(ledger_open(&view, file), -EBADMSG);
	assert_int_equal(ftruncate(file, 1 << 20), 0);
	assert_int_equal(ledger_open(&view, file), -EBADMSG); /* could be cut while it is read */
	assert_int_equal(fcntl(file, F_ADD_SEALS, SEALS), 0);
	assert_int_equal(ledger_open(&view, file), -EBADMSG);
	assert_null(view.base);
	close(file);
}

static void test_it_grows_with_all_that_it_has(void **state)
{
	(void)state;
	put(7, 1, 104, 3);
	ledger_commit(&ledger);
	put(8, 2, 56, 4); /* staged */
	assert_int_equal(ledger_reserve(&ledger, SLOTS), 0);
	assert_int_equal(ledger_reserve(&ledger, 100000), 0);
	assert_true(ledger.slots >= 100000);
	ledger_commit(&ledger);
	assert_int_equal(read_all(), 0);
	assert_true(has(now));
}

static void test_without_memory_it_stays_as_it_is(void **state)
{
	struct rlimit before, limit;
	struct ledger other;

	(void)state;
	put(7, 1, 104, 3);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = (struct rlimit){ 1 << 20, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(ledger_reserve(&ledger, 100000), -EFBIG);
	assert_int_equal(ledger_create(&other, 100000), -EFBIG);
	assert_non_null(strstr(error_text(), "no memory for the broker's ledger"));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	ledger_commit(&ledger);
	assert_int_equal(read_all(), 0);
	assert_true(has(now));
}

/* A record grows at its end, from one version of the broker to the next. */
static void test_records_of_other_versions(void **state)
{
	const struct ledger_record record = { .size = 4, .bytes = "abcd" };
	char larger[6], smaller[2];

	(void)state;
	ledger_copy(&record, larger, sizeof larger);
	assert_memory_equal(larger, "abcd\0\0", sizeof larger);
	ledger_copy(&record, smaller, sizeof smaller);
	assert_memory_equal(smaller, "ab", sizeof smaller);
}

#define WITH_LEDGER(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_LEDGER(test_after_each_commit_a_reader_finds_what_was_put),
		WITH_LEDGER(test_nothing_is_found_before_its_commit),
		WITH_LEDGER(test_a_commit_that_is_cut_is_whole_or_nothing),
		WITH_LEDGER(test_a_large_commit_is_whole_or_nothing),
		WITH_LEDGER(test_the_next_writer_goes_on_from_the_last_commit),
		WITH_LEDGER(test_a_reader_changes_nothing),
		WITH_LEDGER(test_damage_is_told_and_costs_one_record),
		WITH_LEDGER(test_an_older_version_does_not_stand_in_for_a_damaged_one),
		WITH_LEDGER(test_a_damaged_header_is_refused),
		WITH_LEDGER(test_what_is_no_ledger_is_refused),
		WITH_LEDGER(test_it_grows_with_all_that_it_has),
		WITH_LEDGER(test_without_memory_it_stays_as_it_is),
		WITH_LEDGER(test_records_of_other_versions),
	};

	return cmocka_run_group_tests_name("ledger", tests, NULL, NULL);
}
