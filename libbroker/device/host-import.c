/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-import.c - see host-import.h
 *
 * Owns the mappings of this process. Each mapping has its own open file of the memory's object, with a shared flock
 * that shows the owner that the memory is in use (host-memory.c). As with NVIDIA's descriptors, a forked child that
 * has inherited an importer's descriptor keeps the memory in use. Each mapping lies between guard pages. Never
 * releases or unlinks an object.
 */
#include "host-import.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "common/crash-point.h"
#include "common/error.h"
#include "common/size.h"
#include "host-fault.h"
#include "host-gate.h"
#include "host-object.h"
#include "host-region.h"
#include "host-state.h"
#include "host-trap.h"
#include "host-watch.h"

#define CLOSED_MAX 64 /* length of the list `closed` at most */

/* List of the closed mappings with reserved addresses (HOST_CLOSED), oldest first. Under host_state.lock. */
static struct host_region *closed;
static unsigned closed_count;

static atomic_bool closes_return, last_closes_return; /* set by host_do_not_wait() */

/* Unmaps memory of a mapping, and keeps its addresses reserved. False: the kernel is short of memory. */
static bool addresses_clear(uint8_t *at, uint64_t size)
{
	return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at;
}

/* Returns the device's mapping of the handle's memory, or NULL. Aborts if this process has exported the memory. */
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
 * Maps the region's object at `address` or, if that is NULL, anywhere, between guard pages, where every access faults.
 * MADV_DONTFORK keeps the mapping out of children, as with CUDA, because a child would keep the memory in use
 * unnoticed.
 */
static int region_map(struct host_region *region, uint8_t *address)
{
	uint64_t guard = host_guard_size(), room = host_region_room(region) + 2 * guard;
	int access = region->writable ? PROT_READ | PROT_WRITE : PROT_READ, file = region->file.fd;
	uint8_t *base = address ? address - guard : NULL;
	int rc = host_addresses_reserve(room, &base);

	if (rc)
		return rc;
	if (mmap(base + guard, region->size, access, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
		error_set(-ENOMEM, "host device: %llu bytes cannot be mapped: %m", (unsigned long long)region->size);
		munmap(base, room);
		return -ENOMEM;
	}
	region->base = base + guard;
	if (madvise(region->base, region->size, MADV_DONTFORK))
		return error_set(-errno, "host device: its memory cannot be kept from forks: %m");
	return 0;
}

/*
 * Opens an object (host_object_open()) with an open file of its own, and locks it shared as a sign that the object is
 * in use. *size: before the call, the bytes that the object must have at least; afterwards, the bytes that it has.
 * *file: the open file, which the caller closes, also after an error.
 */
static int object_open(const struct device_handle *handle, int descriptor, uint64_t *size, struct owned_fd *file)
{
	struct stat st;

	owned_fd_take(file, host_object_open(handle, descriptor));
	if (file->fd < 0)
		return file->fd;
	CRASH_POINT(object_opened);
	/*
	 * the lock only shows the owner, in release(), that the memory is in use; if it fails because another process
	 * has locked the object, the object is mapped nevertheless
	 */
	(void)flock(file->fd, LOCK_SH | LOCK_NB);
	if (fstat(file->fd, &st) || host_object_released(&st))
		return error_set(-ENOENT, "the handle's memory was just released");
	if ((uint64_t)st.st_size < *size)
		return error_set(-EINVAL, "the handle's memory has %lld bytes, not %llu", (long long)st.st_size,
				 (unsigned long long)*size);
	*size = (uint64_t)st.st_size;
	CRASH_POINT(object_locked);
	return 0;
}

static int mapping_make(struct host_region *region, int descriptor, uint8_t *address)
{
	int rc = object_open(&region->handle, descriptor, &region->size, &region->file);

	if (!rc)
		rc = region_map(region, address);
	CRASH_POINT(object_mapped);
	if (!rc)
		rc = host_region_add(region);
	if (rc)
		host_region_destroy(region);
	return rc;
}

/* Makes a new mapping of the memory, by memory->descriptor or, if that is -1, by the handle. *ptr: its address. */
static int mapping_new(const struct device_memory *memory, unsigned device, void **ptr)
{
	struct host_region *region = host_region_new(HOST_MAPPING, device, memory->size);
	int rc;

	if (!region)
		return -ENOMEM;
	region->handle = memory->handle;
	region->export = memory->export;
	region->writable = memory->writable;
	region->reserved = memory->reserved;
	host_trap_install();
	rc = mapping_make(region, memory->descriptor, memory->address);
	if (rc)
		return rc;
	region->opens = 1;
	*ptr = region->base;
	return 0;
}

static int size_refuse(uint64_t size)
{
	return error_set(-EINVAL, "%llu bytes are not what the handle's memory has", (unsigned long long)size);
}

/* Opens the handle on the device. If the handle is open there already, only counts the open, as CUDA does. */
static int open_locked(const struct device_handle *handle, unsigned device, uint64_t size, void **ptr)
{
	const struct device_memory memory = { .handle = *handle,
					      .export = export_of(EXPORT_IPC),
					      .descriptor = -1,
					      .size = size,
					      .writable = true };
	struct host_region *region = mapping_find(handle, device);

	if (!size || (region && size > region->size))
		return size_refuse(size);
	if (!region)
		return mapping_new(&memory, device, ptr);
	region->opens++;
	*ptr = region->base;
	return 0;
}

int host_open(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr)
{
	int rc, device = host_enter_device(HOST_OPEN, ordinal);

	if (device < 0)
		return device;
	atomic_store(&host_state.in_use[device], true);
	pthread_mutex_lock(&host_state.lock);
	rc = open_locked(handle, (unsigned)device, size, ptr);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* Makes the memory of a read-only mapping writable. */
static int access_allow(struct host_region *region)
{
	if (!region->writable && mprotect(region->base, region->size, PROT_READ | PROT_WRITE))
		return error_set(-errno, "host device: memory cannot be made writable: %m");
	region->writable = true;
	return 0;
}

/* Frees a closed mapping and its reserved addresses. */
static void closed_drop(struct host_region *region)
{
	LL_DELETE(closed, region);
	closed_count--;
	host_region_remove(region);
	host_region_destroy(region);
}

/* Frees the mappings that were closed first, until the list `closed` is no longer than CLOSED_MAX. */
static void closed_trim(void)
{
	while (closed_count > CLOSED_MAX)
		closed_drop(closed);
}

/*
 * Returns the mapping of the memory at memory->address, or NULL if there is none or no address is given. If a closed
 * mapping has the address reserved, frees it.
 */
static struct host_region *mapping_of(const struct device_memory *memory)
{
	struct host_region *region = memory->address ? host_region_find(memory->address) : NULL;

	if (region && region->kind == HOST_CLOSED) {
		closed_drop(region);
		return NULL;
	}
	return region && region->kind == HOST_MAPPING && region->base == memory->address &&
			       !memcmp(&region->handle, &memory->handle, sizeof region->handle) ? region : NULL;
}

static int map_locked(const struct device_memory *memory, unsigned device, void **ptr)
{
	struct host_region *region = mapping_of(memory);
	int rc;

	if (!memory->size)
		return size_refuse(memory->size);
	if (!region)
		return mapping_new(memory, device, ptr);
	rc = memory->writable ? access_allow(region) : 0;
	if (rc)
		return rc;
	region->opens++;
	region->others |= 1ull << device;
	*ptr = region->base;
	return 0;
}

int host_map(int ordinal, const struct device_memory *memory, void **ptr)
{
	int rc, device = host_enter_device(HOST_OPEN, ordinal);

	if (device < 0)
		return device;
	atomic_store(&host_state.in_use[device], true);
	pthread_mutex_lock(&host_state.lock);
	rc = map_locked(memory, (unsigned)device, ptr);
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/* Returns the device's mapping that begins at ptr, or NULL with the error message set. Under host_state.lock. */
static struct host_region *mapping_at(unsigned device, const void *ptr)
{
	struct host_region *region = host_region_find(ptr);

	if (region && region->kind == HOST_MAPPING && region->base == ptr && host_region_is_of(region, device))
		return region;
	error_set(-EINVAL, "%p is not open on host device %u", ptr, device);
	return NULL;
}

/*
 * As mapping_at(), but aborts if the mapping's kind of export can only be opened and closed (export->views is false):
 * not mapped again, extended or made writable. what: what the caller asked for, as a noun, for the report.
 */
static struct host_region *mapped_at(unsigned device, const void *ptr, const char *what)
{
	struct host_region *region = mapping_at(device, ptr);

	if (region && !region->export->views)
		host_violation("%s of %p: memory that is exported as %s has none", what, ptr, region->export->name);
	return region;
}

/* ---- chunks ---- */

/* Maps a chunk's object at the end of the mapping's memory. */
static int chunk_map(const struct host_region *region, const struct host_chunk *chunk)
{
	uint8_t *at = region->base + region->size;
	int access = region->writable ? PROT_READ | PROT_WRITE : PROT_READ;

	if (mmap(at, chunk->size, access, MAP_SHARED | MAP_FIXED, chunk->file.fd, 0) == at &&
	    !madvise(at, chunk->size, MADV_DONTFORK))
		return 0;
	error_set(-ENOMEM, "host device: %llu bytes cannot be mapped: %m", (unsigned long long)chunk->size);
	addresses_clear(at, chunk->size);
	return -ENOMEM;
}

/* Opens a chunk by its descriptor and maps it at the end of the mapping. Call it under host_state.lock. */
static int chunk_add(struct host_region *region, int descriptor, uint64_t size)
{
	struct host_chunk *chunks = realloc(region->chunks, (region->chunk_count + 1) * sizeof *chunks), *chunk;
	int rc;

	if (!chunks)
		return error_set(-ENOMEM, "host device: no memory for a mapping's record");
	region->chunks = chunks;
	chunk = &chunks[region->chunk_count];
	*chunk = (struct host_chunk){ .size = size };
	rc = object_open(NULL, descriptor, &chunk->size, &chunk->file);
	if (!rc && chunk->size != size)
		rc = size_refuse(size);
	if (!rc)
		rc = chunk_map(region, chunk);
	if (rc) {
		host_file_close(&chunk->file);
		return rc;
	}
	region->chunk_count++;
	region->size += size;
	return 0;
}

static int extend_locked(struct host_region *region, unsigned device, uint64_t offset, int descriptor, uint64_t size)
{
	if (offset < region->size && size <= region->size - offset) {
		region->others |= 1ull << device; /* the chunk is mapped here already, by another open */
		return 0;
	}
	if (offset != region->size || region->reserved < region->size || size > region->reserved - region->size)
		return error_set(-EINVAL,
				 "%llu bytes do not fit at offset %llu of the memory at %p, which ends at %llu of %llu",
				 (unsigned long long)size, (unsigned long long)offset, (void *)region->base,
				 (unsigned long long)region->size, (unsigned long long)region->reserved);
	return chunk_add(region, descriptor, size);
}

int host_extend(int ordinal, void *base, uint64_t offset, int descriptor, uint64_t size)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_OPEN, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	region = mapped_at((unsigned)device, base, "more memory");
	rc = region ? extend_locked(region, (unsigned)device, offset, descriptor, size) : -EINVAL;
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/*
 * Checks the descriptor of a mapping's object, by which the memory is opened a second time. -ECONNRESET: the program
 * has closed the descriptor.
 */
static int file_check(const struct owned_fd *file)
{
	return owned_fd_stands(file) ? 0 : error_set(-ECONNRESET, "%s", OWNED_FD_LOST);
}

static int chunk_again(const struct host_chunk *chunk, struct host_region *again)
{
	int rc = file_check(&chunk->file);

	return rc ? rc : chunk_add(again, chunk->file.fd, chunk->size);
}

static int chunks_again(const struct host_region *region, struct host_region *again)
{
	int rc = 0;

	for (unsigned i = 0; i < region->chunk_count && !rc; i++)
		rc = chunk_again(&region->chunks[i], again);
	return rc;
}

static int map_again_locked(const struct host_region *region, unsigned device, bool writable, void **again)
{
	struct device_memory memory = { .handle = region->handle,
					.export = region->export,
					.descriptor = region->export->by_descriptor ? region->file.fd : -1,
					.size = region->size,
					.writable = writable,
					.reserved = region->reserved };
	struct host_region *made;
	int rc = file_check(&region->file);

	for (unsigned i = 0; i < region->chunk_count; i++)
		memory.size -= region->chunks[i].size;
	if (!rc)
		rc = mapping_new(&memory, device, again);
	if (rc || !region->chunk_count)
		return rc;
	made = host_region_find(*again);
	rc = chunks_again(region, made);
	if (rc) { /* no work uses the new mapping, so it is ended without a wait */
		host_region_remove(made);
		host_region_destroy(made);
	}
	return rc;
}

int host_map_again(int ordinal, const void *ptr, bool writable, void **again)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_OPEN, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	region = mapped_at((unsigned)device, ptr, "another mapping");
	rc = region ? map_again_locked(region, (unsigned)device, writable, again) : -EINVAL;
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

int host_make_writable(int ordinal, void *ptr)
{
	struct host_region *region;
	int rc, device = host_enter_device(HOST_OPEN, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	region = mapped_at((unsigned)device, ptr, "a change of access");
	rc = region ? access_allow(region) : -EINVAL;
	pthread_mutex_unlock(&host_state.lock);
	return rc;
}

/*
 * Closes a mapping. Unmaps its memory and keeps its addresses reserved, so that a later use of the addresses faults
 * (host-trap.h) or aborts in host_check_range(), and does not reach memory mapped there later. Adds the region to the
 * list `closed`. False: the addresses could not be kept, and the region is freed. Call it under host_state.lock.
 */
static bool mapping_end(struct host_region *region)
{
	host_watch_end(region);
	CRASH_POINT(object_closing);
	if (!addresses_clear(region->base, region->size)) {
		host_region_remove(region);
		host_region_destroy(region);
		return false;
	}
	host_region_close(region);
	region->kind = HOST_CLOSED;
	LL_APPEND(closed, region);
	closed_count++;
	return true;
}

/* A reset ends only mappings whose kind of export has ends_at_reset (docs/facts.md). */
void host_mappings_end(unsigned device)
{
	struct host_region *region;
	size_t i = 0;

	while ((region = host_region_at(i))) {
		bool ends = region->kind == HOST_MAPPING && region->device == device && region->export->ends_at_reset;

		if (!ends || mapping_end(region))
			i++;
	}
	closed_trim();
}

/* Ends one open of a mapping. If it was the last open, closes the mapping. Call it under host_state.lock. */
static void mapping_close(struct host_region *region)
{
	if (--region->opens)
		return;
	mapping_end(region);
	closed_trim();
}

/*
 * Ends one open of the mapping at ptr. Looks the mapping up again, because it may have ended while host_close() waited.
 */
static void close_one(unsigned device, const void *ptr)
{
	struct host_region *region;

	pthread_mutex_lock(&host_state.lock);
	region = mapping_at(device, ptr);
	if (region)
		mapping_close(region);
	pthread_mutex_unlock(&host_state.lock);
}

/*
 * Waits for all queued work on the device. Returns the sticky error, or 0. The caller has closed the gate
 * (host-gate.h).
 */
static int work_wait(unsigned device)
{
	host_gate_drain(device);
	return host_sticky_error();
}

/*
 * Waits as CUDA does: each close, not only the last one of a handle, waits for all work that this process has queued on
 * any stream of the device, also for work that is queued after a wait of a stream. Meanwhile no thread can queue work.
 * Does not wait for work on other devices.
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

int host_unmap(int ordinal, void *ptr)
{
	struct host_region *region;
	int device = host_enter_device(HOST_CLOSE, ordinal);

	if (device < 0)
		return device;
	pthread_mutex_lock(&host_state.lock);
	region = mapped_at((unsigned)device, ptr, "a close that does not wait");
	if (region)
		mapping_close(region);
	pthread_mutex_unlock(&host_state.lock);
	return region ? 0 : -EINVAL;
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
