/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - see places.h */
#include "places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLAIMED UINT32_MAX /* in `ring`: the place is taken */

int places_init(struct places *places, uint32_t count)
{
	uint32_t *ring = calloc(count, sizeof *ring);

	if (!ring)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		ring[i] = i;
	*places = (struct places){ .ring = ring, .count = count, .free = count };
	return 0;
}

bool places_are_claimable(const struct places *places, uint32_t place)
{
	return place < places->count && places->ring[place] != CLAIMED;
}

void places_claim(struct places *places, uint32_t place)
{
	places->ring[place] = CLAIMED;
}

void places_claimed(struct places *places)
{
	places->free = 0;
	for (uint32_t i = 0; i < places->count; i++)
		if (places->ring[i] != CLAIMED)
			places->ring[places->free++] = places->ring[i];
}

void places_deinit(struct places *places)
{
	free(places->ring);
	memset(places, 0, sizeof *places);
}

int64_t places_take(struct places *places)
{
	uint32_t place;

	if (!places->free)
		return -1;
	place = places->ring[places->first];
	places->first = (places->first + 1) % places->count;
	places->free--;
	return place;
}

void places_give(struct places *places, uint32_t place)
{
	places->ring[(uint32_t)(((uint64_t)places->first + places->free) % places->count)] = place;
	places->free++;
}
