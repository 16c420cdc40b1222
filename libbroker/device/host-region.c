/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-region.c - see host-region.h
 *
 * Owns the table of regions: allocations, mappings, freed memory, registered pages. Never makes or ends an allocation
 * or a mapping.
 */
#include "host-region.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/error.h"
#include "common/size.h"
#include "addresses.h"
#include "host-fault.h"
#include "host-state.h"

/*
 * The array of all regions, sorted by base. Regions never overlap. table_room: number of entries for which the array
 * has room.
 */
static struct host_region **table;
static size_t table_count, table_room;

/* Returns how many regions begin at or below ptr. */
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

struct host_region *host_region_overlapping(const uint8_t *base, uint64_t size)
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
	/* if regions overlap, the old memory was unmapped, because the kernel maps no new memory over mapped memory */
	if (host_region_overlapping(region->base, region->size))
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

int host_addresses_reserve(uint64_t size, uint8_t **base)
{
	int fixed = *base ? MAP_FIXED_NOREPLACE : 0;
	uint8_t *got = mmap(*base, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);

	if (got == MAP_FAILED)
		return fixed ? addresses_taken(*base, size) :
			       error_set(-ENOMEM, "host device: no addresses for %llu bytes: %m",
					 (unsigned long long)size);
	*base = got;
	return 0;
}

uint64_t host_region_room(const struct host_region *region)
{
	return size_round_up(region->reserved > region->size ? region->reserved : region->size, host_guard_size());
}

void host_file_close(struct owned_fd *file)
{
	if (owned_fd_stands(file))
		flock(file->fd, LOCK_UN);
	owned_fd_close(file);
}

void host_region_close(struct host_region *region)
{
	host_file_close(&region->file);
	for (unsigned i = 0; i < region->chunk_count; i++)
		host_file_close(&region->chunks[i].file);
	free(region->chunks);
	region->chunks = NULL;
	region->chunk_count = 0;
}

void host_region_destroy(struct host_region *region)
{
	if (region->base && (region->kind == HOST_MAPPING || region->kind == HOST_CLOSED))
		munmap(region->base - host_guard_size(), host_region_room(region) + 2 * host_guard_size());
	else if (region->base)
		munmap(region->base, region->size);
	host_region_close(region);
	if (region->descriptor >= 0)
		close(region->descriptor);
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
	region->file = OWNED_FD_NONE;
	region->descriptor = -1;
	return region;
}

/* Whether the region lies between guard pages. */
static bool has_guards(const struct host_region *region)
{
	return region && (region->kind == HOST_MAPPING || region->kind == HOST_CLOSED);
}

const struct host_region *host_region_guarding(const void *ptr)
{
	size_t position = table_position(ptr);
	const struct host_region *before = position ? table[position - 1] : NULL, *behind = host_region_at(position);
	uint64_t guard = host_guard_size();

	if (has_guards(before) &&
	    (uintptr_t)ptr - (uintptr_t)before->base < host_region_room(before) + guard)
		return before;
	return has_guards(behind) && (uintptr_t)behind->base - (uintptr_t)ptr <= guard ? behind : NULL;
}
