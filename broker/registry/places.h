/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.h - hands out the numbers 0 to count-1, each to one holder at a time.
 *
 * Owns a ring of the free ones. The board's words and sealed handles have such places. A place that came back is
 * handed out last, so that a place changes hands as rarely as it can.
 */
#ifndef GPUB_PLACES_H
#define GPUB_PLACES_H

#include <stdint.h>

struct places {
	uint32_t *ring; /* free places: taken at first, given back behind the last */
	uint32_t  count, first, free;
};

int places_init(struct places *places, uint32_t count); /* -ENOMEM */
void places_deinit(struct places *places);

/* The next free place, or -1 when all are taken. */
int64_t places_take(struct places *places);
void places_give(struct places *places, uint32_t place);

#endif
