/* SPDX-License-Identifier: Apache-2.0 */
/* outcomes.c - see outcomes.h */
#include "outcomes.h"

#include <assert.h>
#include <string.h>

static unsigned index_of(const struct outcomes *outcomes, unsigned index)
{
	return (outcomes->first + index) % LANE_ORDERS;
}

const struct kept_outcome *outcomes_at(const struct outcomes *outcomes, unsigned index)
{
	return &outcomes->ring[index_of(outcomes, index)];
}

static void forget_first(struct outcomes *outcomes)
{
	explicit_bzero(&outcomes->ring[outcomes->first].outcome.handle, sizeof outcomes->ring->outcome.handle);
	outcomes->first = index_of(outcomes, 1);
	outcomes->count--;
}

void outcomes_add(struct outcomes *outcomes, const struct order *order, const struct outcome *outcome)
{
	struct kept_outcome *next = &outcomes->ring[index_of(outcomes, outcomes->count)];

	assert(outcomes->count < LANE_ORDERS);
	*next = (struct kept_outcome){ .kind = order->kind, .memory = order->memory, .outcome = *outcome };
	outcomes->count++;
}

void outcomes_forget(struct outcomes *outcomes, uint64_t number)
{
	unsigned older = 0;

	while (older < outcomes->count && outcomes_at(outcomes, older)->outcome.number != number)
		older++;
	if (older == outcomes->count)
		return;
	for (unsigned i = 0; i <= older; i++)
		forget_first(outcomes);
}
