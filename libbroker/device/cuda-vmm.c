/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda-vmm.c - device memory of the driver's virtual memory management: made and exported by the owner, imported by
 * clients.
 *
 * Mapping memory takes three steps: reserve a range of addresses, map the memory there, and give a device access.
 * Another process imports the memory by a descriptor. No call waits for running kernels or delays launches
 * (facts.md). So unmapping memory that a kernel uses ends the kernel, and a caller unmaps memory only after all work
 * on the memory.
 *
 * Owns the table of ranges that this process has mapped, and the owner's descriptors, one of which stays open until
 * the process ends (anchor_make()). Mapped memory needs no other reference, so none is kept. Memory with a given
 * address is mapped once in a process for all opens, and each device gets access to the mapping. That is as fast as a
 * mapping for each device (facts.md). Never waits.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/error.h"
#include "common/size.h"
#include "common/tables.h"
#include "device/addresses.h"
#include "device/cuda.h"

/* the size of a range at a given address is a multiple of this (addresses_reserve()) */
#define WISH_UNIT   (32ull << 20)
#define ANCHOR_SIZE (2ull << 20)  /* bytes of the smallest memory that the driver allocates (anchor_make()) */

/* A range of addresses with mapped memory, in `chunks` chunks. */
struct range {
	void                *base;
	uint64_t             size, reserved; /* bytes of mapped memory; bytes of reserved addresses */
	uint64_t             ends[EXPORT_CHUNKS_MAX]; /* for each chunk: bytes from base to the chunk's end */
	unsigned             chunks;     /* number of chunks that are mapped */
	/* exports the memory, in the owner; -1: this process has imported the memory */
	int                  descriptor;
	struct device_handle handle;     /* imported memory: the handle, which identifies the memory */
	unsigned             opens;      /* number of opens that were not closed yet */
	uint64_t             readers;    /* bit n is set if the device with ordinal n has access */
	uint64_t             writers;    /* bit n is set if it may write, too */
	UT_hash_handle       hh;         /* entry of the table `ranges`, by base */
};

static struct range   *ranges;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER; /* protects `ranges` and all ranges in it */
/*
 * held while a thread maps memory at a given address, extends a range, makes it writable, or unmaps it; not while
 * cuda_vmm_map_again() does so with its new range
 */
static pthread_mutex_t fixed_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the table ---- */

static int range_add(const struct range *mapped)
{
	struct range *range = malloc(sizeof(*range));
	bool          added;

	if (!range)
		return error_set(-ENOMEM, "no memory for the record of a range of device memory");
	*range = *mapped;
	pthread_mutex_lock(&ranges_lock);
	HASH_ADD_PTR(ranges, base, range);
	added = table_added(range);
	pthread_mutex_unlock(&ranges_lock);
	if (added)
		return 0;
	free(range);
	return error_set(-ENOMEM, "no memory for the record of a range of device memory");
}

/* Copies the range that begins at `base` to *range. False: no range begins there. */
static bool range_find(const void *base, struct range *range)
{
	struct range *found;

	pthread_mutex_lock(&ranges_lock);
	HASH_FIND_PTR(ranges, &base, found);
	if (found)
		*range = *found;
	pthread_mutex_unlock(&ranges_lock);
	return found;
}

/* Adds `opens` to range.opens of the range at `base`, and sets the bits in its range.readers and range.writers. */
static void range_change(const void *base, int opens, uint64_t readers, uint64_t writers)
{
	struct range *range;

	pthread_mutex_lock(&ranges_lock);
	HASH_FIND_PTR(ranges, &base, range);
	if (range) {
		range->opens += (unsigned)opens;
		range->readers |= readers;
		range->writers |= writers;
	}
	pthread_mutex_unlock(&ranges_lock);
}

/* Returns the bit of the device with this ordinal, or 0 if `has` is false. */
static uint64_t bit_of(int ordinal, bool has)
{
	return (uint64_t)has << ordinal;
}

static void range_remove(const void *base)
{
	struct range *range;

	pthread_mutex_lock(&ranges_lock);
	HASH_FIND_PTR(ranges, &base, range);
	if (range)
		HASH_DEL(ranges, range);
	pthread_mutex_unlock(&ranges_lock);
	free(range);
}

bool cuda_vmm_has(const void *base)
{
	struct range range;

	return range_find(base, &range);
}

/* ---- mapping ---- */

static int access_set(CUdeviceptr base, uint64_t size, int ordinal, bool writable)
{
	const CUmemAccessDesc access = { .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal },
					 .flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
							     CU_MEM_ACCESS_FLAGS_PROT_READ };

	return cuda_error(cuda.MemSetAccess(base, size, &access, 1), "giving device %d access to memory", ordinal);
}

/*
 * Reserves *size bytes of addresses at `wish` or, if that is NULL, anywhere, and stores the first address in *base.
 * With a wish, rounds *size up to WISH_UNIT. The driver takes a wished address as a hint. It returns other addresses if
 * something is mapped there, or if the size is not a multiple of 32 MiB. Once the driver has found addresses used, it
 * mostly never gives them to this process again (docs/facts.md), so it is asked only for addresses that are free.
 */
static int addresses_reserve(CUdeviceptr *base, uint64_t *size, const void *wish)
{
	int rc = 0;

	if (wish) {
		*size = size_round_up(*size, WISH_UNIT);
		rc = addresses_check(wish, *size);
	}
	if (rc)
		return rc;
	rc = cuda_error(cuda.MemAddressReserve(base, *size, 0, cuda_address(wish), 0),
			"reserving addresses for %" PRIu64 " bytes", *size);
	if (rc || !wish || *base == cuda_address(wish))
		return rc;
	(void)cuda.MemAddressFree(*base, *size);
	return addresses_taken(wish, *size);
}

/* Maps a chunk of `size` bytes at the address `at`, and gives the device access. */
static int chunk_map(CUmemGenericAllocationHandle memory, CUdeviceptr at, uint64_t size, int ordinal, bool writable)
{
	int rc = cuda_error(cuda.MemMap(at, size, 0, memory, 0), "mapping %" PRIu64 " bytes", size);

	if (rc)
		return rc;
	rc = access_set(at, size, ordinal, writable);
	if (rc)
		(void)cuda.MemUnmap(at, size);
	return rc;
}

/* Maps the memory at range->base or, if that is NULL, anywhere. Fills in *range and adds a copy to `ranges`. */
static int memory_map(CUmemGenericAllocationHandle memory, uint64_t size, int ordinal, bool writable,
		      struct range *range)
{
	CUdeviceptr base;
	uint64_t    reserved = range->reserved > size ? range->reserved : size;
	int         rc = addresses_reserve(&base, &reserved, range->base);

	if (rc)
		return rc;
	rc = chunk_map(memory, base, size, ordinal, writable);
	if (rc)
		goto free_addresses;
	range->base = (void *)(uintptr_t)base;
	range->size = range->ends[0] = size;
	range->chunks = 1;
	range->reserved = reserved;
	range->opens = 1;
	range->readers = bit_of(ordinal, true);
	range->writers = bit_of(ordinal, writable);
	rc = range_add(range);
	if (!rc)
		return 0;
	(void)cuda.MemUnmap(base, size);
free_addresses:
	(void)cuda.MemAddressFree(base, reserved);
	return rc;
}

static int not_mapped(const void *base)
{
	return error_set(-EINVAL, "no memory is mapped at %p", base);
}

/* Ends one open of the range at `base`. If it was the last open, unmaps the memory and frees the range. */
static int range_unmap(int ordinal, void *base)
{
	struct range range;
	CUresult     result;

	if (!range_find(base, &range))
		return not_mapped(base);
	if (range.opens > 1) {
		range_change(base, -1, 0, 0);
		return 0;
	}
	result = cuda.MemUnmap(cuda_address(base), range.size);
	if (result != CUDA_SUCCESS)
		return cuda_error(result, "unmapping memory of device %d", ordinal);
	range_remove(base);
	if (range.descriptor >= 0)
		close(range.descriptor);
	(void)cuda.MemAddressFree(cuda_address(base), range.reserved);
	return 0;
}

int cuda_vmm_unmap(int ordinal, void *base)
{
	int rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	pthread_mutex_lock(&fixed_lock);
	rc = range_unmap(ordinal, base);
	pthread_mutex_unlock(&fixed_lock);
	return rc;
}

int cuda_vmm_make_writable(int ordinal, void *base)
{
	struct range range;
	int          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	pthread_mutex_lock(&fixed_lock);
	rc = range_find(base, &range) ? access_set(cuda_address(base), range.size, ordinal, true) : not_mapped(base);
	if (!rc)
		range_change(base, 0, 0, bit_of(ordinal, true));
	pthread_mutex_unlock(&fixed_lock);
	return rc;
}

/* ---- importing, by clients and by an owner that takes memory over ---- */

static int import_failed(CUresult result, int ordinal)
{
	if (result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_NOT_SUPPORTED)
		return error_set(-ENODEV,
				 "opening a buffer on device %d failed: the device cannot reach the buffer's device, "
				 "or this process's driver does not know the descriptor",
				 ordinal);
	return cuda_error(result, "opening a buffer on device %d", ordinal);
}

static int memory_import(int ordinal, int descriptor, CUmemGenericAllocationHandle *memory)
{
	CUresult result = cuda.MemImportFromShareableHandle(memory, (void *)(intptr_t)descriptor,
							    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);

	return result == CUDA_SUCCESS ? 0 : import_failed(result, ordinal);
}

/* ---- the owner's half ---- */

static int memory_create(int ordinal, uint64_t size, CUmemGenericAllocationHandle *memory)
{
	const CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
						 .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						 .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal } };
	char                      text[SIZE_TEXT_MAX];

	return cuda_error(cuda.MemCreate(memory, size, &properties, 0), "allocating %s on device %d",
			  size_format(size, text), ordinal);
}

/*
 * Returns the error of an export that failed with `result`. The driver reports only that a system call failed, so this
 * function tests whether the process has no descriptor left.
 */
static int export_failed(CUresult result, int ordinal)
{
	int descriptor = result == CUDA_ERROR_OPERATING_SYSTEM ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0) : -1;

	if (result == CUDA_ERROR_OPERATING_SYSTEM && descriptor < 0 && errno == EMFILE)
		return error_set(-EMFILE,
				 "no descriptor is left for memory of device %d, of which each allocation keeps one: "
				 "raise ulimit -n",
				 ordinal);
	if (descriptor >= 0)
		close(descriptor);
	return cuda_error(result, "exporting memory of device %d", ordinal);
}

static CUresult memory_export(CUmemGenericAllocationHandle memory, int *descriptor)
{
	return cuda.MemExportToShareableHandle(descriptor, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

/*
 * Exports the smallest piece of memory, the anchor, and keeps its descriptor until the process ends, because this
 * makes other exports faster. The driver takes 0.6 ms to export the first descriptor on the machine, and to close the
 * last one. While any process has another descriptor, of any device, an export takes 25 us and a close 8 us
 * (docs/facts.md). False: the anchor could not be made, for lack of memory or descriptors; the next
 * allocation tries again.
 */
static bool anchor_make(int ordinal)
{
	CUmemGenericAllocationHandle memory;
	CUresult                     result;
	int                          descriptor;

	if (memory_create(ordinal, ANCHOR_SIZE, &memory))
		return false;
	result = memory_export(memory, &descriptor);
	(void)cuda.MemRelease(memory);
	return result == CUDA_SUCCESS;
}

static void anchor_keep(int ordinal)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool            is_there;

	pthread_mutex_lock(&lock);
	is_there = is_there || anchor_make(ordinal);
	pthread_mutex_unlock(&lock);
}

/* Exports the memory at once, by a descriptor that stays open until the release and of which clients get copies. */
int cuda_vmm_allocate(int ordinal, uint64_t size, void **ptr)
{
	CUmemGenericAllocationHandle memory;
	struct range                 range = { 0 };
	CUresult                     result;
	int                          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = memory_create(ordinal, size, &memory);
	if (rc)
		return rc;
	anchor_keep(ordinal); /* made after the requested memory, which matters more if memory is short */
	result = memory_export(memory, &range.descriptor);
	if (result != CUDA_SUCCESS) {
		rc = export_failed(result, ordinal);
		goto release;
	}
	rc = memory_map(memory, size, ordinal, true, &range);
	if (!rc)
		*ptr = range.base;
	else
		close(range.descriptor);
release:
	(void)cuda.MemRelease(memory);
	return rc;
}

/* An import cannot be exported again (docs/facts.md), so clients get copies of the descriptor that came. */
int cuda_vmm_adopt(int ordinal, const struct device_memory *adopted, void **ptr)
{
	CUmemGenericAllocationHandle memory;
	struct range                 range = { 0 };
	int                          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (!rc)
		rc = memory_import(ordinal, adopted->descriptor, &memory);
	if (rc)
		return rc;
	range.descriptor = fcntl(adopted->descriptor, F_DUPFD_CLOEXEC, 0);
	if (range.descriptor < 0)
		rc = error_set(-errno, "no descriptor is left for memory of device %d: raise ulimit -n", ordinal);
	if (!rc)
		rc = memory_map(memory, adopted->size, ordinal, true, &range);
	(void)cuda.MemRelease(memory);
	if (!rc)
		*ptr = range.base;
	else if (range.descriptor >= 0)
		close(range.descriptor);
	return rc;
}

/* Makes a random number the handle, which only identifies the memory. The descriptor opens the memory. */
int cuda_vmm_export(void *base, struct device_handle *handle, int *descriptor)
{
	struct range range;

	if (!range_find(base, &range))
		return not_mapped(base);
	if (getrandom(handle->bytes, sizeof(handle->bytes), 0) != sizeof(handle->bytes))
		return error_set(-EIO, "no random bytes for a handle: %m");
	*descriptor = range.descriptor;
	return 0;
}

/* ---- the importer's half ---- */

static int import_map(int ordinal, const struct device_memory *import, void **ptr)
{
	CUmemGenericAllocationHandle memory;
	struct range range = {
		.descriptor = -1, .handle = import->handle, .base = import->address, .reserved = import->reserved
	};
	int          rc = memory_import(ordinal, import->descriptor, &memory);

	if (rc)
		return rc;
	rc = memory_map(memory, import->size, ordinal, import->writable, &range);
	(void)cuda.MemRelease(memory);
	if (!rc)
		*ptr = range.base;
	return rc;
}

/*
 * Opens memory that another open of this process has mapped at its given address: counts the open, and gives the device
 * the access that it lacks. Access that it has is not set again: other threads may use the memory meanwhile, and the
 * driver takes it away for a moment (docs/facts.md).
 */
static int open_again(int ordinal, const struct device_memory *import, const struct range *range, void **ptr)
{
	bool has = range->readers >> ordinal & 1, writes = range->writers >> ordinal & 1;
	int  rc = has && (writes || !import->writable) ?
			  0 :
			  access_set(cuda_address(range->base), range->size, ordinal, writes || import->writable);

	if (rc)
		return rc;
	range_change(range->base, 1, bit_of(ordinal, true), bit_of(ordinal, import->writable));
	*ptr = range->base;
	return 0;
}

int cuda_vmm_map(int ordinal, const struct device_memory *import, void **ptr)
{
	struct range range;
	int          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	if (!import->address)
		return import_map(ordinal, import, ptr);
	pthread_mutex_lock(&fixed_lock);
	if (range_find(import->address, &range) && !memcmp(&range.handle, &import->handle, sizeof(range.handle)))
		rc = open_again(ordinal, import, &range, ptr);
	else
		rc = import_map(ordinal, import, ptr);
	pthread_mutex_unlock(&fixed_lock);
	return rc;
}

/* ---- chunks ---- */

static int range_has_no_room(const struct range *range, uint64_t offset, uint64_t size)
{
	return error_set(-EINVAL,
			 "%" PRIu64 " bytes do not fit at offset %" PRIu64
			 " of the memory at %p, which ends at %" PRIu64 " of %" PRIu64,
			 size, offset, range->base, range->size, range->reserved);
}

static void range_extend(const void *base, uint64_t size)
{
	struct range *range;

	pthread_mutex_lock(&ranges_lock);
	HASH_FIND_PTR(ranges, &base, range);
	if (range)
		range->size = range->ends[range->chunks++] = range->size + size;
	pthread_mutex_unlock(&ranges_lock);
}

/* Maps a chunk of `size` bytes at the end of the range, and gives the device the access that it has to the range. */
static int chunk_add(int ordinal, const struct range *range, CUmemGenericAllocationHandle memory, uint64_t size)
{
	int rc;

	if (size > range->reserved - range->size || range->chunks == EXPORT_CHUNKS_MAX)
		return range_has_no_room(range, range->size, size);
	rc = chunk_map(memory, cuda_address(range->base) + range->size, size, ordinal, range->writers >> ordinal & 1);
	if (!rc)
		range_extend(range->base, size);
	return rc;
}

static int import_behind(int ordinal, const struct range *range, int descriptor, uint64_t size)
{
	CUmemGenericAllocationHandle memory;
	int                          rc = memory_import(ordinal, descriptor, &memory);

	if (rc)
		return rc;
	rc = chunk_add(ordinal, range, memory, size);
	(void)cuda.MemRelease(memory);
	return rc;
}

int cuda_vmm_extend(int ordinal, void *base, uint64_t offset, int descriptor, uint64_t size)
{
	struct range range;
	int          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	pthread_mutex_lock(&fixed_lock);
	if (!range_find(base, &range))
		rc = not_mapped(base);
	else if (offset < range.size && size <= range.size - offset)
		rc = access_set(cuda_address(base) + offset, size, ordinal, range.writers >> ordinal & 1);
	else if (offset != range.size)
		rc = range_has_no_room(&range, offset, size);
	else
		rc = import_behind(ordinal, &range, descriptor, size);
	pthread_mutex_unlock(&fixed_lock);
	return rc;
}

/* Takes a reference to the memory that is mapped at the address `at`. The caller releases *memory. */
static int memory_retain(CUdeviceptr at, CUmemGenericAllocationHandle *memory)
{
	return cuda_error(cuda.MemRetainAllocationHandle(memory, (void *)(uintptr_t)at), "finding the memory at %#llx",
			  at);
}

/* Maps the first chunk of the range again, at new addresses with room for all chunks, and fills in *again. */
static int first_again(int ordinal, const struct range *range, bool writable, struct range *again)
{
	CUmemGenericAllocationHandle memory;
	int                          rc = memory_retain(cuda_address(range->base), &memory);

	if (rc)
		return rc;
	*again = (struct range){ .descriptor = -1, .handle = range->handle, .reserved = range->reserved };
	rc = memory_map(memory, range->ends[0], ordinal, writable, again);
	(void)cuda.MemRelease(memory);
	return rc;
}

/* Maps the chunk number `chunk` (from 1 on) of the range again, at the end of the new range at `base`. */
static int next_again(int ordinal, const struct range *range, unsigned chunk, const void *base)
{
	CUmemGenericAllocationHandle memory;
	struct range                 again;
	int                          rc = memory_retain(cuda_address(range->base) + range->ends[chunk - 1], &memory);

	if (rc)
		return rc;
	rc = range_find(base, &again) ?
		     chunk_add(ordinal, &again, memory, range->ends[chunk] - range->ends[chunk - 1]) :
		     not_mapped(base);
	(void)cuda.MemRelease(memory);
	return rc;
}

/*
 * Does not hold fixed_lock. The caller lets no other thread unmap or extend the mapping at ptr meanwhile (mapping.c,
 * change_begin()). No other thread knows the new range before this function returns.
 */
int cuda_vmm_map_again(int ordinal, const void *ptr, bool writable, void **result)
{
	struct range range, again;
	int          rc;
	CUDA_SCOPE(scope);

	rc = cuda_enter(&scope, ordinal);
	if (rc)
		return rc;
	if (!range_find(ptr, &range))
		return not_mapped(ptr);
	rc = first_again(ordinal, &range, writable, &again);
	if (rc)
		return rc;
	for (unsigned chunk = 1; chunk < range.chunks && !rc; chunk++)
		rc = next_again(ordinal, &range, chunk, again.base);
	if (rc)
		(void)range_unmap(ordinal, again.base);
	else
		*result = again.base;
	return rc;
}
