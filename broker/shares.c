/* SPDX-License-Identifier: Apache-2.0 */
/* shares.c - see shares.h */
#include "shares.h"

#include <stdlib.h>

#include <utlist.h>

struct share *share_find(const struct shares *shares, unsigned device, uid_t uid)
{
	struct share_key key = { .device = device, .uid = uid };
	struct share *share;

	HASH_FIND(hh, shares->by_key, &key, sizeof key, share);
	return share;
}

static bool keeps_any(const struct share *share)
{
	return share->bytes[SPARE_IDLE] || share->bytes[SPARE_POOLED];
}

static void share_put(struct shares *shares, struct share *share)
{
	if (share->holds || keeps_any(share))
		return;
	HASH_DEL(shares->by_key, share);
	free(share);
}

static struct share *share_get(struct shares *shares, unsigned device, uid_t uid)
{
	struct share *share = share_find(shares, device, uid);

	if (share)
		return share;
	share = calloc(1, sizeof *share);
	if (!share)
		return NULL;
	share->key = (struct share_key){ .device = device, .uid = uid };
	HASH_ADD(hh, shares->by_key, key, sizeof share->key, share);
	if (table_added(share))
		return share;
	free(share);
	return NULL;
}

void shares_deinit(struct shares *shares)
{
	struct share *share, *next;

	HASH_ITER(hh, shares->by_key, share, next) {
		HASH_DEL(shares->by_key, share);
		free(share);
	}
}

struct share *share_hold(struct shares *shares, unsigned device, uid_t uid)
{
	struct share *share = share_get(shares, device, uid);

	if (share)
		share->holds++;
	return share;
}

void share_drop(struct shares *shares, struct share *share)
{
	share->holds--;
	share_put(shares, share);
}

void share_leaving(struct shares *shares, struct share *share, uint64_t bytes)
{
	share->leaving += bytes;
	shares->leaving[share->key.device] += bytes;
}

void share_left(struct shares *shares, struct share *share, uint64_t bytes)
{
	share->leaving -= bytes;
	shares->leaving[share->key.device] -= bytes;
}

/* ---- spare memory ---- */

static void spare_remove(struct shares *shares, struct spare *spare)
{
	struct share *share = spare->share;
	unsigned device = share->key.device;

	DL_DELETE(share->spares[spare->kind], spare);
	share->bytes[spare->kind] -= spare->bytes;
	shares->bytes[device][spare->kind] -= spare->bytes;
	if (!keeps_any(share))
		DL_DELETE(shares->keeping[device], share);
	spare->share = NULL;
	share_put(shares, share);
}

void spare_leave(struct shares *shares, struct spare *spare)
{
	if (spare->share)
		spare_remove(shares, spare);
}

static void spare_evict(struct shares *shares, struct spare *spare)
{
	spare_remove(shares, spare);
	shares->kind[spare->kind].evict(shares->kind[spare->kind].context, spare);
}

static uint64_t bytes_spare(const struct share *share)
{
	return share->bytes[SPARE_IDLE] + share->bytes[SPARE_POOLED];
}

static struct spare *oldest_of(const struct share *share)
{
	struct spare *idle = share->spares[SPARE_IDLE], *pooled = share->spares[SPARE_POOLED];

	return !pooled || (idle && idle->number < pooled->number) ? idle : pooled;
}

/* The oldest memory of whoever keeps the most of the device; NULL: nobody keeps any. */
static struct spare *first_to_go(const struct shares *shares, unsigned device)
{
	const struct share *share, *longest = shares->keeping[device];

	DL_FOREACH(shares->keeping[device], share)
		if (bytes_spare(share) > bytes_spare(longest))
			longest = share;
	return longest ? oldest_of(longest) : NULL;
}

static void trim(struct shares *shares, unsigned device)
{
	const uint64_t *bytes = shares->bytes[device];
	struct spare *spare;

	while (bytes[SPARE_IDLE] + bytes[SPARE_POOLED] > shares->limit && (spare = first_to_go(shares, device)))
		spare_evict(shares, spare);
}

void spare_enter(struct shares *shares, struct share *share, struct spare *spare, enum spare_kind kind, uint64_t bytes)
{
	unsigned device = share->key.device;

	if (!keeps_any(share))
		DL_APPEND(shares->keeping[device], share);
	*spare = (struct spare){ .share = share, .kind = kind, .bytes = bytes, .number = shares->next++ };
	DL_APPEND(share->spares[kind], spare);
	share->bytes[kind] += bytes;
	shares->bytes[device][kind] += bytes;
	trim(shares, device);
}

void shares_limit(struct shares *shares, uint64_t limit)
{
	shares->limit = limit;
	for (unsigned device = 0; device < DEVICE_MAX; device++)
		trim(shares, device);
}

/* Of that kind alone, and of that user first; NULL: nobody keeps any. */
static struct spare *first_to_reclaim(const struct shares *shares, unsigned device, uid_t uid, enum spare_kind kind)
{
	const struct share *share = share_find(shares, device, uid), *longest = shares->keeping[device];

	if (share && share->spares[kind])
		return share->spares[kind];
	DL_FOREACH(shares->keeping[device], share)
		if (share->bytes[kind] > longest->bytes[kind])
			longest = share;
	return longest ? longest->spares[kind] : NULL;
}

void shares_reclaim(struct shares *shares, unsigned device, uid_t uid, enum spare_kind kind, uint64_t bytes)
{
	const uint64_t *there = &shares->bytes[device][kind];
	uint64_t enough = *there > bytes ? *there - bytes : 0;
	struct spare *spare;

	while (*there > enough && (spare = first_to_reclaim(shares, device, uid, kind)))
		spare_evict(shares, spare);
}

/* What would be charged less if all idle memory of that user went, or if what is leaving has gone. */
static void charged(const struct shares *shares, uid_t uid, uint64_t *idle, uint64_t *leaving)
{
	*idle = *leaving = 0;
	for (unsigned device = 0; device < DEVICE_MAX; device++) {
		const struct share *share = share_find(shares, device, uid);

		*idle += share ? share->bytes[SPARE_IDLE] : 0;
		*leaving += share ? share->leaving : 0;
	}
}

void shares_reclaim_charged(struct shares *shares, uid_t uid, uint64_t bytes)
{
	uint64_t idle, leaving;
	unsigned device = 0;

	charged(shares, uid, &idle, &leaving);
	if (bytes <= leaving || bytes - leaving > idle)
		return;
	for (bytes -= leaving; device < DEVICE_MAX; device++) {
		struct share *share = share_find(shares, device, uid);
		uint64_t some = share ? share->bytes[SPARE_IDLE] : 0;

		some = some < bytes ? some : bytes;
		if (some)
			shares_reclaim(shares, device, uid, SPARE_IDLE, some);
		bytes -= some;
	}
}
