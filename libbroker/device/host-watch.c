/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-watch.c - see host-watch.h
 *
 * Owns the list of watched buffers of each mapping, and the red zone of each buffer: the bytes from the buffer's end
 * to the end of its room, which hold poison. The red zone is checked after each kernel that was given a pointer into
 * the buffer, and when the watch ends. A copy that leaves its buffer is refused when it is queued. An access outside
 * the mapping hits a guard page (host-import.c). Never reads the bytes of a buffer.
 */
#include "host-watch.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "common/error.h"
#include "device.h"
#include "host-fault.h"
#include "host-object.h"
#include "host-state.h"

#define POISON   0xBE
#define ZONE_MAX 4096u /* bytes of a red zone at most */

#define KEEP_A_LEASE "keep a lease of the buffer until the work is done"

/*
 * Reports a write to the red zone, at byte `at` of the buffer. The watch goes on without a red zone, so that each
 * buffer is reported once.
 */
static void report(struct device_watch *watch, uint64_t at, const char *when)
{
	host_violation_of_others("a write behind the end of '%s' (%llu bytes at %p on device %u), at byte %llu: found "
				 "%s",
				 watch->name, (unsigned long long)watch->size, (void *)watch->ptr,
				 watch->region->device, (unsigned long long)at, when);
	watch->room = watch->size;
}

/*
 * Searches the red zone for bytes that are neither POISON nor `other`. Returns the offset of the first such byte from
 * the buffer's beginning, or watch->room if there is none, or the zone cannot be read. *found: whether
 * some bytes are `other`. Reads by the descriptor, because reading the mapping would end this process if the object
 * were truncated.
 */
static uint64_t zone_read(const struct device_watch *watch, uint8_t other, bool *found)
{
	uint64_t offset = (uint64_t)(watch->ptr - watch->region->base) + watch->size;
	uint8_t zone[ZONE_MAX];
	const struct owned_fd *file = &watch->region->file;
	ssize_t got = owned_fd_stands(file) ? pread(file->fd, zone, watch->room - watch->size, (off_t)offset) : 0;

	*found = false;
	for (ssize_t i = 0; i < got; i++) {
		if (zone[i] == other)
			*found = true;
		else if (zone[i] != POISON)
			return watch->size + (uint64_t)i;
	}
	return watch->room;
}

/*
 * Fills the red zone with poison. Before that, the zone of a new buffer has zeros, or poison if another process watches
 * the buffer, too. Other bytes are reported.
 */
static void zone_begin(struct device_watch *watch)
{
	uint64_t offset = (uint64_t)(watch->ptr - watch->region->base) + watch->size;
	bool zeros;
	uint64_t at = zone_read(watch, 0, &zeros);

	if (at < watch->room)
		report(watch, at, "when it was opened");
	else if (zeros && host_object_fill(watch->region, offset, watch->room - watch->size, POISON))
		watch->room = watch->size;
}

/* Checks the red zone, and reports a write to it. when: says, for the report, when the write was found. */
static void zone_verify(struct device_watch *watch, const char *when)
{
	bool same;
	uint64_t at = zone_read(watch, POISON, &same);

	if (at < watch->room)
		report(watch, at, when);
}

void host_watch(struct device_watch *watch)
{
	struct host_region *region;
	uint64_t left;

	pthread_mutex_lock(&host_state.lock);
	region = host_region_find(watch->ptr);
	if (region && region->kind == HOST_MAPPING) {
		left = region->size - (uint64_t)(watch->ptr - region->base);
		watch->size = watch->size < left ? watch->size : left;
		watch->room = watch->room < left ? watch->room : left;
		if (watch->room < watch->size)
			watch->room = watch->size;
		if (watch->room - watch->size > ZONE_MAX)
			watch->room = watch->size + ZONE_MAX;
		watch->region = region;
		region->watched = true;
		DL_APPEND(region->watches, watch);
		zone_begin(watch);
	}
	pthread_mutex_unlock(&host_state.lock);
}

void host_unwatch(struct device_watch *watch)
{
	pthread_mutex_lock(&host_state.lock);
	if (watch->region) {
		zone_verify(watch, "when it was closed");
		DL_DELETE(watch->region->watches, watch);
		watch->region = NULL;
	}
	pthread_mutex_unlock(&host_state.lock);
}

void host_watch_end(struct host_region *mapping)
{
	struct device_watch *watch, *next;

	DL_FOREACH_SAFE(mapping->watches, watch, next) {
		zone_verify(watch, "when it was closed");
		watch->region = NULL;
	}
	mapping->watches = NULL;
}

/*
 * Returns the mapping's watch of the buffer that begins last at or below ptr, or NULL. If a buffer has grown, so that
 * two watches begin there, returns the larger one.
 */
static struct device_watch *watch_below(const struct host_region *mapping, const void *ptr)
{
	struct device_watch *watch, *best = NULL;

	DL_FOREACH(mapping->watches, watch)
		if ((uintptr_t)watch->ptr <= (uintptr_t)ptr &&
		    (!best || watch->ptr > best->ptr || (watch->ptr == best->ptr && watch->size > best->size)))
			best = watch;
	return best;
}

void host_watch_verify(const void *ptr)
{
	const struct host_region *mapping = host_region_find(ptr);
	struct device_watch *watch = mapping && mapping->kind == HOST_MAPPING ? watch_below(mapping, ptr) : NULL;

	if (watch)
		zone_verify(watch, "after a kernel that was given it");
}

/* ---- accesses that fault ---- */

/*
 * Returns the watch of the buffer for which an access in the mapping's guard pages probably was meant: the last watched
 * buffer below ptr, or else the first one of the mapping. NULL: no buffer is watched.
 */
static const struct device_watch *watch_nearest(const struct host_region *mapping, const void *ptr)
{
	const struct device_watch *watch, *nearest = watch_below(mapping, ptr);

	if (nearest)
		return nearest;
	DL_FOREACH(mapping->watches, watch)
		if (!nearest || watch->ptr < nearest->ptr)
			nearest = watch;
	return nearest;
}

static void report_guard(const struct host_region *mapping, const uint8_t *ptr)
{
	const struct device_watch *watch = watch_nearest(mapping, ptr);
	const uint8_t *base = watch ? watch->ptr : mapping->base;
	uint64_t size = watch ? watch->size : mapping->size;

	host_violation("an access outside of '%s' (%llu bytes at %p on device %u), at byte %lld: keep to the lease's "
		       "ptr and size",
		       watch ? watch->name : "a mapping", (unsigned long long)size, (const void *)base, mapping->device,
		       (long long)(ptr - base));
}

static void report_inside(const struct host_region *region, const uint8_t *ptr)
{
	if (region->kind == HOST_CLOSED)
		host_violation("an access to %p, whose mapping was closed: " KEEP_A_LEASE, (const void *)ptr);
	if (region->kind == HOST_MAPPING && !region->writable)
		host_violation("a write to byte %llu of memory that is mapped read-only (%p on device %u): acquire it "
			       "with GPUB_WRITE",
			       (unsigned long long)(ptr - region->base), (const void *)region->base, region->device);
}

void host_watch_fault(const void *ptr)
{
	const struct host_region *region = host_region_find(ptr), *guarding = region ? NULL : host_region_guarding(ptr);

	if (region || (guarding && guarding->kind == HOST_CLOSED))
		report_inside(region ? region : guarding, ptr);
	else if (guarding)
		report_guard(guarding, ptr);
}

/* ---- checks of queued work ---- */

/*
 * Checks that [ptr, ptr + size) lies in one watched buffer. Returns 0 also if size is 0, or if the mapping never had a
 * watch.
 */
static int bounds_check(const struct host_region *mapping, const void *ptr, uint64_t size, const char *what)
{
	const struct device_watch *watch = size && mapping->watched ? watch_below(mapping, ptr) : NULL;
	uint64_t end;

	if (!size || !mapping->watched)
		return 0;
	if (!watch)
		return error_set(-EINVAL, "%s: the %llu bytes at %p are of no buffer that this process has open", what,
				 (unsigned long long)size, ptr);
	end = (uint64_t)((const uint8_t *)ptr - watch->ptr) + size;
	if (end <= watch->size && end >= size)
		return 0;
	return error_set(-EINVAL,
			 "%s: the %llu bytes at %p end %llu bytes behind the end of '%s', which has %llu: keep to the "
			 "lease's ptr and size",
			 what, (unsigned long long)size, ptr, (unsigned long long)(end - watch->size), watch->name,
			 (unsigned long long)watch->size);
}

static int refuse_range(const void *ptr, uint64_t size, const char *what)
{
	return error_set(-EINVAL, "%s: %llu bytes at %p leave their allocation", what, (unsigned long long)size, ptr);
}

/* Returns the error of a copy to read-only memory, which is refused when the copy is queued, as CUDA does. */
static int refuse_write(const void *ptr, const char *what)
{
	return error_set(-EINVAL, "%s: the memory at %p is mapped read-only: acquire it with GPUB_WRITE", what, ptr);
}

/* Refuses a range in guard pages, except one of size 0, because a kernel may be given a pointer to a buffer's end. */
static int guard_check(const void *ptr, uint64_t size, const char *what)
{
	const struct host_region *region = size ? host_region_guarding(ptr) : NULL;
	int rc = region ? bounds_check(region, ptr, size, what) : 0;

	return region && !rc ? refuse_range(ptr, size, what) : rc;
}

static int range_check_locked(const void *ptr, uint64_t size, unsigned device, enum host_access access,
			      const char *what)
{
	const struct host_region *region = host_region_find(ptr);
	int rc;

	if (!region)
		return guard_check(ptr, size, what);
	if (region->kind == HOST_PAGE)
		return 0;
	if (region->kind == HOST_FREED)
		host_violation("%s on device %u uses %p, which was released", what, device, ptr);
	if (region->kind == HOST_CLOSED)
		host_violation("%s on device %u uses %p, whose mapping was closed: " KEEP_A_LEASE, what, device, ptr);
	if (!host_region_is_of(region, device))
		host_violation("%s on device %u uses %p, which is of device %u: open it once for each device", what,
			       device, ptr, region->device);
	rc = access == HOST_WRITES && !region->writable ? refuse_write(ptr, what) :
							  bounds_check(region, ptr, size, what);
	if (!rc && size > region->size - (uint64_t)((const uint8_t *)ptr - region->base))
		rc = refuse_range(ptr, size, what);
	return rc;
}

int host_check_range(const void *ptr, uint64_t size, unsigned device, enum host_access access, const char *what)
{
	int rc;

	pthread_mutex_lock(&host_state.lock);
	rc = range_check_locked(ptr, size, device, access, what);
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
