/* SPDX-License-Identifier: Apache-2.0 */
/* host-watch.h - what queued work may touch: bounds of the buffers in mappings, and writes behind their ends. */
#ifndef GPUB_HOST_WATCH_H
#define GPUB_HOST_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "host-region.h"

struct device_watch;

void host_watch(struct device_watch *watch);
void host_unwatch(struct device_watch *watch);

/* All under host_state.lock: after a kernel that was given ptr, and before the mapping ends. */
void host_watch_verify(const void *ptr);
void host_watch_end(struct host_region *mapping);

/*
 * An access to ptr faulted. Reports it as a violation if ptr is in a mapping, a closed one, or their guard pages;
 * else returns.
 */
void host_watch_fault(const void *ptr);

/* HOST_USES: what it does is not known. */
enum host_access { HOST_USES, HOST_READS, HOST_WRITES };

/* Aborts if [ptr, ptr + size) is memory that work on that device must not touch. -EINVAL: it leaves its buffer, or is read-only and written. */
int host_check_range(const void *ptr, uint64_t size, unsigned device, enum host_access access, const char *what);

/* Aborts unless the word is in a page that a stream may read, or write. */
int host_check_word(const uint64_t *word, bool write);

#endif
