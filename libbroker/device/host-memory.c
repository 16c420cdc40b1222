/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-memory.c - see host-memory.h
 *
 * Owns a POSIX shm object or a memfd (host-object.c) for each allocation, and the count of used bytes. The owner maps none of them:
 * its pointer is a reserved address that names the allocation, and faults when touched. Owner and importers each open the
 * object for themselves and hold a flock on that open file: an importer shared, until it closes; release() must get it
 * exclusively. As with NVIDIA's descriptors, a forked child that inherited an importer's descriptor keeps the memory in
 * use. Guard pages stand before and behind each mapping. Never releases or unlinks what an importer opened.
 */
#include "host-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/crash-point.h"
#include "common/error.h"
#include "common/size.h"
#include "host-fault.h"
#include "host-gate.h"
#include "host-object.h"
#include "host-quarantine.h"
#include "host-state.h"
#include "host-watch.h"

#define FRESH_BYTE 0xA5 /* new memory holds no zeros unless somebody zeroed it */
#define UNMAPPED_MAX 64 /* mappings whose addresses stay taken after a close that did not wait */

static uint64_t used[DEVICE_MAX];                      /* bytes, under host_state.lock */
static atomic_bool closes_return, last_closes_return;  /* host_do_not_wait() */

/* Addresses without memory: unique as a pointer must be, and every touch faults. */
static uint8_t *addresses_reserve(uint64_t size)
{
	uint8_t *base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base != MAP_FAILED)
		return base;
	error_set(-ENOMEM, "host device: no addresses for %llu bytes: %m", (unsigned long long)size);
	return NULL;
}

/* ---- the owner's half ---- */

static void owner_check(const char *what)
{
	if (!host_state.owner)
		host_violation("%s in a process that is no owner (broker) of device memory", what);
}

static int charge(unsigned device, uint64_t size)
{
	char asked[SIZE_TEXT_MAX], room[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX];
	uint64_t left;

	pthread_mutex_lock(&host_state.lock);
	left = host_state.memory - used[device];
	if (size <= left)
		used[device] += size;
	pthread_mutex_unlock(&host_state.lock);
	if (size <= left)
		return 0;
	return error_set(-ENOMEM, "host device %u is full: %s asked, %s of %s left (GPUB_HOST_MEMORY sets the size)", device,
			 size_format(size, asked), size_format(left, room), size_format(host_state.memory, all));
}

int host_room(int ordinal, uint64_t *bytes)
{
	int device = host_enter_device(HOST_OTHER, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	*bytes = host_state.memory - used[device];
	pthread_mutex_unlock(&host_state.lock);
	return 0;
}

static bool quarantine_flush(void)
{
	bool freed;

	pthread_mutex_lock(&host_state.lock);
	freed = host_quarantine_flush();
	pthread_mutex_unlock(&host_state.lock);
	return freed;
}

static int allocation_make(struct host_region *region)
{
	int rc;

	do
		rc = host_object_create(region);
	while (rc == -ENOSPC && quarantine_flush());
	if (rc)
		return rc;
	region->base = addresses_reserve(region->size);
	rc = region->base ? host_quarantine_fill(region, FRESH_BYTE) : -ENOMEM;
	pthread_mutex_lock(&host_state.lock);
	if (!rc)
		rc = host_region_add(region);
	pthread_mutex_unlock(&host_state.lock);
	if (rc)
		host_object_unlink(region);
	return rc;
}

int host_allocate(int ordinal, uint64_t size, enum export_kind kind, void **ptr)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_ALLOCATE, ordinal);

	if (device < 0)
		return device;
	owner_check("an allocation");
	if (!size || size % HOST_GRANULE)
		return error_set(-EINVAL, "%llu bytes are not whole granules of %u", (unsigned long long)size,
				 HOST_GRANULE);
	rc = charge((unsigned)device, size);
	if (rc)
		return rc;
	region = host_region_new(HOST_ALLOCATION, (unsigned)device, size);
	if (region)
		region->exported = kind;
	rc = region ? allocation_make(region) : -ENOMEM;
	if (rc)
		goto refund;
	*ptr = region->base;
	return 0;
refund:
	if (region)
		host_region_destroy(region);
	pthread_mutex_lock(&host_state.lock);
	used[device] -= size;
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* The allocation that has ptr in it, or an error. Under the lock. */
static int allocation_at(unsigned device, const void *ptr, struct host_region **found)
{
	struct host_region *region = host_region_find(ptr);

	if (!region || region->kind != HOST_ALLOCATION || region->device != device)
		return error_set(-EINVAL, "%p is no memory allocated on host device %u", ptr, device);
	*found = region;
	return 0;
}

int host_zero(int ordinal, void *ptr, uint64_t size)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_ZERO, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	rc = allocation_at((unsigned)device, ptr, &region);
	if (!rc && size > region->size - (uint64_t)((uint8_t *)ptr - region->base))
		rc = error_set(-EINVAL, "%llu bytes at %p leave their allocation", (unsigned long long)size, ptr);
	pthread_mutex_unlock(&host_state.lock);
	if (rc)
		return rc;
	if (!host_object_whole(region))
		return error_set(-EIO, "the memory at %p was truncated by somebody", ptr);
	return host_object_fill(region, (uint64_t)((uint8_t *)ptr - region->base), size, 0);
}

int host_map_owned(void *ptr)
{
	const struct host_region *region;
	int rc = -EINVAL;

	pthread_mutex_lock(&host_state.lock);
	region = host_region_find(ptr);
	if (region && region->kind == HOST_ALLOCATION && region->base == ptr)
		rc = mmap(ptr, region->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, region->fd, 0) == ptr &&
		     !madvise(ptr, region->size, MADV_DONTFORK) ? 0 : -errno;
	pthread_mutex_unlock(&host_state.lock);
	return rc ? error_set(rc, "%p cannot be mapped by its owner", ptr) : 0;
}

static void export_check(const void *ptr)
{
	const struct host_region *region = host_region_find(ptr);

	if (region && region->kind == HOST_MAPPING)
		host_violation("export of %p, which this process has itself imported", ptr);
	if (region && region->base != ptr)
		host_violation("export of %p, which is not the base of its allocation (%p): the importer would get "
			       "the base", ptr, (void *)region->base);
}

int host_export(int ordinal, void *ptr, struct device_handle *handle, int *descriptor)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_EXPORT, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	export_check(ptr);
	rc = allocation_at((unsigned)device, ptr, &region);
	if (!rc) {
		*handle = region->handle;
		*descriptor = region->descriptor;
	}
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

static void release_check(const void *ptr)
{
	const struct host_region *region = host_region_find(ptr);

	if (region && region->kind == HOST_MAPPING)
		host_violation("release of %p by an importer: only its owner may", ptr);
	if (region && region->kind == HOST_FREED)
		host_violation("release of %p, which was released before", ptr);
	if (!region || region->kind != HOST_ALLOCATION || region->base != ptr)
		host_violation("release of %p, which this process did not allocate", ptr);
}

/* True when no importer has it open, nor can from now on. */
static bool importers_shut_out(const struct host_region *region)
{
	if (!flock(region->fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
		return true;
	host_violation_of_others("release of %p (%llu bytes on device %u) while an importer maps it",
				 (void *)region->base, (unsigned long long)region->size, region->device);
	return false;
}

static int release_locked(unsigned device, void *ptr)
{
	struct host_region *region;
	bool unused;
	int rc;

	release_check(ptr);
	rc = allocation_at(device, ptr, &region);
	if (rc)
		return rc;
	unused = importers_shut_out(region) && host_object_whole(region);
	host_object_unlink(region);
	used[device] -= region->size;
	if (unused && host_quarantine_put(region))
		return 0;
	/* A malicious importer keeps the object, which nobody else will get. It would change the poison at once. */
	host_region_remove(region);
	host_region_destroy(region);
	return 0;
}

/* Waits for the work of this process on the device, as cudaFree() does: none of it is a late writer. */
int host_release(int ordinal, void *ptr)
{
	int rc, device = host_enter_device(HOST_RELEASE, ordinal);

	if (device < 0)
		return device;
	owner_check("a release");
	host_gate_close();
	host_gate_drain((unsigned)device);
	pthread_mutex_lock(&host_state.lock);
	rc = release_locked((unsigned)device, ptr);
	pthread_mutex_unlock(&host_state.lock);
	host_gate_open();
	return rc;
}

/* This device's streams are threads, which the kernel ends with their process: nothing outlives it. */
int host_gone(pid_t pid, bool mps)
{
	(void)pid;
	(void)mps;
	return host_enter(HOST_GONE);
}

void host_unlink_all(void)
{
	struct host_region *region;

	pthread_mutex_lock(&host_state.lock);
	for (size_t i = 0; (region = host_region_at(i)); i++)
		if (region->kind == HOST_ALLOCATION)
			host_object_unlink(region);
	pthread_mutex_unlock(&host_state.lock);
}

/* ---- the importer's half ---- */

static struct host_region *mapping_find(const struct device_handle *handle, unsigned device)
{
	struct host_region *region;

	for (size_t i = 0; (region = host_region_at(i)); i++) {
		if (memcmp(&region->handle, handle, sizeof *handle))
			continue;
		if (region->kind == HOST_ALLOCATION)
			host_violation("import of %p in the process that exported it", (void *)region->base);
		if (region->kind == HOST_MAPPING && region->device == device)
			return region;
	}
	return NULL;
}

/*
 * Maps the region's object between two guard pages: who runs over its end, or its beginning, faults. A fork does not copy the
 * mapping, as with CUDA: a child would keep the memory in use unseen.
 */
static int region_map(struct host_region *region)
{
	uint64_t guard = host_guard_size(), room = size_round_up(region->size, guard) + 2 * guard;
	uint8_t *base = addresses_reserve(room);

	if (!base)
		return -ENOMEM;
	if (mmap(base + guard, region->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, region->fd, 0) ==
	    MAP_FAILED) {
		error_set(-ENOMEM, "host device: %llu bytes cannot be mapped: %m", (unsigned long long)region->size);
		munmap(base, room);
		return -ENOMEM;
	}
	region->base = base + guard;
	if (madvise(region->base, region->size, MADV_DONTFORK))
		return error_set(-errno, "host device: its memory cannot be kept from forks: %m");
	return 0;
}

/* Opens the object for this process alone and marks it as mapped. */
static int object_open(struct host_region *region, int descriptor)
{
	struct stat st;

	region->fd = host_object_open(&region->handle, descriptor);
	if (region->fd < 0)
		return region->fd;
	CRASH_POINT(object_opened);
	/* A release that came between has the lock, or has unlinked the object; a memfd has no links. */
	if (flock(region->fd, LOCK_SH | LOCK_NB) || fstat(region->fd, &st) || (!st.st_nlink && descriptor < 0))
		return error_set(-ENOENT, "the handle's memory was just released");
	if ((uint64_t)st.st_size < region->size)
		return error_set(-EINVAL, "the handle's memory has %lld bytes, not %llu", (long long)st.st_size,
				 (unsigned long long)region->size);
	region->size = (uint64_t)st.st_size;
	CRASH_POINT(object_locked);
	return region_map(region);
}

static int mapping_make(struct host_region *region, int descriptor)
{
	int rc = object_open(region, descriptor);

	CRASH_POINT(object_mapped);
	if (!rc)
		rc = host_region_add(region);
	if (rc)
		host_region_destroy(region);
	return rc;
}

/*
 * A handle that is open on that device is not mapped again: its opens are counted, as CUDA does. Memory that comes with a descriptor
 * is mapped each time.
 */
static int open_locked(const struct device_handle *handle, int descriptor, unsigned device, uint64_t size, void **ptr)
{
	struct host_region *region = descriptor < 0 ? mapping_find(handle, device) : NULL;
	int rc = 0;

	if (!size || (region && size > region->size))
		return error_set(-EINVAL, "%llu bytes are not what the handle's memory has", (unsigned long long)size);
	if (!region) {
		region = host_region_new(HOST_MAPPING, device, size);
		if (!region)
			return -ENOMEM;
		region->handle = *handle;
		region->exported = descriptor < 0 ? EXPORT_IPC : EXPORT_VMM;
		rc = mapping_make(region, descriptor);
	}
	if (rc)
		return rc;
	region->opens++;
	*ptr = region->base;
	return 0;
}

int host_open(int ordinal, const struct device_handle *handle, int descriptor, uint64_t size, void **ptr)
{
	int rc, device = host_enter_device(HOST_OPEN, ordinal);

	if (device < 0)
		return device;
	atomic_store(&host_state.in_use[device], true);
	pthread_mutex_lock(&host_state.lock);
	rc = open_locked(handle, descriptor, (unsigned)device, size, ptr);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* The mapping that begins at ptr, or NULL with the error set. Under the lock. */
static struct host_region *mapping_at(unsigned device, const void *ptr)
{
	struct host_region *region = host_region_find(ptr);

	if (region && region->kind == HOST_MAPPING && region->base == ptr && region->device == device)
		return region;
	error_set(-EINVAL, "%p is not open on host device %u", ptr, device);
	return NULL;
}

/*
 * The addresses stay taken: who uses one later faults, and does not find what came there next. Memory that came by a descriptor stays
 * mapped (facts.md).
 */
void host_mappings_end(unsigned device)
{
	struct host_region *region;
	size_t i = 0;

	while ((region = host_region_at(i))) {
		if (region->kind != HOST_MAPPING || region->device != device || region->exported == EXPORT_VMM) {
			i++;
			continue;
		}
		host_watch_end(region);
		host_region_remove(region);
		if (mmap(region->base, region->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
			munmap(region->base, region->size);
		region->base = NULL;
		host_region_destroy(region);
	}
}

/* Ends one open, and the mapping with the last. Looks again: the handle may have been opened or reset during the wait. */
static void close_one(unsigned device, const void *ptr)
{
	struct host_region *region;

	pthread_mutex_lock(&host_state.lock);
	region = mapping_at(device, ptr);
	if (region && !--region->opens) {
		host_watch_end(region);
		host_region_remove(region);
		CRASH_POINT(object_closing);
		host_region_destroy(region);
	}
	pthread_mutex_unlock(&host_state.lock);
}

/* With the gate closed. */
static int work_wait(unsigned device)
{
	host_gate_drain(device);
	return host_sticky_error();
}

/*
 * Costs what it costs with CUDA: each close, the last one of a handle or not, waits for everything that this process has
 * queued on any stream of the device, even behind a wait, and nobody can queue meanwhile. It does not wait for another
 * device's work.
 */
int host_close(int ordinal, void *ptr)
{
	int rc, device = host_enter_device(HOST_CLOSE, ordinal);

	if (device < 0)
		return device;
	if (atomic_load(&last_closes_return))
		return error_set(-EIO, "host device: a close does not wait for the work on device %d", ordinal);
	host_gate_close();
	pthread_mutex_lock(&host_state.lock);
	rc = mapping_at((unsigned)device, ptr) ? 0 : -EINVAL;
	pthread_mutex_unlock(&host_state.lock);
	if (!rc)
		rc = work_wait((unsigned)device);
	if (!rc)
		close_one((unsigned)device, ptr);
	host_gate_open();
	return rc;
}

/* The oldest one's addresses may be used again when there are so many. Under the lock. */
static void unmapped_bound(void)
{
	struct host_region *region, *first = NULL;
	unsigned count = 0;

	for (size_t i = 0; (region = host_region_at(i)); i++) {
		if (region->kind != HOST_UNMAPPED)
			continue;
		count++;
		if (!first || region->number < first->number)
			first = region;
	}
	if (count <= UNMAPPED_MAX)
		return;
	host_region_remove(first);
	host_region_destroy(first);
}

/* Nothing is at its addresses from now on: work that uses them meets a fault, or host_check_range(). Under the lock. */
static int unmap(struct host_region *region)
{
	static uint64_t numbers;

	if (mmap(region->base, region->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return error_set(-ENOMEM, "host device: memory cannot be unmapped: %m");
	host_watch_end(region);
	CRASH_POINT(object_closing);
	flock(region->fd, LOCK_UN);
	close(region->fd);
	region->fd = -1;
	region->kind = HOST_UNMAPPED;
	region->number = numbers++;
	unmapped_bound();
	return 0;
}

int host_close_quiesced(int ordinal, void *ptr)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_CLOSE, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	region = mapping_at((unsigned)device, ptr);
	if (region && region->exported != EXPORT_VMM)
		host_violation("a close of %p that does not wait: CUDA IPC has none", ptr);
	rc = region ? unmap(region) : -EINVAL;
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

void host_do_not_wait(bool last)
{
	atomic_store(&closes_return, true);
	atomic_store(&last_closes_return, last);
}

int host_sync(int ordinal, const struct device_handle *handle, uint64_t size)
{
	bool is_open = true;
	int rc, device = host_enter_device(HOST_SYNC, ordinal);

	(void)size;
	if (device < 0)
		return device;
	if (atomic_load(&closes_return))
		return error_set(-ENOTSUP, "host device: closes do not wait for the work on device %d", ordinal);
	pthread_mutex_lock(&host_state.lock);
	if (handle)
		is_open = mapping_find(handle, (unsigned)device);
	pthread_mutex_unlock(&host_state.lock);
	if (!is_open)
		return error_set(-EINVAL, "the handle's memory is not open on device %d", ordinal);
	host_gate_close();
	rc = work_wait((unsigned)device);
	host_gate_open();
	return rc;
}
