/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c - see usage.h */
#include "usage.h"

#include <stdlib.h>

#include <utlist.h>

#include "common/now.h"

struct usage *usage_find(const struct usages *usages, unsigned device, uid_t uid)
{
	struct usage_key key = { .device = device, .uid = uid };
	struct usage *usage;

	HASH_FIND(hh, usages->by_key, &key, sizeof key, usage);
	return usage;
}

static bool keeps_any(const struct usage *usage)
{
	return usage->bytes[SPARE_IDLE] || usage->bytes[SPARE_POOLED];
}

static void usage_put(struct usages *usages, struct usage *usage)
{
	if (usage->holds || keeps_any(usage))
		return;
	HASH_DEL(usages->by_key, usage);
	free(usage);
}

static struct usage *usage_get(struct usages *usages, unsigned device, uid_t uid)
{
	struct usage *usage = usage_find(usages, device, uid);

	if (usage)
		return usage;
	usage = calloc(1, sizeof *usage);
	if (!usage)
		return NULL;
	usage->key = (struct usage_key){ .device = device, .uid = uid };
	HASH_ADD(hh, usages->by_key, key, sizeof usage->key, usage);
	if (table_added(usage))
		return usage;
	free(usage);
	return NULL;
}

void usages_deinit(struct usages *usages)
{
	struct usage *usage, *next;

	HASH_ITER(hh, usages->by_key, usage, next) {
		HASH_DEL(usages->by_key, usage);
		free(usage);
	}
}

struct usage *usage_hold(struct usages *usages, unsigned device, uid_t uid)
{
	struct usage *usage = usage_get(usages, device, uid);

	if (usage)
		usage->holds++;
	return usage;
}

void usage_drop(struct usages *usages, struct usage *usage)
{
	usage->holds--;
	usage_put(usages, usage);
}

void usage_leaving(struct usages *usages, struct usage *usage, struct leaving *leaving, uint64_t bytes)
{
	*leaving = (struct leaving){ .usage = usage,
				     .bytes = bytes,
				     .until_ms = now_ms(CLOCK_MONOTONIC) + usages->patience_ms };
	DL_APPEND(usages->leavings, leaving);
	usage->leaving += bytes;
	usages->leaving[usage->key.device] += bytes;
}

void usage_left(struct usages *usages, struct leaving *leaving)
{
	struct usage *usage = leaving->usage;

	if (!usage)
		return;
	DL_DELETE(usages->leavings, leaving);
	usage->leaving -= leaving->bytes;
	usages->leaving[usage->key.device] -= leaving->bytes;
	leaving->usage = NULL;
}

void usages_write_off_late(struct usages *usages)
{
	uint64_t now = usages->leavings ? now_ms(CLOCK_MONOTONIC) : 0;

	while (usages->leavings && usages->leavings->until_ms <= now)
		usage_left(usages, usages->leavings);
}

/* ---- spare memory ---- */

static void spare_remove(struct usages *usages, struct spare *spare)
{
	struct usage *usage = spare->usage;
	unsigned device = usage->key.device;

	DL_DELETE(usage->spares[spare->kind], spare);
	usage->bytes[spare->kind] -= spare->bytes;
	usages->bytes[device][spare->kind] -= spare->bytes;
	if (!keeps_any(usage))
		DL_DELETE(usages->keeping[device], usage);
	spare->usage = NULL;
	usage_put(usages, usage);
}

void spare_leave(struct usages *usages, struct spare *spare)
{
	if (spare->usage)
		spare_remove(usages, spare);
}

static void spare_evict(struct usages *usages, struct spare *spare)
{
	spare_remove(usages, spare);
	usages->kind[spare->kind].evict(usages->kind[spare->kind].context, spare);
}

static uint64_t bytes_spare(const struct usage *usage)
{
	return usage->bytes[SPARE_IDLE] + usage->bytes[SPARE_POOLED];
}

static struct spare *oldest_of(const struct usage *usage)
{
	struct spare *idle = usage->spares[SPARE_IDLE], *pooled = usage->spares[SPARE_POOLED];

	return !pooled || (idle && idle->number < pooled->number) ? idle : pooled;
}

/* Returns the oldest spare memory of the user who has the most spare memory on the device. NULL: nobody has any. */
static struct spare *first_to_go(const struct usages *usages, unsigned device)
{
	const struct usage *usage, *longest = usages->keeping[device];

	DL_FOREACH(usages->keeping[device], usage)
		if (bytes_spare(usage) > bytes_spare(longest))
			longest = usage;
	return longest ? oldest_of(longest) : NULL;
}

static void trim(struct usages *usages, unsigned device)
{
	const uint64_t *bytes = usages->bytes[device];
	struct spare *spare;

	while (bytes[SPARE_IDLE] + bytes[SPARE_POOLED] > usages->limit && (spare = first_to_go(usages, device)))
		spare_evict(usages, spare);
}

void spare_enter(struct usages *usages, struct usage *usage, struct spare *spare, enum spare_kind kind, uint64_t bytes)
{
	unsigned device = usage->key.device;

	if (!keeps_any(usage))
		DL_APPEND(usages->keeping[device], usage);
	*spare = (struct spare){ .usage = usage, .kind = kind, .bytes = bytes, .number = usages->next++ };
	DL_APPEND(usage->spares[kind], spare);
	usage->bytes[kind] += bytes;
	usages->bytes[device][kind] += bytes;
	trim(usages, device);
}

void usages_limit(struct usages *usages, uint64_t limit)
{
	usages->limit = limit;
	for (unsigned device = 0; device < DEVICE_MAX; device++)
		trim(usages, device);
}

/*
 * Returns the oldest spare memory of the kind on the device: that of the user `uid`, or, if this user has none, that of
 * the user who has the most. NULL: nobody has any.
 */
static struct spare *first_to_reclaim(const struct usages *usages, unsigned device, uid_t uid, enum spare_kind kind)
{
	const struct usage *usage = usage_find(usages, device, uid), *longest = usages->keeping[device];

	if (usage && usage->spares[kind])
		return usage->spares[kind];
	DL_FOREACH(usages->keeping[device], usage)
		if (usage->bytes[kind] > longest->bytes[kind])
			longest = usage;
	return longest ? longest->spares[kind] : NULL;
}

void usages_reclaim(struct usages *usages, unsigned device, uid_t uid, enum spare_kind kind, uint64_t bytes)
{
	const uint64_t *there = &usages->bytes[device][kind];
	uint64_t enough = *there > bytes ? *there - bytes : 0;
	struct spare *spare;

	while (*there > enough && (spare = first_to_reclaim(usages, device, uid, kind)))
		spare_evict(usages, spare);
}

/*
 * Sets *idle to the user's idle bytes on all devices, and *leaving to its bytes that are counted as available. The user
 * is charged for both until the memory is closed.
 */
static void charged(const struct usages *usages, uid_t uid, uint64_t *idle, uint64_t *leaving)
{
	*idle = *leaving = 0;
	for (unsigned device = 0; device < DEVICE_MAX; device++) {
		const struct usage *usage = usage_find(usages, device, uid);

		*idle += usage ? usage->bytes[SPARE_IDLE] : 0;
		*leaving += usage ? usage->leaving : 0;
	}
}

void usages_reclaim_charged(struct usages *usages, uid_t uid, uint64_t bytes)
{
	uint64_t idle, leaving;
	unsigned device = 0;

	usages_write_off_late(usages);
	charged(usages, uid, &idle, &leaving);
	if (bytes <= leaving || bytes - leaving > idle)
		return;
	for (bytes -= leaving; device < DEVICE_MAX; device++) {
		struct usage *usage = usage_find(usages, device, uid);
		uint64_t some = usage ? usage->bytes[SPARE_IDLE] : 0;

		some = some < bytes ? some : bytes;
		if (some)
			usages_reclaim(usages, device, uid, SPARE_IDLE, some);
		bytes -= some;
	}
}
