/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim.h - carries out the decisions of memory/memory.c: has the owner zero or free memory.
 *
 * Tells memory.c, the pool, the registry and the drains when the device has finished. Owns the device's job until then.
 * Never decides that memory may be freed.
 */
#ifndef GPUB_RECLAIM_H
#define GPUB_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/memory/restore.h"

struct allocation;
struct tracked;

/* The hooks clean() and release() of struct memory_orders, which has their contracts. context: the broker. */
bool reclaim_clean(void *context, struct allocation *allocation, uint32_t range, uint64_t serial);
void reclaim_release(void *context, struct allocation *allocation);

/* Fills the record of a range that is being zeroed from its slot. */
void reclaim_note(const struct tracked *cleaning, struct cleaning_record *record);

#endif
