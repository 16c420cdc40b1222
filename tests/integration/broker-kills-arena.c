/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-kills-arena.c - deeds on names for which all hands compete.
 *
 * Any hand creates, renames, unlinks, reads and writes the buffers of an arena. What each call was answered is kept,
 * and history_check() decides later whether the answers fit together. Each buffer of a round has a size of its own,
 * which decides its pattern. All writers write the same bytes, so each byte is that of the pattern or zero.
 */
#include "broker-kills.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void name_of(unsigned arena, unsigned index, char *name)
{
	snprintf(name, GPUB_NAME_MAX + 1, "arena%u/%u", arena, index);
}

static uint64_t stamp_of(unsigned arena, uint64_t size)
{
	return hand_stamp("arena", kills->round * ARENAS + arena, size);
}

/* An event whose call begins now. */
static struct event begin(enum deed deed, unsigned name)
{
	return (struct event){ .deed = (uint8_t)deed, .name = (uint8_t)name, .from = note_now() };
}

static void keep(unsigned arena, struct event event)
{
	struct history *history = &kills->histories[arena];
	uint32_t i = atomic_fetch_add(&history->count, 1);

	if (i < HISTORY)
		history->events[i] = event;
	else
		note_failure("arena %u: there is no room for its history", arena);
}

static void ended(unsigned arena, struct event event, int result)
{
	event.until = note_now();
	event.result = result;
	keep(arena, event);
}

static void found(unsigned arena, struct event event, uint64_t size, uint64_t generation)
{
	event.deed = DID_FIND;
	event.size = size;
	event.generation = generation;
	ended(arena, event, 0);
}

/* A call that was answered that there is no buffer, or, with -ESTALE, that it ended meanwhile. */
static void missed(unsigned arena, struct event event, int error, const char *what)
{
	event.deed = DID_MISS;
	if (HOLDS(error == -ENOENT || error == -ETIMEDOUT, "%s of arena %u, name %u: %d: %s", what, arena, event.name,
		  error, gpub_strerror_last()))
		ended(arena, event, 0);
}

static void create(struct hand *hand, unsigned arena, unsigned index)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char name[GPUB_NAME_MAX + 1];
	struct event event;
	int error;

	name_of(arena, index, name);
	spec.size = 8 + atomic_fetch_add(&kills->histories[arena].ids, 1);
	if (spec.size > HISTORY)
		return; /* there is a size for each call of the history */
	spec.size += hand_one_in(hand, 20) ? 2u << 20 : 0;
	spec.flags = hand_one_in(hand, 8) ? GPUB_DEDICATED : 0;
	spec.timeout_ms = -1;
	event = begin(DID_CREATE, index);
	event.size = spec.size;
	error = CALL(CREATE, gpub_create(*hand->client, name, &spec));
	ended(arena, event, error);
	HOLDS(!error || error == -EEXIST, "create of %s: %d: %s", name, error, gpub_strerror_last());
}

static void unlink_name(struct hand *hand, unsigned arena, unsigned index)
{
	struct event event = begin(DID_UNLINK, index);
	char name[GPUB_NAME_MAX + 1];
	int error;

	name_of(arena, index, name);
	if (hand_one_in(hand, 4))
		error = CALL(DRAIN, gpub_drain(*hand->client, name, 20));
	else
		error = CALL(UNLINK, gpub_unlink(*hand->client, name));
	ended(arena, event, error == -ETIMEDOUT ? 0 : error);
	HOLDS(!error || error == -ENOENT || error == -ETIMEDOUT, "unlink of %s: %d: %s", name, error,
	      gpub_strerror_last());
}

static void rename_one(struct hand *hand, unsigned arena, unsigned index)
{
	unsigned to = (unsigned)hand_random(hand, ARENA_NAMES);
	char name[GPUB_NAME_MAX + 1], new_name[GPUB_NAME_MAX + 1];
	struct event event;
	int error;

	name_of(arena, index, name);
	name_of(arena, to, new_name);
	event = begin(DID_RENAME, index);
	event.to = (uint8_t)to;
	event.replace = hand_one_in(hand, 2);
	error = CALL(RENAME, gpub_rename(*hand->client, name, new_name, event.replace ? GPUB_REPLACE : 0));
	ended(arena, event, error);
	HOLDS(!error || error == -ENOENT || error == -EEXIST || error == -EBUSY, "rename of %s to %s: %d: %s", name,
	      new_name, error, gpub_strerror_last());
}

/* A returned lease can be renewed while its buffer has its name and generation. */
static void renew(struct hand *hand, unsigned arena, unsigned index, gpub_lease *lease, uint64_t generation)
{
	struct event event = begin(DID_STALE, index);
	int error = CALL(RENEW, gpub_renew(lease));

	event.generation = generation;
	if (!error) {
		found(arena, event, lease->size, generation);
		hand_return(hand, lease);
	} else if (HOLDS(error == -ESTALE, "renew of arena %u, name %u: %d: %s", arena, index, error,
			 gpub_strerror_last())) {
		ended(arena, event, 0);
	}
}

static void acquire(struct hand *hand, unsigned arena, unsigned index)
{
	unsigned rights = hand_one_in(hand, 3) ? GPUB_READ | GPUB_WRITE : GPUB_READ;
	int timeout = hand_one_in(hand, 4) ? 2 : 0, error;
	struct event event = begin(DID_FIND, index);
	char name[GPUB_NAME_MAX + 1];
	uint64_t generation = 0;
	gpub_lease lease;

	name_of(arena, index, name);
	error = timeout ? CALL(ACQUIRE_WAIT, gpub_acquire(*hand->client, name, rights, timeout, &lease))
			: CALL(ACQUIRE, gpub_acquire(*hand->client, name, rights, timeout, &lease));
	/*
	 * -ESTALE: the buffer ended during the call. -ETIMEDOUT: a thread that waits for another thread's request of
	 * the same name does not ask whether there is a buffer when its own time is over. Neither says what the name
	 * has.
	 */
	if (error == -ESTALE || (error == -ETIMEDOUT && !hand->alone)) {
		event.deed = DID_STALE;
		ended(arena, event, 0);
		return;
	}
	if (error) {
		missed(arena, event, error, "acquire");
		return;
	}
	event.until = note_now();
	WANT(LOCAL, 0, gpub_lease_generation(&lease, &generation));
	found(arena, event, lease.size, generation);
	if (rights & GPUB_WRITE)
		hand_write(hand, &lease, 0, lease.size, stamp_of(arena, lease.size));
	hand_check_either(hand, &lease, stamp_of(arena, lease.size), name);
	if (hand_return(hand, &lease))
		renew(hand, arena, index, &lease, generation);
}

static void look(struct hand *hand, unsigned arena, unsigned index)
{
	struct event event = begin(DID_FIND, index);
	gpub_info info = { .struct_size = sizeof info };
	char name[GPUB_NAME_MAX + 1];
	uint64_t before;
	int error;

	name_of(arena, index, name);
	error = CALL(STAT, gpub_stat(*hand->client, name, &info));
	if (error) {
		missed(arena, event, error, "stat");
		return;
	}
	found(arena, event, info.size, info.generation);
	before = info.generation - hand_random(hand, 2);
	event = begin(DID_OLD, index);
	event.generation = before;
	error = CALL(NEWER, gpub_wait_newer(*hand->client, name, before, before == info.generation ? 2 : 0, &info));
	if (!error && HOLDS(info.generation > before, "%s is not newer than %llu", name, (unsigned long long)before))
		found(arena, event, info.size, info.generation);
	else if (HOLDS(!error || error == -ETIMEDOUT || error == -ENOENT, "wait_newer of %s: %d: %s", name, error,
		       gpub_strerror_last()))
		ended(arena, event, 0);
}

struct listed {
	unsigned arena;
	struct event event;
	bool seen[ARENA_NAMES];
};

static int listed(const gpub_info *info, void *context)
{
	struct listed *list = context;
	unsigned index = (unsigned)(info->name[strlen("arena0/")] - '0');

	list->event.name = (uint8_t)index;
	HOLDS(index < ARENA_NAMES && !list->seen[index], "%s is listed twice", info->name);
	list->seen[index % ARENA_NAMES] = true;
	found(list->arena, list->event, info->size, info->generation);
	return 0;
}

/* A list looks at each name at a moment of its own. */
static void list(struct hand *hand, unsigned arena)
{
	struct listed list = { arena, begin(DID_FIND, 0), { false } };
	char names[GPUB_NAME_MAX + 1];

	snprintf(names, sizeof names, "arena%u/*", arena);
	if (!WANT(LIST, 0, gpub_list(*hand->client, names, listed, &list)))
		return;
	for (unsigned i = 0; i < ARENA_NAMES; i++) {
		list.event.name = (uint8_t)i;
		if (!list.seen[i])
			missed(arena, list.event, -ENOENT, "list");
	}
}

void arena_deed(struct hand *hand)
{
	unsigned arena = (unsigned)hand_random(hand, ARENAS), index = (unsigned)hand_random(hand, ARENA_NAMES);

	if (atomic_load(&kills->histories[arena].count) > HISTORY - HANDS * 2 * ARENA_NAMES - 100)
		return;
	switch (hand_random(hand, 12)) {
	case 0:
	case 1:
	case 2:
		create(hand, arena, index);
		break;
	case 3:
	case 4:
		unlink_name(hand, arena, index);
		break;
	case 5:
	case 6:
		rename_one(hand, arena, index);
		break;
	case 7:
		look(hand, arena, index);
		break;
	case 8:
		list(hand, arena);
		break;
	default:
		acquire(hand, arena, index);
	}
}

void arena_end(struct hand *hand)
{
	for (unsigned arena = 0; arena < ARENAS; arena++)
		for (unsigned index = 0; index < ARENA_NAMES; index++) {
			unlink_name(hand, arena, index);
			acquire(hand, arena, index);
		}
}
