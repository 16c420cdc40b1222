/* SPDX-License-Identifier: Apache-2.0 */
/* slab.c - see slab.h */
#include "slab.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "common/size.h"
#include "common/tables.h"

/* A list of the slabs of one kind that have a vacant range. */
struct shelf {
	struct slab_kind   kind;
	struct slab       *rooms;
	UT_hash_handle     hh; /* handle in the hash table slabs->shelves */
};

void slab_shape(uint64_t size, uint64_t margin, uint64_t granule, uint64_t *range, uint64_t *span)
{
	uint64_t slab = granule > SLAB_SPAN_MIN ? granule : SLAB_SPAN_MIN;

	*span = slab;
	*range = SLAB_RANGE_MIN;
	while (*range - margin < size && *range < slab)
		*range *= 2;
	if (*range > slab / 2)
		*range = *span = size_round_up(size, granule);
}

int slab_init(struct slab *slab, const struct slab_kind *kind, uint64_t span)
{
	size_t words;

	slab->kind = *kind;
	slab->ranges = slab->vacant = (uint32_t)(span / kind->range);
	words = (slab->ranges + 63) / 64;
	slab->bits = malloc(words * sizeof *slab->bits);
	if (!slab->bits)
		return -ENOMEM;
	memset(slab->bits, 0xff, words * sizeof *slab->bits);
	if (slab->ranges % 64)
		slab->bits[words - 1] = (1ull << slab->ranges % 64) - 1;
	return 0;
}

void slab_deinit(struct slab *slab)
{
	assert(!slab->shelf);
	free(slab->bits);
}

struct slab *slabs_find(const struct slabs *slabs, const struct slab_kind *kind)
{
	struct shelf *shelf;

	HASH_FIND(hh, slabs->shelves, kind, sizeof *kind, shelf);
	return shelf ? shelf->rooms : NULL;
}

static struct shelf *shelf_get(struct slabs *slabs, const struct slab_kind *kind)
{
	struct shelf *shelf;

	HASH_FIND(hh, slabs->shelves, kind, sizeof *kind, shelf);
	if (shelf)
		return shelf;
	shelf = calloc(1, sizeof *shelf);
	if (!shelf)
		return NULL;
	shelf->kind = *kind;
	HASH_ADD(hh, slabs->shelves, kind, sizeof shelf->kind, shelf);
	if (table_added(shelf))
		return shelf;
	free(shelf);
	return NULL;
}

/*
 * Puts the slab at the beginning of its shelf, because processes are most likely to have the memory that was given back
 * last still mapped.
 */
void slab_offer(struct slabs *slabs, struct slab *slab)
{
	if (slab->shelf || slab->closed || !slab->vacant)
		return;
	slab->shelf = shelf_get(slabs, &slab->kind);
	if (slab->shelf)
		DL_PREPEND(slab->shelf->rooms, slab);
}

void slab_hide(struct slabs *slabs, struct slab *slab)
{
	struct shelf *shelf = slab->shelf;

	if (!shelf)
		return;
	DL_DELETE(shelf->rooms, slab);
	slab->shelf = NULL;
	if (shelf->rooms)
		return;
	HASH_DEL(slabs->shelves, shelf);
	free(shelf);
}

uint32_t slab_take(struct slabs *slabs, struct slab *slab)
{
	uint32_t word = 0, bit;

	while (!slab->bits[word])
		word++;
	bit = (uint32_t)__builtin_ctzll(slab->bits[word]);
	slab->bits[word] &= ~(1ull << bit);
	if (!--slab->vacant)
		slab_hide(slabs, slab);
	return word * 64 + bit;
}

int slab_claim(struct slab *slab, uint32_t range)
{
	uint64_t bit = 1ull << range % 64;

	if (range >= slab->ranges || !(slab->bits[range / 64] & bit))
		return -EINVAL;
	slab->bits[range / 64] &= ~bit;
	slab->vacant--;
	return 0;
}

void slab_vacate(struct slabs *slabs, struct slab *slab, uint32_t range)
{
	slab->bits[range / 64] |= 1ull << range % 64;
	slab->vacant++;
	slab_offer(slabs, slab);
}
