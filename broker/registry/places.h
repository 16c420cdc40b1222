/* SPDX-License-Identifier: Apache-2.0 */
/*
 * places.h - allocates the numbers 0 to count-1, each to one holder at a time: the places of words and of sealed
 * handles in the board.
 *
 * Owns a ring buffer of the free numbers, first in, first out, so that a number is reused as late as possible.
 */
#ifndef GPUB_PLACES_H
#define GPUB_PLACES_H

#include <stdbool.h>
#include <stdint.h>

struct places {
	uint32_t *ring;  /* the free numbers, from ring[first] on; the index wraps at `count` */
	uint32_t  count; /* number of all places, free and taken */
	uint32_t  first; /* index in `ring` of the number that is taken next */
	uint32_t  free;  /* number of free places */
};

int places_init(struct places *places, uint32_t count); /* returns 0 or -ENOMEM, without an error message */
void places_deinit(struct places *places);

/* Takes a free place and returns its number, or -1 if all places are taken. */
int64_t places_take(struct places *places);

/*
 * For places that were taken in a broker before this one; called after places_init(), before all other functions.
 * places_are_claimable(): there is such a place, and it was not claimed. places_claim() takes it. places_claimed() is
 * called when all are claimed.
 */
bool places_are_claimable(const struct places *places, uint32_t place);
void places_claim(struct places *places, uint32_t place);
void places_claimed(struct places *places);

/* Gives back a place that places_take() returned. */
void places_give(struct places *places, uint32_t place);

#endif
