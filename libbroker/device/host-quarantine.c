/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-quarantine.c - see host-quarantine.h
 *
 * Owns the released regions, oldest first. Their objects stay open and are filled with poison, so that a late write by
 * another process, which still maps the object, changes the poison. A region is checked when it is evicted, when a test
 * asks for a check, and when the owner exits. Only both ends of a large object have poison. Its middle is a hole
 * without memory, where a late write makes pages that are not zero.
 */
#include "host-quarantine.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <utlist.h>

#include "host-fault.h"
#include "host-object.h"
#include "host-state.h"

#define POISON      0xDB
#define WHOLE_MAX   (16ull << 20) /* bytes: an object of up to this size keeps all of its memory */
#define END_SIZE    (1ull << 20)  /* bytes of memory that a larger object keeps at each end */
#define OBJECTS_MAX 16            /* number of regions in the quarantine at most */

static struct host_region *oldest; /* list of the regions in the quarantine, oldest first */
static unsigned objects; /* length of the list `oldest` */
static uint64_t bytes;   /* sum of kept_bytes() over the list `oldest` */

/* Returns the bytes of memory that the region's object keeps in the quarantine. */
static uint64_t kept_bytes(const struct host_region *region)
{
	return region->size <= WHOLE_MAX ? region->size : 2 * END_SIZE;
}

int host_quarantine_fill(const struct host_region *region, int byte)
{
	int rc;

	if (region->size <= WHOLE_MAX)
		return host_object_fill(region, 0, region->size, byte);
	rc = host_object_fill(region, 0, END_SIZE, byte);
	return rc ? rc : host_object_fill(region, region->size - END_SIZE, END_SIZE, byte);
}

static int poison(const struct host_region *region)
{
	int rc = host_quarantine_fill(region, POISON);

	if (!rc && region->size > WHOLE_MAX)
		fallocate(region->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)END_SIZE,
			  (off_t)(region->size - 2 * END_SIZE));
	return rc;
}

/* Whether the `size` bytes of the object from `from` on equal `byte`. If not, reports the first byte that differs. */
static bool range_verify(const struct host_region *region, uint64_t from, uint64_t size, uint8_t byte)
{
	uint64_t at = host_object_compare(region, from, size, byte);

	if (at == size)
		return true;
	host_violation_of_others("a late write to released memory: %p (%llu bytes on device %u), at byte %llu",
				 (void *)region->base, (unsigned long long)region->size, region->device,
				 (unsigned long long)(from + at));
	return false;
}

/*
 * Whether no page in the hole of a large region was written. If one was, reports it. Reads only pages that have memory,
 * because reading other pages would allocate them.
 */
static bool hole_verify(const struct host_region *region)
{
	off_t end = (off_t)(region->size - END_SIZE), hole;
	off_t data = lseek(region->file.fd, (off_t)END_SIZE, SEEK_DATA);

	while (data >= 0 && data < end) {
		hole = lseek(region->file.fd, data, SEEK_HOLE);
		if (hole <= data || hole > end)
			hole = end;
		if (!range_verify(region, (uint64_t)data, (uint64_t)(hole - data), 0))
			return false;
		data = lseek(region->file.fd, hole, SEEK_DATA);
	}
	return true;
}

/* Checks the region for late writes, and reports the first one that it finds. */
static void verify(const struct host_region *region)
{
	if (!host_object_whole(region))
		return;
	if (region->size <= WHOLE_MAX)
		range_verify(region, 0, region->size, POISON);
	else if (range_verify(region, 0, END_SIZE, POISON) && hole_verify(region))
		range_verify(region, region->size - END_SIZE, END_SIZE, POISON);
}

/* Checks the oldest region in the quarantine for late writes, and frees it. */
static void evict(void)
{
	struct host_region *region = oldest;

	verify(region);
	LL_DELETE(oldest, region);
	objects--;
	bytes -= kept_bytes(region);
	host_region_remove(region);
	host_region_destroy(region);
}

bool host_quarantine_put(struct host_region *region)
{
	if (kept_bytes(region) > host_state.quarantine || poison(region))
		return false;
	region->kind = HOST_FREED;
	LL_APPEND(oldest, region);
	objects++;
	bytes += kept_bytes(region);
	while (objects > OBJECTS_MAX || bytes > host_state.quarantine)
		evict();
	return true;
}

bool host_quarantine_flush(void)
{
	bool any = objects > 0;

	while (objects)
		evict();
	return any;
}

void host_check_quarantine(void)
{
	pthread_mutex_lock(&host_state.lock);
	for (const struct host_region *region = oldest; region; region = region->next)
		verify(region);
	pthread_mutex_unlock(&host_state.lock);
}
