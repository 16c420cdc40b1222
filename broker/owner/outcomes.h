/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outcomes.h - the outcomes of a lane's orders that no order has acknowledged yet (order.h), the oldest first.
 *
 * Has room for LANE_ORDERS outcomes, and needs no memory for one. Owns nothing but the handles in them, which it wipes.
 * Not thread-safe.
 */
#ifndef GPUB_OWNER_OUTCOMES_H
#define GPUB_OWNER_OUTCOMES_H

#include "order.h"

struct kept_outcome {
	enum order_kind kind;    /* of the order */
	uint64_t        memory;  /* number of the memory that the order was about */
	struct outcome  outcome; /* the descriptor is the device's, and valid while the owner has the memory */
};

/* All zeros: empty. */
struct outcomes {
	unsigned            first; /* index of the oldest outcome */
	unsigned            count;
	struct kept_outcome ring[LANE_ORDERS];
};

/* Keeps the outcome of an order for which order_is_kept(). There is room, as order.h says. */
void outcomes_add(struct outcomes *outcomes, const struct order *order, const struct outcome *outcome);

/* Forgets the outcome of the order with the number, and all older ones. Does nothing if there is none. */
void outcomes_forget(struct outcomes *outcomes, uint64_t number);

/* Returns the outcome that `index` others are older than; index < outcomes->count. */
const struct kept_outcome *outcomes_at(const struct outcomes *outcomes, unsigned index);

#endif
