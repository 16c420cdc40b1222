/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-region.c - all address ranges that the host device knows in this process, and what may be done with them.
 *
 * Owns the table of regions (allocations, mappings, freed memory, registered pages) and the pages' records. Whoever
 * queues work asks here whether it may touch an address. Never makes or ends an allocation or a mapping.
 */
#include "host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/size.h"

/* sorted by base; ranges never overlap */
static struct host_region **table;
static size_t table_count, table_room;

/* ---- the table of ranges, under host_state.lock ---- */

/* How many regions begin at or below ptr. */
static size_t table_position(const void *ptr)
{
	size_t low = 0, high = table_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if ((uintptr_t)table[middle]->base <= (uintptr_t)ptr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct host_region *host_region_find(const void *ptr)
{
	size_t position = table_position(ptr);
	struct host_region *region = position ? table[position - 1] : NULL;

	return region && (uintptr_t)ptr - (uintptr_t)region->base < region->size ? region : NULL;
}

struct host_region *host_region_at(size_t index)
{
	return index < table_count ? table[index] : NULL;
}

/* A region that overlaps [base, base + size), or NULL. */
static struct host_region *region_overlapping(const uint8_t *base, uint64_t size)
{
	size_t position = table_position(base + size - 1);
	struct host_region *region = position ? table[position - 1] : NULL;

	return region && (uintptr_t)region->base + region->size > (uintptr_t)base ? region : NULL;
}

static int table_grow(void)
{
	size_t room = table_room ? 2 * table_room : 64;
	struct host_region **larger;

	if (table_count < table_room)
		return 0;
	larger = realloc(table, room * sizeof *table);
	if (!larger)
		return error_set(-ENOMEM, "host device: no memory for its table of %zu regions", room);
	table = larger;
	table_room = room;
	return 0;
}

int host_region_add(struct host_region *region)
{
	size_t position;
	int rc = table_grow();

	if (rc)
		return rc;
	/* New memory never lands on what is still mapped. */
	if (region_overlapping(region->base, region->size))
		host_violation("memory at %p was unmapped while the device still used or had registered it",
			       (void *)region->base);
	position = table_position(region->base);
	memmove(table + position + 1, table + position, (table_count - position) * sizeof *table);
	table[position] = region;
	table_count++;
	return 0;
}

void host_region_remove(struct host_region *region)
{
	size_t position = table_position(region->base);

	table_count--;
	memmove(table + position - 1, table + position, (table_count + 1 - position) * sizeof *table);
}

uint64_t host_guard_size(void)
{
	long page = sysconf(_SC_PAGESIZE);

	return page > (long)HOST_GRANULE ? (uint64_t)page : HOST_GRANULE;
}

void host_region_destroy(struct host_region *region)
{
	if (region->base && region->kind == HOST_MAPPING)
		munmap(region->base - host_guard_size(), size_round_up(region->size, host_guard_size()) + 2 * host_guard_size());
	else if (region->base)
		munmap(region->base, region->size);
	/* Unlocked first: a child on its way to exec may have a copy of the descriptor, and this one was closed well. */
	if (region->fd >= 0) {
		flock(region->fd, LOCK_UN);
		close(region->fd);
	}
	free(region);
}

struct host_region *host_region_new(enum host_kind kind, unsigned device, uint64_t size)
{
	struct host_region *region = calloc(1, sizeof *region);

	if (!region) {
		error_set(-ENOMEM, "host device: no memory for a region's record");
		return NULL;
	}
	region->kind = kind;
	region->device = device;
	region->size = size;
	region->fd = -1;
	return region;
}

/* ---- registered pages ---- */

/* What each mapping under a registered page must be. Flags are those of VmFlags in /proc/PID/smaps. */
enum page_rule { PAGE_SHARED, PAGE_WRITABLE, PAGE_NOT_FORKED, PAGE_RULES };

static const struct {
	const char *flag, *what;
} page_rules[PAGE_RULES] = {
	[PAGE_SHARED] = { " ms", "MAP_SHARED" }, /* "sh" is missing where the descriptor is read-only */
	[PAGE_WRITABLE] = { " wr", "writable" },
	[PAGE_NOT_FORKED] = { " dc", "MADV_DONTFORK: a fork would move it under the device's hand" },
};

/* The first rule that a mapping in the range breaks; PAGE_RULES if none does, or if the system has no such file. */
static enum page_rule page_rule_broken(const uint8_t *page, size_t size, bool writable)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	unsigned long begin = 0, end = 0, from, to;
	enum page_rule broken = PAGE_RULES;
	char line[512];

	while (smaps && fgets(line, sizeof line, smaps)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
			begin = from;
			end = to;
		}
		if (strncmp(line, "VmFlags:", 8) || end <= (uintptr_t)page || begin >= (uintptr_t)page + size)
			continue;
		for (enum page_rule rule = 0; rule < broken; rule++)
			if (!strstr(line, page_rules[rule].flag) && (rule != PAGE_WRITABLE || writable))
				broken = rule;
	}
	if (smaps)
		fclose(smaps);
	return broken;
}

/* qemu-user answers MADV_DONTFORK with 0 and ignores it: there no page can have it. */
static bool fork_advice_ignored(void)
{
	uint8_t *page = mmap(NULL, HOST_GRANULE, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool ignored;

	if (page == MAP_FAILED)
		return false;
	ignored = !madvise(page, HOST_GRANULE, MADV_DONTFORK) &&
		  page_rule_broken(page, HOST_GRANULE, false) == PAGE_NOT_FORKED;
	munmap(page, HOST_GRANULE);
	return ignored;
}

static void page_check(const uint8_t *page, size_t size, bool writable)
{
	enum page_rule broken = page_rule_broken(page, size, writable);

	if (broken == PAGE_RULES || (broken == PAGE_NOT_FORKED && fork_advice_ignored()))
		return;
	host_violation("registration of the page at %p, which is not %s", (const void *)page, page_rules[broken].what);
}

static int page_add(uint8_t *page, uint64_t size, bool writable)
{
	struct host_region *region;
	int rc;

	if (region_overlapping(page, size))
		return error_set(-EEXIST, "the page at %p is registered already", (void *)page);
	region = host_region_new(HOST_PAGE, 0, size);
	if (!region)
		return -ENOMEM;
	region->base = page;
	region->writable = writable;
	rc = host_region_add(region);
	if (rc)
		free(region);
	return rc;
}

int host_page_register(void *page, size_t size, bool writable)
{
	uint64_t whole = size_round_up(size, HOST_GRANULE);
	int rc = host_enter(HOST_REGISTER);

	if (rc)
		return rc;
	if (!whole || (uintptr_t)page % HOST_GRANULE)
		return error_set(-EINVAL, "%zu bytes at %p are no pages", size, page);
	page_check(page, whole, writable);
	host_device_use(host_current_device());
	pthread_mutex_lock(&host_state.lock);
	rc = page_add(page, whole, writable);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* Takes the registration that begins there out of the table. */
static int page_remove(const void *page)
{
	struct host_region *region;
	int rc = 0;

	pthread_mutex_lock(&host_state.lock);
	region = host_region_find(page);
	if (!region || region->kind != HOST_PAGE || region->base != page) {
		rc = error_set(-EINVAL, "the page at %p is not registered", page);
	} else {
		host_region_remove(region);
		free(region);
	}
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* As a close, but of no device: it waits for what this process has queued on each, and nobody can queue meanwhile. */
int host_page_unregister(void *page)
{
	int rc = host_enter(HOST_UNREGISTER);

	if (rc)
		return rc;
	host_gate_close();
	for (unsigned device = 0; device < host_state.devices; device++)
		host_gate_drain(device);
	rc = host_sticky() ? error_set(-EIO, "host device: a sticky error came while its work was waited for") :
			     page_remove(page);
	host_gate_open();
	return rc;
}

unsigned host_pages(void)
{
	const struct host_region *region;
	unsigned pages = 0;

	pthread_mutex_lock(&host_state.lock);
	for (size_t i = 0; (region = host_region_at(i)); i++)
		pages += region->kind == HOST_PAGE;
	pthread_mutex_unlock(&host_state.lock);
	return pages;
}

/* ---- what queued work may touch ---- */

/* The mapping that has ptr in one of its guard pages, or NULL. */
static const struct host_region *guarded_by(const void *ptr)
{
	size_t position = table_position(ptr);
	const struct host_region *before = position ? table[position - 1] : NULL, *behind = host_region_at(position);
	uint64_t guard = host_guard_size();

	if (before && before->kind == HOST_MAPPING &&
	    (uintptr_t)ptr - (uintptr_t)before->base < size_round_up(before->size, guard) + guard)
		return before;
	return behind && behind->kind == HOST_MAPPING && (uintptr_t)behind->base - (uintptr_t)ptr <= guard ? behind : NULL;
}

static int refuse_range(const void *ptr, uint64_t size, const char *what)
{
	return error_set(-EINVAL, "%s: %llu bytes at %p leave their allocation", what, (unsigned long long)size, ptr);
}

/* A kernel may be given a pointer to a buffer's end. So only what has a size is looked for in a guard page. */
static int guard_check(const void *ptr, uint64_t size, const char *what)
{
	const struct host_region *region = size ? guarded_by(ptr) : NULL;
	int rc = region ? host_watch_bounds(region, ptr, size, what) : 0;

	return region && !rc ? refuse_range(ptr, size, what) : rc;
}

static int range_check_locked(const void *ptr, uint64_t size, unsigned device, const char *what)
{
	const struct host_region *region = host_region_find(ptr);
	int rc;

	if (!region)
		return guard_check(ptr, size, what);
	if (region->kind == HOST_PAGE)
		return 0;
	if (region->kind == HOST_FREED)
		host_violation("%s on device %u uses %p, which was released", what, device, ptr);
	if (region->device != device)
		host_violation("%s on device %u uses %p, which is of device %u: open it once for each device", what,
			       device, ptr, region->device);
	rc = host_watch_bounds(region, ptr, size, what);
	if (!rc && size > region->size - (uint64_t)((const uint8_t *)ptr - region->base))
		rc = refuse_range(ptr, size, what);
	return rc;
}

int host_check_range(const void *ptr, uint64_t size, unsigned device, const char *what)
{
	int rc;

	pthread_mutex_lock(&host_state.lock);
	rc = range_check_locked(ptr, size, device, what);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

int host_check_word(const uint64_t *word, bool write)
{
	const struct host_region *region;

	if ((uintptr_t)word % sizeof *word)
		return error_set(-EINVAL, "a stream's word must lie at a multiple of 8, not at %p", (const void *)word);
	pthread_mutex_lock(&host_state.lock);
	region = host_region_find(word);
	if (!region || region->kind != HOST_PAGE)
		host_violation("a stream %s of %p, which is in no registered page", write ? "write" : "wait",
			       (const void *)word);
	if (write && !region->writable)
		host_violation("a stream write of %p, which was registered read-only", (const void *)word);
	pthread_mutex_unlock(&host_state.lock);
	return 0;
}
