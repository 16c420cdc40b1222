/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - functions of the host device for the broker and tests, beyond the table of device.h.
 *
 * The host device is a strict model of CUDA's rules. Misuse whose effect CUDA leaves undefined, and which would not
 * be noticed (a free while an importer maps the memory, a late write, a write after a buffer's end, use after a
 * fork), is a VIOLATION here: one line on stderr and abort(). Calls that CUDA refuses are refused. A malicious
 * process can cause some violations in other processes, such as a release while it maps the memory, or a late write.
 * These must not end a broker: with GPUB_HOST_STRICT=0 they are reported, and the process goes on.
 *
 *   host-device.c      the table, start, settings, reset
 *   host-launch.c      launches of kernels
 *   host-stream.c      streams: a queue and a thread each
 *   host-connection.c  the connections that streams share: a wait blocks the tasks submitted after it
 *   host-task.c        tasks, which streams queue: how tasks are checked and run
 *   host-module.c      modules: shared objects with kernels, loaded on each device
 *   host-memory.c      allocations
 *   host-import.c      mappings
 *   host-page.c        registered pages
 *   host-trap.c        faults of kernels and programs, reported as violations
 *   host-watch.c       memory that queued work may use: bounds of buffers, and overruns of their ends
 *   host-quarantine.c  freed memory, poisoned and checked for late writes
 *   host-object.c      the shm objects that are the memory
 *   host-region.c      the table of address ranges
 *   host-gate.c        the lock between queueing work and waiting for all queued work
 *   host-fault.c       violations, injected failures, sticky errors
 *   host-state.c       settings, visible devices, forks
 *
 * Each file calls only files that come after it in this list.
 */
#ifndef GPUB_DEVICE_HOST_H
#define GPUB_DEVICE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

#define HOST_MARGIN     64u /* value of device.margin */
/* bytes of the prefix of objects' names at most; a device_handle has the prefix and the random part of a name */
#define HOST_PREFIX_MAX 47

/* ---- for the broker ---- */

/*
 * Sets the prefix of the names of this owner's memory objects: '/', no other '/', at most HOST_PREFIX_MAX bytes,
 * ending in ".mem". The default is "/gpubroker.mem". A name is the prefix, '/', and 32 hexadecimal digits. Call it
 * before the first allocate(). -EINVAL: the text is not a prefix.
 */
int host_set_prefix(const char *prefix);

/*
 * Sets whether processes of other users can open memory that is granted to them. Call it before the first allocate().
 */
void host_share_memory(bool with_others);

/*
 * Makes violations that other processes can cause not end this process, unless GPUB_HOST_STRICT says otherwise: no
 * client may end a broker (invariant 5). Does nothing after start().
 */
void host_survive_violations(void);

/*
 * Makes the directory of the memory objects now, and leaves its removal to the caller. Locks the directory by
 * flock(2), which shows other brokers that its broker lives, so that they do not remove it as a dead broker's.
 * -EEXIST: another user has the directory, or another process has the lock.
 */
int host_keep_directory(void);

/*
 * Checks that the directory of host_keep_directory() still exists, and otherwise makes it again. Returns 1 if the
 * directory was removed since the last call, and with it all objects in it. Negative errno with the error message
 * set: the directory was removed and cannot be made again.
 */
int host_restore_directory(void);

/* Drops the directory's lock, if this process has it. The caller then removes the directory. */
void host_leave_directory(void);

/* Returns the number of host devices, including hidden ones (GPUB_HOST_VISIBLE). For a client's start(). */
unsigned host_total(void);

/* ---- for tests ---- */

/*
 * Maps an allocation at its owner's pointer, where it is otherwise not mapped (host-object.c says why), so that a
 * test can read the memory or pass it to kernels. A broker never calls this.
 */
int host_map_owned(void *ptr);

/*
 * Models the end of the owner's process, without an exit handler: it has no memory from then on. Objects stay as they
 * are, for those who have a descriptor or know a name.
 */
void host_end_owner(void);

/* Checks the quarantine, and reports writes to memory after its release, as the owner's exit does, too. */
void host_check_quarantine(void);

/* Kinds of calls, for injected failures. */
enum host_call {
	HOST_OTHER, /* all other calls, for which no failure can be injected */
	HOST_ALLOCATE,
	HOST_ADOPT,
	HOST_ZERO,
	HOST_EXPORT,
	HOST_RELEASE,
	HOST_GONE,
	HOST_OPEN,
	HOST_CLOSE,
	HOST_REGISTER,
	HOST_UNREGISTER,
	HOST_STREAM, /* stream_create() */
	HOST_WRITE,
	HOST_WAIT,
	HOST_SYNC,
	HOST_COPY,
	HOST_LAUNCH,
	HOST_MODULE, /* module_load() */
	HOST_CALLS
};

/*
 * Makes the next `count` calls of this kind fail with the errno `error` before they do anything. count 0: none fails.
 * The environment can inject failures at start(), with the names in host-fault.c:
 * GPUB_HOST_FAIL="close:3:EIO,open:1:ENOMEM".
 */
void host_fail_next(enum host_call call, int count, int error);

/* Returns how often a launch had to load its module on the device first, so far. */
unsigned host_late_loads(void);

/* Returns how many loads of modules wait at present for work that is queued on a device. */
unsigned host_loads_waiting(void);

/* Makes a sticky error: from now on calls that begin with host_enter() fail with -EIO, and queued tasks are dropped. */
void host_make_sticky(void);

/*
 * Models a driver whose closes do not wait for the device's work: CUDA does not guarantee that they do. sync() returns
 * -ENOTSUP from now on. last: the last close of a handle does not wait either, and close() fails with -EIO.
 */
void host_do_not_wait(bool last);

/*
 * Models cudaDeviceReset(). Waits for the task that runs on each stream of the device, drops queued tasks, destroys the
 * streams, ends mappings of kinds of export that a reset ends, whose pointers fault from then on, and unloads modules
 * there. Registered pages stay registered, because the CUDA device registers them again by itself.
 */
int host_reset(int ordinal);

/* Returns how many registrations of page_register() exist now. */
unsigned host_pages(void);

#endif
