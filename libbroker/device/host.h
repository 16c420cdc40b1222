/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - what the broker and tests may ask of the host device beyond the table of device.h.
 *
 * The host device is a strict model of CUDA's rules. What CUDA leaves undefined and nobody would notice (a free while an
 * importer maps, a late write, a write behind a buffer's end, use after a fork) is a VIOLATION here: one line on stderr and
 * abort(). What CUDA refuses is refused. A malicious process can bring about some violations in its peers (a release while
 * it maps, a late write). These must not end a broker: with GPUB_HOST_STRICT=0 they are reported, and the process goes on.
 *
 *   host-device.c      the table, start, settings, reset
 *   host-launch.c      launches of kernels
 *   host-stream.c      streams: a queue and a thread each
 *   host-connection.c  the connections that streams share: a wait holds back what was submitted after it
 *   host-task.c        what a stream queues: how it is checked, and how it runs
 *   host-module.c      modules: shared objects with kernels, loaded on each device
 *   host-memory.c      allocations
 *   host-import.c      mappings
 *   host-page.c        registered pages
 *   host-trap.c        faults of kernels and programs, reported as violations
 *   host-watch.c       what queued work may touch: bounds of buffers, and overruns of their ends
 *   host-quarantine.c  freed memory, poisoned and checked for late writes
 *   host-object.c      the shm objects behind the memory
 *   host-region.c      the table of address ranges
 *   host-gate.c        who queues, and who waits for all that is queued
 *   host-fault.c       violations, injected failures, sticky errors
 *   host-state.c       settings, visible devices, forks
 *
 * Each file calls only those below it.
 */
#ifndef GPUB_DEVICE_HOST_H
#define GPUB_DEVICE_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

#define HOST_MARGIN     64u /* device.margin */
#define HOST_PREFIX_MAX 47  /* bytes: prefix and random name share a device_handle */

/* ---- for the broker ---- */

/*
 * Sets what the names of this owner's memory objects begin with: '/', no other '/', at most HOST_PREFIX_MAX bytes, ending in
 * ".mem". It is "/gpubroker.mem" at first. A name is the prefix, '/', and 32 hexadecimal digits. Call it before the first
 * allocate().
 */
int host_set_prefix(const char *prefix);

/* Says whether users other than the owner's may open what they were granted. Call it before the first allocate(). */
void host_share_memory(bool with_others);

/*
 * Reports violations that others can bring about and goes on, unless GPUB_HOST_STRICT says otherwise: no client can end a
 * broker (invariant 5). Call it before start().
 */
void host_survive_violations(void);

/*
 * Makes the directory of the memory now, and leaves its removal to the caller. A BSD lock on it says that this
 * process lives, and keeps it from being taken for a dead broker's. -EEXIST: another user has the name, or another
 * process the lock.
 */
int host_keep_directory(void);

/*
 * Looks whether that directory is still there. 1: it was removed since the last call, with all objects in it, and is
 * made again. Negative errno, with the error message: it was removed, and cannot be made again.
 */
int host_restore_directory(void);

/* Drops the lock, if there is one: the caller is about to remove the directory. */
void host_leave_directory(void);

/* How many host devices there are, whatever GPUB_HOST_VISIBLE shows of them: a client's start() must be told. */
unsigned host_total(void);

/* ---- for tests ---- */

/*
 * An owner's pointer only names its memory, and faults when touched (host-object.c says why). This maps the memory
 * there, for a test that reads it or passes it to kernels of its own. A broker never calls it.
 */
int host_map_owned(void *ptr);

/* Aborts if freed memory was written after its release. The owner's exit does so too. */
void host_check_quarantine(void);

enum host_call {
	HOST_OTHER, /* count, info, current: never fail by injection */
	HOST_ALLOCATE,
	HOST_ZERO,
	HOST_EXPORT,
	HOST_RELEASE,
	HOST_GONE,
	HOST_OPEN,
	HOST_CLOSE,
	HOST_REGISTER,
	HOST_UNREGISTER,
	HOST_STREAM, /* stream_create */
	HOST_WRITE,
	HOST_WAIT,
	HOST_SYNC,
	HOST_COPY,
	HOST_LAUNCH,
	HOST_MODULE, /* module_load */
	HOST_CALLS
};

/*
 * The next count calls of that kind fail with that errno, before they do anything; count 0 ends it. The environment can say
 * the same at start: GPUB_HOST_FAIL="close:3:EIO,open:1:ENOMEM", with the names of host-fault.c.
 */
void host_fail_next(enum host_call call, int count, int error);

/* Module loads of this process that launches had to do, because nobody had loaded the module on that device before. */
unsigned host_late_loads(void);

/* Module loads that wait now for what is queued on a device. */
unsigned host_loads_waiting(void);

/* A sticky error: from now on every call of this process fails with -EIO, and queued work is dropped, not run. */
void host_make_sticky(void);

/*
 * Models a driver whose closes do not wait for the device's work, which CUDA does not promise: sync() gives -ENOTSUP. last:
 * the last close of a handle does not wait either, and fails (-EIO).
 */
void host_do_not_wait(bool last);

/*
 * Models cudaDeviceReset(): waits for the task that runs on each stream of the device, and ends all that this process has
 * there. It drops what is queued, ends the streams, and ends the mappings, whose pointers fault from then on. Registered
 * pages stay: the CUDA device registers them again by itself.
 */
int host_reset(int ordinal);

/* How many pages are registered. */
unsigned host_pages(void);

#endif
