/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner.h - carries out the broker's orders (order.h) on one device.
 *
 * Owns the memory of the device: its addresses, by the numbers that the broker knows it by. Never decides what is made
 * or freed. Not thread-safe: the orders of a device are carried out one after the other, by one thread.
 */
#ifndef GPUB_OWNER_H
#define GPUB_OWNER_H

#include "device/device.h"
#include "order.h"
#include "outcomes.h"

struct held;

/* One device, and the memory of it that was made and not freed yet. All zeros but `device` before the first order. */
struct owner {
	const struct device *device;
	struct held         *memory;   /* by number */
	struct outcomes      outcomes; /* those that no order has acknowledged */
	bool                 renamed;  /* outcome.renamed of the last NAMES */
	bool                 untold;   /* the next NAMES says so again, because another broker may have been told */
};

/*
 * Forgets the kept outcomes that the order acknowledges. Then carries out the order, stores what came of it, and keeps
 * that if order_is_kept(). descriptor: what came beside an ADOPT; stays the caller's. An ALLOCATE or ADOPT that fails
 * leaves no memory behind. After a RELEASE the number is unknown, also if the device failed to free the memory, which
 * is lost then. -ENOENT: no memory has the number of a ZERO or RELEASE. -ENOBUFS: this process is out of memory.
 */
void owner_carry_out(struct owner *owner, const struct order *order, int descriptor, struct outcome *outcome);

/*
 * Lists, for the next broker, all memory, each kept outcome, and the end: a call of tell() each, until a call returns
 * false. If the last NAMES said that names were lost, the next one says so again, because the broker may have ended
 * before it had handled that.
 */
void owner_list(struct owner *owner, bool (*tell)(void *context, struct listed *listed), void *context);

/* Returns the address of the memory with the number in this process, or NULL if no memory has it. */
void *owner_address(const struct owner *owner, uint64_t number);

/* Forgets all memory, and frees none: the driver does so at the end of the process. */
void owner_deinit(struct owner *owner);

#endif
