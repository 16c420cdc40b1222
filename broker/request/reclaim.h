/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.h - carries out what memory.c decided: has memory zeroed, kept or freed by the device's thread.
 *
 * Tells memory.c, the pool, the registry and the drains when the device is done. Owns a job from the decision to its
 * end. Never decides that memory may be freed.
 */
#ifndef GPUB_RECLAIM_H
#define GPUB_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct allocation;

/* Both are struct memory_orders' functions. context: the broker. */
bool reclaim_clean(void *context, struct allocation *allocation, uint32_t range, uint64_t serial);
void reclaim_release(void *context, struct allocation *allocation);

#endif
