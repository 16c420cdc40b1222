/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - what a kind of device must be able to do, as one table of functions.
 *
 * Owns nothing. Broker and library use the same table: the broker its "owner" half (allocate to release), a client the
 * rest. Two tables exist, device_host (always) and device_cuda (NULL when built without CUDA). Each keeps its state per
 * process, from start() on: a process whose forked child is to use the device itself calls start() after the fork.
 *
 * Every function returns 0 (or what its comment says) or a negative errno with the error set by error_set(). All are
 * thread-safe. Only set_current() changes the calling thread's current device or context. None disturbs a graph capture.
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

/* Which processes may have a context on a device. */
enum device_use { DEVICE_SHARED, DEVICE_EXCLUSIVE /* one at a time */, DEVICE_PROHIBITED };

struct device_info {
	uint8_t  uuid[16];
	char     name[64];
	uint64_t memory;  /* bytes in all */
	uint64_t granule; /* an importer can reach whole granules of this size */
	enum device_use use;
	struct { int domain, bus, slot; } pci; /* where it is; bus -1: not on PCI, or unknown */
};

#define DEVICE_WORDS_MAX 255 /* of one operation: CUDA's limit (cuStreamBatchMemOp) */

/* A word of a registered page, and the value that a stream writes to it or waits for. */
struct device_word {
	uint64_t *word; /* a wait only reads it */
	uint64_t  value;
};

/*
 * One buffer in an open mapping. The caller owns it, zeroes it first, and keeps it in place while it is watched. The device
 * owns region and what follows.
 */
struct device_watch {
	const char *name; /* what a report calls the buffer */
	uint8_t    *ptr;
	uint64_t    size; /* bytes of the buffer */
	uint64_t    room; /* bytes from ptr on that belong to no other buffer */

	struct host_region  *region; /* NULL: not watched */
	struct device_watch *prev, *next;
};

/* Memory of another process, which map() opens. */
struct device_memory {
	struct device_handle handle;     /* opens the memory, or says which descriptor is meant */
	const struct export *export;     /* how its owner exported it */
	int                  descriptor; /* stays the caller's; -1: the handle is enough */
	uint64_t             size;
	bool                 writable; /* else this process's work can only read it: a kernel that writes there fails */
	void                *address;  /* NULL: anywhere */
	uint64_t             reserved; /* bytes of addresses to keep, for extend(); 0: as many as it has */
};

/*
 * The CUDA version that the driver must support, as cuda.h writes versions (12000 is 12.0), and the first driver that does.
 * The functions in cuda.h need it, which cuda-library.c checks at compile time.
 */
#define CUDA_NEEDED        12000
#define CUDA_NEEDED_DRIVER "525.60.13"

enum device_kind { DEVICE_HOST = 1, DEVICE_CUDA = 2, DEVICE_KINDS };

/* The arguments of start(). */
struct device_setup {
	bool     owner;      /* this process is the broker: it allocates (and stays outside MPS) */
	unsigned host_count; /* host device: how many devices; ignored by cuda */
};

struct device {
	enum device_kind kind;
	const char      *name;        /* "cuda", "host" */
	bool             on_host;     /* the processor reaches its memory: leases say GPUB_HOST */
	uint64_t         margin;      /* unused bytes that the owner leaves behind each buffer in a shared allocation */
	unsigned         descriptors; /* that the owner keeps open for each allocation, beside what its export keeps */

	/*
	 * Makes the kind usable in this process; later calls do nothing. -ENODEV: there is no such device here. It means
	 * nothing else, because "auto" then takes the host. -ENOTSUP: this is a forked child, or the driver is too old.
	 */
	int (*start)(const struct device_setup *setup);
	/* The CUDA version that the driver supports (12080 is 12.8), before or after start(). NULL: the kind has no driver. */
	int (*driver)(int *version);
	int (*count)(void);
	int (*info)(int ordinal, struct device_info *info);

	/* the owner's half: first what the broker's main thread calls */

	/*
	 * Where the memory has names that others may remove: names_keep() makes the directory of the names, for as long
	 * as the broker lives; names_restore() makes it again if it is gone, and returns 1 if names were lost since the
	 * last call. NULL: the memory has no names.
	 */
	int (*names_keep)(void);
	int (*names_restore)(void);
	/* How many devices there are, for the host_count of clients. NULL: start() does not need it. */
	unsigned (*total)(void);

	/* the rest is called by the broker's device threads only */

	/* size: whole granules. -ENOMEM, -ENOSPC; -ENOTSUP: the device has no exports of that kind. */
	int (*allocate)(int ordinal, uint64_t size, unsigned exported, void **ptr);
	int (*room)(int ordinal, uint64_t *bytes);               /* not allocated by anybody: this process or others */
	int (*zero)(int ordinal, void *ptr, uint64_t size);      /* done when it returns */
	/* *descriptor: the device's, open until release(); -1: the handle is enough. */
	int (*export_handle)(int ordinal, void *ptr, struct device_handle *handle, int *descriptor);
	int (*release)(int ordinal, void *ptr);
	/*
	 * Whether all devices have ended the work of a dead process: 0 yes; -EBUSY not yet; -ENOTSUP nobody can tell. mps: it
	 * said that it ran under MPS. If another process has its pid now, the answer is about that process.
	 */
	int (*gone)(pid_t pid, bool mps);

	/* the importer's half */
	/* By the handle alone, as CUDA IPC does. */
	int (*open)(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
	/*
	 * Memory of a kind of export that has views. -EADDRINUSE: something else is at the address that was asked for.
	 * The same memory at the same address is one mapping, of all devices and opens that asked for it.
	 */
	int (*map)(int ordinal, const struct device_memory *memory, void **ptr);
	/*
	 * Maps memory behind what is mapped at base, at that offset, with the access that the device has there. Where another open
	 * of those addresses did so before, the device gets access. memory: its handle, descriptor and size.
	 */
	int (*extend)(int ordinal, void *base, uint64_t offset, const struct device_memory *memory);
	/* Maps what map() has mapped at ptr once more, at other addresses and with an access of its own. Close each. */
	int (*map_again)(int ordinal, const void *ptr, bool writable, void **again);
	int (*make_writable)(int ordinal, void *ptr); /* in place, what was mapped read-only */
	int (*close)(int ordinal, void *ptr); /* of either kind. Waits for all work of the process on that device */
	/* Closes what was mapped, and on which the caller knows that no work is left: waits for nothing, and holds no launch up. */
	int (*unmap)(int ordinal, void *ptr);
	/*
	 * Waits for the same work as close(). handle: of memory that is open on that device, and stays so; NULL: of
	 * memory that map() mapped. -ENOTSUP: only the last close of a handle waits.
	 */
	int (*sync)(int ordinal, const struct device_handle *handle, uint64_t size);
	/*
	 * Between these two the device reports writes behind the end of that buffer, and refuses copies that leave it. The
	 * last close of its mapping ends the watch as well. NULL where the device does not detect overruns.
	 */
	void (*watch)(struct device_watch *watch);
	void (*unwatch)(struct device_watch *watch);
	int (*check)(int ordinal);            /* 0, or -EIO: the device has failed in this process for good */
	/*
	 * The epoch of a device in this process: another number after each reset (cudaDeviceReset). A reset ends all
	 * that the process had there: streams, queued work, and the mappings of some kinds of export (export.h). It is
	 * complete when the number changes. 0 before the first use, and with the error set where the device was reset
	 * and cannot be used again. Cheap: it makes system calls after a reset alone. NULL where a device cannot be
	 * reset.
	 */
	uint64_t (*epoch)(int ordinal);
	int (*current)(void);                 /* ordinal of the calling thread's current device */
	int (*set_current)(int ordinal);

	/*
	 * Registers memory that the device writes (or, if not writable, reads): page-aligned, MAP_SHARED, MADV_DONTFORK.
	 * Device code and stream operations then use the host address. Unregister it before it is unmapped. That waits as a
	 * close does, and after an error the memory is still registered. A reset does not end a registration. -EEXIST: the
	 * device has other pages registered at that address (device/page.h).
	 */
	int (*page_register)(void *page, size_t size, bool writable);
	int (*page_unregister)(void *page);

	/*
	 * Streams. NULL is the legacy default stream of the calling thread's current device. stream_write has no cancellation
	 * point: its caller does not hold cancellation back.
	 */
	int (*stream_write)(void *stream, uint64_t *word, uint64_t value);      /* -EBUSY: being captured */
	int (*stream_wait)(void *stream, const uint64_t *word, uint64_t value); /* (int64_t)(*word - value) >= 0 */
	/* The same for 1 to DEVICE_WORDS_MAX words, as one operation: all of them or, after an error, none. */
	int (*stream_write_many)(void *stream, const struct device_word *words, unsigned count);
	int (*stream_wait_many)(void *stream, const struct device_word *words, unsigned count);
	/* What is queued on stream from now on waits for what is queued on other, of any device. -EBUSY: being captured. */
	int (*stream_after)(void *stream, void *other);
	int (*stream_create)(int ordinal, int priority, void **stream); /* as CUDA: lower is sooner, 0 the usual */
	int (*stream_sync)(void *stream);
	/*
	 * The same, but asks over() from time to time. over() returns 0 to go on; > 0 not to be asked again; a negative errno,
	 * with the error set, to stop waiting and return that. What is queued stays queued.
	 */
	int (*stream_sync_until)(void *stream, int (*over)(void *), void *context);
	void (*stream_destroy)(void *stream);
	int (*copy)(void *stream, void *dst, const void *src, uint64_t size);

	/*
	 * Kernels. config->device is an ordinal. To load a module waits for what runs on the device, and for streams that
	 * wait. module_load() loads it on all devices in use, module_ready() on one more. The other calls wait for nothing,
	 * except the first launch on a device where neither has loaded the module.
	 */
	int (*module_load)(const char *path, void **module); /* path with its ending */
	int (*module_ready)(void *module, int ordinal);
	int (*module_kernel)(void *module, const char *symbol, void **kernel);
	int (*module_managed)(void *module, const char *symbol, void **ptr, size_t *size);
	int (*module_launch)(void *kernel, const gpub_launch_config *config, void **args);
	int (*module_unload)(void *module); /* waits for the launches in flight on every device, then unloads */
	const char *module_suffix;          /* ".fatbin", ".so" */

	/* In a forked child, async-signal-safe: closes what would keep the parent's device memory or work alive. */
	void (*child_after_fork)(void);
};

extern const struct device        device_host;
extern const struct device *const device_cuda; /* NULL when built without CUDA */

/* The table of a kind; NULL: there is no such kind, or it was not built. */
const struct device *device_find(uint32_t kind);

/* True in a process that was forked, without exec, after CUDA had been started: no call of CUDA works there. */
bool device_cuda_forked(void);

#endif
