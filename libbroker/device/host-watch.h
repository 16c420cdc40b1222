/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host-watch.h - checks of the memory that queued work uses: bounds of buffers, and writes after the ends of buffers.
 */
#ifndef GPUB_HOST_WATCH_H
#define GPUB_HOST_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "host-region.h"

struct device_watch;

void host_watch(struct device_watch *watch);
void host_unwatch(struct device_watch *watch);

/* host_watch_verify(), host_watch_end() and host_watch_fault() are called under host_state.lock. */

/* After a kernel that got the argument ptr: reports a write after the end of the watched buffer that contains ptr. */
void host_watch_verify(const void *ptr);

/* Before a mapping ends: checks its watched buffers for writes after their ends, and ends their watches. */
void host_watch_end(struct host_region *mapping);

/*
 * After an access to ptr that faulted: reports a violation and aborts if ptr is in a read-only mapping or a closed
 * mapping, or in the guard pages or unused reserved addresses of a mapping, open or closed. Otherwise returns.
 */
void host_watch_fault(const void *ptr);

/* How work accesses memory. HOST_USES: it is not known whether the work reads or writes. */
enum host_access { HOST_USES, HOST_READS, HOST_WRITES };

/*
 * Checks that work on the device may access [ptr, ptr + size). what: the work, for reports. Aborts if the memory was
 * released or closed, or belongs to another device. -EINVAL: the range leaves its buffer, or a write to read-only
 * memory.
 */
int host_check_range(const void *ptr, uint64_t size, unsigned device, enum host_access access, const char *what);

/* Aborts unless the word is in a registered page, which is writable if `write`. -EINVAL: the word is not aligned. */
int host_check_word(const uint64_t *word, bool write);

#endif
