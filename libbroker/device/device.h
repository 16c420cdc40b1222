/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - the interface of a kind of device: one table of functions.
 *
 * Broker and library use the same table: the broker uses its "owner" half (allocate to release), a client the rest.
 * Two tables exist, device_host (always) and device_cuda (NULL when built without CUDA). Each kind keeps its state
 * per process, from start() on. A forked child can use the device only if it was forked before start().
 *
 * Unless a comment says otherwise, functions return 0 or a negative errno with the error message set. All functions are
 * thread-safe. Only set_current() changes the calling thread's current device or context. No function disturbs a graph
 * capture. Owns nothing.
 */
#ifndef GPUB_DEVICE_H
#define GPUB_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/export.h"
#include "common/handle.h"
#include "gpubroker.h"

struct device_info {
	uint8_t  uuid[16];
	char     name[64];
	uint64_t memory;  /* bytes of the whole device */
	uint64_t granule; /* bytes; an importer that opens a part of a granule can access all of the granule */
	struct { int domain, bus, slot; } pci; /* the device's address on PCI; bus -1: unknown, or not on PCI */
};

#define DEVICE_WORDS_MAX 255 /* words of one operation at most: CUDA's limit (cuStreamBatchMemOp) */

/* A word of a registered page, and the value that a stream writes to the word, or waits for the word to reach. */
struct device_word {
	uint64_t *word; /* address of the word, which a wait only reads */
	uint64_t  value;
};

/*
 * The watch of one buffer in an open mapping. The caller owns it, zeroes it before use, and must not move it between
 * watch() and unwatch(). The device owns the fields from region on.
 */
struct device_watch {
	const char *name; /* the buffer's name, for reports */
	uint8_t    *ptr;  /* address of the buffer */
	uint64_t    size; /* bytes of the buffer */
	uint64_t    room; /* bytes from `ptr` on that belong to no other buffer */

	struct host_region  *region; /* the mapping that has the buffer; NULL: the buffer is not watched */
	struct device_watch *prev, *next; /* links of the list region->watches */
};

/* Memory of another process, to be opened by map(). */
struct device_memory {
	struct device_handle handle;     /* opens the memory or, with a descriptor, says which memory that must open */
	const struct export *export;     /* the kind of export by which the owner exported the memory */
	int                  descriptor; /* opens the memory; stays the caller's; -1: the handle opens the memory */
	uint64_t             size;       /* bytes of the memory */
	/* false: map read-only, so that kernels of this process that write there fail */
	bool                 writable;
	void                *address;    /* where to map the memory; NULL: at any address */
	uint64_t             reserved;   /* bytes of addresses to reserve, for extend(); `size` if this is less */
};

/*
 * The CUDA version that the driver must support (12000 is 12.0), and the first driver that supports it.
 * cuda-library.c checks at compile time that no function in CUDA_FUNCTIONS of cuda.h needs a newer version.
 */
#define CUDA_NEEDED        12000
#define CUDA_NEEDED_DRIVER "525.60.13"

enum device_kind { DEVICE_HOST = 1, DEVICE_CUDA = 2, DEVICE_KINDS };

/* The arguments of start(). */
struct device_setup {
	bool     owner;      /* this process is the owner, which allocates memory and stays outside MPS */
	unsigned host_count; /* how many devices the host device has; 0 means 1; ignored by CUDA */
};

struct device {
	enum device_kind kind;
	const char      *name;        /* "cuda" or "host" */
	bool             on_host;     /* the CPU can access the device's memory, so gpub_lease.device is GPUB_HOST */
	uint64_t         margin;      /* unused bytes that the broker leaves after each buffer in a shared allocation */
	/* number of descriptors that the owner keeps open for each allocation, not counting that of the export */
	unsigned         descriptors;

	/*
	 * Makes the kind usable in this process. After a success, later calls do nothing on CUDA; on the host device
	 * they can still make the process the owner, and -EINVAL refuses another number of devices. -ENODEV: only if
	 * the machine has no device of this kind, because "auto" then chooses the host device. -ENOTSUP: this is a
	 * forked child, or the driver is too old.
	 */
	int (*start)(const struct device_setup *setup);
	/*
	 * Stores the CUDA version that the driver supports (12080 is 12.8). Needs no start(). NULL: the kind has no
	 * driver.
	 */
	int (*driver)(int *version);
	int (*count)(void); /* returns the number of devices that this process can use */
	int (*info)(int ordinal, struct device_info *info);

	/* the owner's half, for the process that has the devices */

	/*
	 * For memory that has names which others may remove. names_keep() makes the directory of the names, which the
	 * caller removes at its end. names_restore() makes the directory again if it was removed. Returns 1 if names
	 * were lost since the last call. NULL: the kind's memory has no names.
	 */
	int (*names_keep)(void);
	int (*names_restore)(void);
	/*
	 * Returns the number of devices that clients must set device_setup.host_count to. NULL: clients need no number.
	 */
	unsigned (*total)(void);

	/* the rest of the owner's half is only for the devices' threads */

	/*
	 * Allocates memory. size: bytes, whole granules. exported: enum export_kind. -ENOMEM or -ENOSPC: there is too
	 * little memory. -ENOTSUP: the device cannot export memory in this way.
	 */
	int (*allocate)(int ordinal, uint64_t size, unsigned exported, void **ptr);
	/*
	 * Takes over memory whose export came by a descriptor from the owner before, which has ended: it is this
	 * owner's as if allocate() had made it. memory: handle, export, descriptor and size; the rest is unused.
	 * -ENOTSUP: the memory did not come by a descriptor.
	 */
	int (*adopt)(int ordinal, const struct device_memory *memory, void **ptr);
	int (*room)(int ordinal, uint64_t *bytes);               /* stores the number of the device's free bytes */
	int (*zero)(int ordinal, void *ptr, uint64_t size);      /* zeroes memory; returns when it is zeroed */
	/* Stores an allocation's handle, and its descriptor, which the device closes in release(); -1: it has none. */
	int (*export_handle)(int ordinal, void *ptr, struct device_handle *handle, int *descriptor);
	int (*release)(int ordinal, void *ptr); /* frees an allocation */
	/*
	 * Tells whether all devices have ended the work of a dead process. 0: they have or, if it cannot be known, the
	 * process did not run under MPS. -EBUSY: not yet. -ENOTSUP: it cannot be known. mps: the
	 * process said that it ran under MPS. If the pid has been reused, the answer is about the new process.
	 */
	int (*gone)(pid_t pid, bool mps);

	/* the importer's half */

	/* Opens memory by its handle alone, as CUDA IPC does. */
	int (*open)(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
	/*
	 * Opens memory whose kind of export has views. -EADDRINUSE: something else is mapped at memory->address. All
	 * opens of one memory at one given address, on any device, share one mapping.
	 */
	int (*map)(int ordinal, const struct device_memory *memory, void **ptr);
	/*
	 * Maps a further chunk of `size` bytes at `offset` of the mapping at base, with the access that the device
	 * has to the mapping. If another open has already mapped the chunk there, only gives the device access.
	 * descriptor: opens the chunk; stays the caller's.
	 */
	int (*extend)(int ordinal, void *base, uint64_t offset, int descriptor, uint64_t size);
	/*
	 * Maps the memory that map() has mapped at ptr a second time, at other addresses. Both mappings must be closed.
	 * The caller neither closes nor extends the mapping at ptr in another thread meanwhile.
	 */
	int (*map_again)(int ordinal, const void *ptr, bool writable, void **again);
	int (*make_writable)(int ordinal, void *ptr); /* makes a read-only mapping writable, at the same address */
	/* Ends one open() or map() of the memory at ptr. Waits for all work of the process on the device. */
	int (*close)(int ordinal, void *ptr);
	/*
	 * Ends one map() of the memory at ptr, which no work may use any more. Waits for nothing, and delays no launch.
	 */
	int (*unmap)(int ordinal, void *ptr);
	/*
	 * Waits for all work of the process on the device, as close() does, and closes nothing. handle: the handle of
	 * memory that open() has opened on the device, `size` bytes; NULL: the memory was opened by map(). -ENOTSUP:
	 * this device has no call that does so; the last close of a handle may wait nevertheless.
	 */
	int (*sync)(int ordinal, const struct device_handle *handle, uint64_t size);
	/*
	 * Between watch() and unwatch() the device reports writes after the end of the buffer, and refuses copies
	 * that exceed the buffer. The last close of the mapping also ends the watch. NULL: the device does not detect
	 * overruns.
	 */
	void (*watch)(struct device_watch *watch);
	void (*unwatch)(struct device_watch *watch);
	int (*check)(int ordinal);            /* returns 0, or -EIO if the device has failed in this process for good */
	/*
	 * Returns the epoch of a device in this process, a number that changes with each reset (cudaDeviceReset). A
	 * reset ends the process's streams, queued work, and mappings of some kinds of export (export.h) on the
	 * device. When the number changes, the reset is complete. 0: the device is not used yet or, with the error
	 * message set, was reset and cannot be used again. Makes no system call unless the device was reset. NULL:
	 * the device cannot be reset.
	 */
	uint64_t (*epoch)(int ordinal);
	int (*current)(void);                 /* returns the ordinal of the calling thread's current device */
	int (*set_current)(int ordinal);

	/*
	 * page_register() registers host memory that the device writes or, if not writable, reads. The memory must be
	 * page-aligned, MAP_SHARED and MADV_DONTFORK. Device code and stream operations can then use its address. A
	 * reset does not end a registration. -EEXIST: the device has other memory registered at the address
	 * (device/page.h). page_unregister() must be called before the memory is unmapped. It waits as close() does.
	 * After an error the memory is still registered.
	 */
	int (*page_register)(void *page, size_t size, bool writable);
	int (*page_unregister)(void *page);

	/*
	 * Streams. NULL is the legacy default stream of the calling thread's current device. stream_write() has no
	 * cancellation point, because its caller does not disable cancellation.
	 */
	int (*stream_write)(void *stream, uint64_t *word, uint64_t value); /* -EBUSY: the stream is being captured */
	/* until (int64_t)(*word - value) >= 0 */
	int (*stream_wait)(void *stream, const uint64_t *word, uint64_t value);
	/*
	 * Write, or wait for, 1 to DEVICE_WORDS_MAX words in one operation of the stream. After an error none is
	 * queued.
	 */
	int (*stream_write_many)(void *stream, const struct device_word *words, unsigned count);
	int (*stream_wait_many)(void *stream, const struct device_word *words, unsigned count);
	/*
	 * Makes later work on `stream` wait for the work queued so far on `other`, which may be of another device.
	 * -EBUSY: one of the streams is being captured.
	 */
	int (*stream_after)(void *stream, void *other);
	/* streams of lower priority numbers run first */
	int (*stream_create)(int ordinal, int priority, void **stream);
	int (*stream_sync)(void *stream);
	/*
	 * Waits for the stream's work as stream_sync() does, and calls over() from time to time. over() returns 0 to
	 * go on, > 0 to go on without further calls, or a negative errno, with the error message set, which ends the
	 * wait and is returned. The work stays queued.
	 */
	int (*stream_sync_until)(void *stream, int (*over)(void *), void *context);
	void (*stream_destroy)(void *stream);
	int (*copy)(void *stream, void *dst, const void *src, uint64_t size);

	/*
	 * Kernels. config->device is an ordinal. Loading a module on a device waits for the work there, also for
	 * streams that wait. module_load() loads the module on all devices in use, module_ready() on one more device.
	 * module_unload() waits for the module's launches. The other functions do not wait, except the first launch on
	 * a device on which the module is not loaded yet, and look-ups on drivers before CUDA 12.4, which load the
	 * kernel.
	 */
	int (*module_load)(const char *path, void **module); /* path: the path of the module's file, with the suffix */
	int (*module_ready)(void *module, int ordinal);
	int (*module_kernel)(void *module, const char *symbol, void **kernel);
	int (*module_managed)(void *module, const char *symbol, void **ptr, size_t *size);
	int (*module_launch)(void *kernel, const gpub_launch_config *config, void **args);
	int (*module_unload)(void *module); /* waits until the module's launches have ended, then unloads */
	const char *module_suffix;          /* with which names of the kind's module files end: ".fatbin" or ".so" */

	/* In a forked child: closes descriptors that keep the parent's device memory or work. Async-signal-safe. */
	void (*child_after_fork)(void);
};

extern const struct device        device_host;
extern const struct device *const device_cuda; /* NULL when built without CUDA */

/* Returns the table of a kind (enum device_kind). NULL: the kind is unknown, or this build has no such kind. */
const struct device *device_find(uint32_t kind);

/* Whether this process was forked, without exec, after CUDA had been started. If true, calls of CUDA fail here. */
bool device_cuda_forked(void);

#endif
