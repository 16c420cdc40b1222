/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - what a kind of device must be able to do, as one table of functions.
 *
 * Owns nothing. Broker and library use the same table: the broker its "owner"
 * half (allocate to release), a client the rest. Two tables exist, device_host (always) and device_cuda
 * (NULL when built without CUDA); each keeps its state per process, made by start() and never before a fork
 * that is to use the device itself.
 *
 * Every function returns 0 (or what its comment says) or a negative errno with the sentence set through
 * error_set(). All are thread-safe. None changes the calling thread's current device or context, except
 * set_current(), and none disturbs a graph capture.
 */
#ifndef GPUB_DEVICE_H
#define GPUB_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/handle.h"
#include "gpubroker.h"

struct device_info {
	uint8_t  uuid[16];
	char     name[64];
	uint64_t memory;  /* bytes in all */
	uint64_t granule; /* an export shows whole granules of this size to its importer */
};

/*
 * One buffer in an open mapping. Belongs to whoever watches it and stays where it is meanwhile; zeroed before, and from region on
 * the device's.
 */
struct device_watch {
	const char *name; /* what a report calls the buffer */
	uint8_t    *ptr;
	uint64_t    size, room; /* bytes of the buffer; bytes from ptr on that belong to no other buffer */

	struct host_region  *region; /* NULL: not watched */
	struct device_watch *prev, *next;
};

/*
 * The CUDA version that the driver must support, as cuda.h writes versions (12000 is 12.0), and the first driver that does. It
 * is what the functions in cuda.h need; cuda-library.c checks that at compile time.
 */
#define CUDA_NEEDED        12000
#define CUDA_NEEDED_DRIVER "525.60.13"

enum device_kind { DEVICE_HOST = 1, DEVICE_CUDA = 2 };

/* What start() is told. */
struct device_setup {
	bool     owner;      /* this process is the broker: it allocates (and stays outside MPS) */
	unsigned host_count; /* host device: how many devices; ignored by cuda */
};

struct device {
	enum device_kind kind;
	const char      *name; /* "cuda", "host" */
	uint64_t         margin; /* unused bytes that the owner is to leave behind each buffer which shares an allocation */

	/*
	 * Makes the kind usable in this process; later calls do nothing. -ENODEV: there is none here, and nothing else, since
	 * "auto" falls back on it. -ENOTSUP: forked, or too old a driver. Any other error says what does not work.
	 */
	int (*start)(const struct device_setup *setup);
	/* The CUDA version that the driver supports (12080 is 12.8), before or after start(). NULL: the kind has no driver. */
	int (*driver)(int *version);
	int (*count)(void);
	int (*info)(int ordinal, struct device_info *info);

	/* the owner's half: called by the broker's device threads only */
	int (*allocate)(int ordinal, uint64_t size, void **ptr); /* size: whole granules; -ENOMEM, -ENOSPC */
	int (*room)(int ordinal, uint64_t *bytes);               /* not allocated by anybody: this process or others */
	int (*zero)(int ordinal, void *ptr, uint64_t size);      /* done when it returns */
	int (*export_handle)(int ordinal, void *ptr, struct device_handle *handle);
	int (*release)(int ordinal, void *ptr);
	/*
	 * Whether all devices are done with that process, which is dead: 0; -EBUSY not yet; -ENOTSUP nobody can tell. mps:
	 * it said that it ran under MPS. A pid that was taken by another process since is that process's, and waited for.
	 */
	int (*gone)(pid_t pid, bool mps);

	/* the importer's half */
	int (*open)(int ordinal, const struct device_handle *handle, uint64_t size, void **ptr);
	int (*close)(int ordinal, void *ptr); /* behind every running kernel of the process, and synchronises */
	/*
	 * Behind every running kernel as a close is. handle: of memory that is open on that device, and stays so. -ENOTSUP: only
	 * the last close of a handle can tell.
	 */
	int (*sync)(int ordinal, const struct device_handle *handle, uint64_t size);
	/*
	 * Between these two the device reports writes behind the end of that buffer, and refuses copies that leave it. The
	 * last close of its mapping ends the watch as well. NULL where the device does not look for overruns.
	 */
	void (*watch)(struct device_watch *watch);
	void (*unwatch)(struct device_watch *watch);
	int (*check)(int ordinal);            /* 0, or -EIO: the device has failed in this process for good */
	/*
	 * The epoch of a device in this process: another number after each reset (cudaDeviceReset). A reset ends all that the
	 * process had there: mappings, streams and queued work. When the number has changed, the reset is complete. 0 before the
	 * first use, and with the error set where the device was reset and cannot be used again. Cheap, makes no system call
	 * but after a reset. NULL where a device cannot be reset.
	 */
	uint64_t (*epoch)(int ordinal);
	int (*current)(void);                 /* ordinal of the calling thread's current device */
	int (*set_current)(int ordinal);

	/*
	 * Memory that the device writes (or, not writable, only reads): page-aligned, MAP_SHARED, MADV_DONTFORK.
	 * Device code and stream operations then use the host address, until it is unregistered: which is behind every
	 * running kernel, as a close is, and comes before it is unmapped. After an error it is registered still. A reset
	 * does not end it. -EEXIST: the device has pages of somebody else registered there (device/page.h).
	 */
	int (*page_register)(void *page, size_t size, bool writable);
	int (*page_unregister)(void *page);

	/*
	 * streams; NULL is the legacy default stream of the calling thread's current device. stream_write is called where the
	 * thread may be cancelled, and has no cancellation point.
	 */
	int (*stream_write)(void *stream, uint64_t *word, uint64_t value);      /* -EBUSY: being captured */
	int (*stream_wait)(void *stream, const uint64_t *word, uint64_t value); /* (int64_t)(*word - value) >= 0 */
	int (*stream_create)(int ordinal, void **stream);
	int (*stream_sync)(void *stream);
	/*
	 * The same, and asks over() now and then meanwhile: 0 to go on; > 0 not to ask any more; an errno, with its error set,
	 * to give the waiting up, with that result. What is queued stays queued.
	 */
	int (*stream_sync_until)(void *stream, int (*over)(void *), void *context);
	void (*stream_destroy)(void *stream);
	int (*copy)(void *stream, void *dst, const void *src, uint64_t size);

	/* kernels; config->device is an ordinal here, already resolved */
	/*
	 * The two that load, and so wait for what runs on the devices and for streams that are parked: load() on all devices in
	 * use, ready() on one more. The others wait for nothing, but the first launch on a device where neither has loaded.
	 */
	int (*module_load)(const char *path, void **module); /* path with its ending */
	int (*module_ready)(void *module, int ordinal);
	int (*module_kernel)(void *module, const char *symbol, void **kernel);
	int (*module_managed)(void *module, const char *symbol, void **ptr, size_t *size);
	int (*module_launch)(void *kernel, const gpub_launch_config *config, void **args);
	int (*module_unload)(void *module); /* waits for the launches in flight on every device, then unloads */
	const char *module_suffix;          /* ".fatbin", ".so" */

	/* Runs in a forked child, where only async-signal-safe calls are sure: lets go of the device there. */
	void (*child_after_fork)(void);
};

extern const struct device        device_host;
extern const struct device *const device_cuda; /* NULL when built without CUDA */

/*
 * True in a process that was forked, without exec, from one in which CUDA had been started: nothing of CUDA
 * can work there, and it must not be called to find out.
 */
bool device_cuda_forked(void);

#endif
