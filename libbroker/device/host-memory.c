/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-memory.c - see host-memory.h
 *
 * Owns a POSIX shm object or a memfd (host-object.c) for each allocation, and the count of used bytes. The owner does
 * not map the objects: its pointer is a reserved address that names the allocation, and any access there faults.
 *
 * The owner and each importer (host-import.c) have an open file of the object of their own. An importer locks the
 * object shared, by flock(2), until it closes the memory. release() tries to lock the object exclusively, and so finds
 * out whether an importer still has the object open. Any process that can open the object can lock it. So an importer
 * maps the object even if it does not get the lock. Importers recognise released memory by a mark that only the owner
 * can set (host_object_unlink()).
 */
#include "host-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

#define FRESH_BYTE 0xA5 /* value of new memory's bytes (host_quarantine_fill()), so that a missing zero() is noticed */

static uint64_t used[DEVICE_MAX]; /* number of allocated bytes of each device; under host_state.lock */

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
	return error_set(-ENOMEM, "host device %u is full: %s asked, %s of %s left (GPUB_HOST_MEMORY sets the size)",
			 device, size_format(size, asked), size_format(left, room),
			 size_format(host_state.memory, all));
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

/* Reserves addresses for a region that has its object, and enters it in the table. */
static int region_enter(struct host_region *region)
{
	int rc = host_addresses_reserve(region->size, &region->base);

	if (rc)
		return rc;
	pthread_mutex_lock(&host_state.lock);
	rc = host_region_add(region);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

static int allocation_make(struct host_region *region, const void *context)
{
	int rc;

	(void)context;
	do
		rc = host_object_create(region);
	while (rc == -ENOSPC && quarantine_flush());
	if (rc)
		return rc;
	rc = host_quarantine_fill(region, FRESH_BYTE);
	if (!rc)
		rc = region_enter(region);
	if (rc)
		host_object_unlink(region);
	return rc;
}

/* An open file of its own, as an importer gets it, has the flock that release() asks for. */
static int adoption_make(struct host_region *region, const void *context)
{
	const struct device_memory *memory = context;
	int fd = host_object_open(&memory->handle, memory->descriptor);
	struct stat st;

	if (fd < 0)
		return fd;
	owned_fd_take(&region->file, fd);
	region->handle = memory->handle;
	region->descriptor = fcntl(memory->descriptor, F_DUPFD_CLOEXEC, 0);
	if (region->descriptor < 0)
		return error_set(-errno, "no descriptor is left for memory of host device %u: raise ulimit -n",
				 region->device);
	if (fstat(fd, &st) || (uint64_t)st.st_size != region->size)
		return error_set(-EINVAL, "the memory has another size than %llu bytes",
				 (unsigned long long)region->size);
	return region_enter(region);
}

static void refund(unsigned device, uint64_t size)
{
	pthread_mutex_lock(&host_state.lock);
	used[device] -= size;
	pthread_mutex_unlock(&host_state.lock);
}

/*
 * Charges the device for `size` bytes, and has make() fill in a region for them, with the export. Stores the region's
 * first address in *ptr.
 */
static int region_make(unsigned device, uint64_t size, const struct export *export,
		       int (*make)(struct host_region *region, const void *context), const void *context, void **ptr)
{
	struct host_region *region;
	int rc = charge(device, size);

	if (rc)
		return rc;
	region = host_region_new(HOST_ALLOCATION, device, size);
	if (region) {
		region->export = export;
		region->writable = true;
		rc = make(region, context);
		if (!rc)
			*ptr = region->base;
		else
			host_region_destroy(region);
	} else {
		rc = -ENOMEM;
	}
	if (rc)
		refund(device, size);
	return rc;
}

static int size_check(uint64_t size)
{
	return size && size % HOST_GRANULE == 0 ?
		       0 : error_set(-EINVAL, "%llu bytes are not whole granules of %u", (unsigned long long)size,
				     HOST_GRANULE);
}

int host_allocate(int ordinal, uint64_t size, unsigned exported, void **ptr)
{
	int rc, device = host_enter_device(HOST_ALLOCATE, ordinal);

	if (device < 0)
		return device;
	owner_check("an allocation");
	rc = size_check(size);
	return rc ? rc : region_make((unsigned)device, size, export_of(exported), allocation_make, NULL, ptr);
}

int host_adopt(int ordinal, const struct device_memory *memory, void **ptr)
{
	int rc, device = host_enter_device(HOST_ADOPT, ordinal);

	if (device < 0)
		return device;
	owner_check("an adoption");
	if (!memory->export->by_descriptor)
		return error_set(-ENOTSUP, "memory that is opened by its handle alone ends with its owner");
	rc = size_check(memory->size);
	return rc ? rc : region_make((unsigned)device, memory->size, memory->export, adoption_make, memory, ptr);
}

/* Stores the device's allocation that contains ptr. -EINVAL: no allocation does. Call it under host_state.lock. */
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
		rc = mmap(ptr, region->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, region->file.fd, 0) ==
				     ptr && !madvise(ptr, region->size, MADV_DONTFORK) ? 0 : -errno;
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

/*
 * Whether no importer has the allocation's object open. If one has, reports a violation of others. host_object_unlink()
 * was called before, so no importer can open the object later.
 */
static bool is_unused(const struct host_region *region)
{
	if (!flock(region->file.fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK)
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
	host_object_unlink(region);
	unused = is_unused(region) && host_object_whole(region);
	used[device] -= region->size;
	if (unused && host_quarantine_put(region))
		return 0;
	/*
	 * the quarantine does not take the memory, or is not asked, because an importer that still has the object open
	 * could change the poison, or because the object has another size now
	 */
	host_region_remove(region);
	host_region_destroy(region);
	return 0;
}

/* Waits for this process's work on the device, as cudaFree() does, so that this work does not count as a late write. */
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

/*
 * Answers that the work has ended, unless the call fails at once (host_enter()), because streams are threads of the
 * process, and end with it.
 */
int host_gone(pid_t pid, bool mps)
{
	(void)pid;
	(void)mps;
	return host_enter(HOST_GONE);
}

void host_end_owner(void)
{
	struct host_region *region;
	size_t i = 0;

	pthread_mutex_lock(&host_state.lock);
	while ((region = host_region_at(i))) {
		if (region->kind != HOST_ALLOCATION) {
			i++;
			continue;
		}
		host_region_remove(region);
		used[region->device] -= region->size;
		host_region_destroy(region);
	}
	pthread_mutex_unlock(&host_state.lock);
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
