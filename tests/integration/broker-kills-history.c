/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-kills-history.c - whether the results of an arena's calls can have come from one order of the calls.
 *
 * The broker must answer as if each call took effect at one moment between its begin and its end; a create has two, at
 * which its name is taken, and its buffer is there. The check goes through begins and ends in the order of time, with
 * all states that the names may be in: of each, which of the calls that are under way have taken effect. At the end of
 * a call those states are kept, and derived, in which it has taken effect with the result that it had. If there is
 * none, the result was wrong.
 */
#include "broker-kills.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 64u	   /* calls that are under way at once at most */
#define STATES_MAX 200000u /* more are not looked at */
#define TABLE (1u << 19)

enum phase { ABSENT, CREATING, LIVE };

struct name_state {
	uint64_t size, generation; /* generation 0: nobody has been told yet */
	uint32_t phase, slot;	   /* slot: of the create that has taken the name */
};
struct state {
	uint64_t half, done; /* bits of slots: a create that has taken its name; calls that have taken effect */
	struct name_state names[ARENA_NAMES];
};

/* A set of states. */
struct set {
	struct state *states;
	uint32_t *table; /* index plus 1 */
	uint32_t count;
};

static struct set now, next;
static const struct event *slots[SLOTS];
static uint64_t under_way; /* bits of slots */

static uint64_t hash(const struct state *state)
{
	const uint64_t *words = (const uint64_t *)state;
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof *state / 8; i++)
		sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15ull, sum ^= sum >> 29;
	return sum;
}

static void set_clear(struct set *set)
{
	if (!set->states) {
		set->states = malloc(STATES_MAX * sizeof *set->states);
		set->table = malloc(TABLE * sizeof *set->table);
		if (!set->states || !set->table)
			exit(2);
		memset(set->table, 0, TABLE * sizeof *set->table);
	}
	if (set->count > 1000)
		memset(set->table, 0, TABLE * sizeof *set->table);
	else
		for (uint32_t i = 0; i < set->count; i++) {
			uint64_t at = hash(&set->states[i]) % TABLE;

			for (; set->table[at]; at = (at + 1) % TABLE)
				set->table[at] = 0;
		}
	set->count = 0;
}

static void set_add(struct set *set, const struct state *state)
{
	uint64_t at = hash(state) % TABLE;

	for (; set->table[at]; at = (at + 1) % TABLE)
		if (!memcmp(&set->states[set->table[at] - 1], state, sizeof *state))
			return;
	if (set->count == STATES_MAX)
		return;
	set->states[set->count++] = *state;
	set->table[at] = set->count;
}

static void forget(struct name_state *name)
{
	memset(name, 0, sizeof *name);
}

static bool create(struct state *state, struct name_state *name, const struct event *event, uint32_t slot)
{
	uint64_t bit = 1ull << slot;

	if (event->result) {
		state->done |= bit;
		return event->result == -EEXIST && name->phase != ABSENT;
	}
	if (state->half & bit) {
		if (name->phase != CREATING || name->slot != slot)
			return false;
		state->done |= bit;
		name->phase = LIVE;
		name->slot = 0;
		return true;
	}
	if (name->phase != ABSENT)
		return false;
	state->half |= bit;
	name->phase = CREATING;
	name->slot = slot;
	name->size = event->size;
	return true;
}

static int rename_result(const struct name_state *name, const struct name_state *to, bool replace)
{
	if (name->phase != LIVE)
		return -ENOENT;
	if (name == to || to->phase == ABSENT)
		return 0;
	if (!replace)
		return -EEXIST;
	return to->phase == CREATING ? -EBUSY : 0;
}

static bool rename_name(struct name_state *name, struct name_state *to, const struct event *event)
{
	if (rename_result(name, to, event->replace) != event->result)
		return false;
	if (event->result || name == to)
		return true;
	*to = *name;
	to->generation = 0;
	to->slot = 0;
	forget(name);
	return true;
}

/* A call was told of a buffer. The first one that is told its generation decides it for the others. */
static bool find(struct name_state *name, const struct event *event)
{
	if (name->phase != LIVE || name->size != event->size ||
	    (name->generation && name->generation != event->generation))
		return false;
	name->generation = event->generation;
	return true;
}

/* Has the call in the slot take effect, if it can have had its result there. */
static bool step(struct state *state, uint32_t slot)
{
	const struct event *event = slots[slot];
	struct name_state *name = &state->names[event->name];

	if (event->deed == DID_CREATE)
		return create(state, name, event, slot);
	state->done |= 1ull << slot;
	switch (event->deed) {
	case DID_UNLINK:
		if ((name->phase == LIVE) != !event->result)
			return false;
		if (!event->result)
			forget(name);
		return event->result == 0 || event->result == -ENOENT;
	case DID_RENAME:
		return rename_name(name, &state->names[event->to], event);
	case DID_FIND:
		return find(name, event);
	case DID_MISS:
		return name->phase != LIVE;
	case DID_OLD:
		return name->phase != LIVE || !name->generation || name->generation <= event->generation;
	default:
		return name->phase != LIVE || name->generation != event->generation;
	}
}

/* Whether the call changes nothing, whenever it takes effect: then it may as well do so as early as it can. */
static bool changes_nothing(const struct state *before, const struct state *after)
{
	return !memcmp(before->names, after->names, sizeof before->names) && before->half == after->half;
}

static struct state with_idle_calls(struct state state)
{
	for (uint64_t left = under_way & ~state.done; left; left &= left - 1) {
		uint32_t slot = (uint32_t)__builtin_ctzll(left);
		struct state after = state;

		if (step(&after, slot) && changes_nothing(&state, &after))
			state = after;
	}
	return state;
}

/* The states in which the call has taken effect become those of now. Returns whether there are any. */
static bool end(uint32_t slot)
{
	uint64_t bit = 1ull << slot;
	struct set swap;

	set_clear(&next);
	for (uint32_t i = 0; i < now.count; i++) { /* grows meanwhile */
		struct state state = with_idle_calls(now.states[i]);

		if (state.done & bit) {
			state.done &= ~bit;
			state.half &= ~bit;
			set_add(&next, &state);
			continue;
		}
		for (uint64_t left = under_way & ~state.done; left; left &= left - 1) {
			struct state after = state;

			if (step(&after, (uint32_t)__builtin_ctzll(left)))
				set_add(&now, &after);
		}
	}
	under_way &= ~bit;
	swap = now;
	now = next;
	next = swap;
	return now.count;
}

static void describe(const struct event *event, char *text, size_t room)
{
	static const char *const deeds[] = { "create", "unlink", "rename", "find", "miss", "no newer", "not this" };

	snprintf(text, room, "%s %u%s to %u = %d, size %llu, generation %llu, %.6f to %.6f s", deeds[event->deed],
		 event->name, event->replace ? " replace" : "", event->to, event->result,
		 (unsigned long long)event->size, (unsigned long long)event->generation,
		 (double)(event->from - kills->begin) / 1e9, (double)(event->until - kills->begin) / 1e9);
}

static void tell(unsigned arena, const struct event *wrong, const struct history *history, uint32_t count)
{
	char text[200];

	describe(wrong, text, sizeof text);
	note_failure("arena %u: no order of the calls explains: %s", arena, text);
	for (uint32_t i = 0; i < count; i++)
		if (history->events[i].until + 20000000 > wrong->from && history->events[i].from < wrong->until) {
			describe(&history->events[i], text, sizeof text);
			fprintf(stderr, "    %s\n", text);
		}
}

/* Begins and ends in the order of time. */
struct point {
	uint64_t time;
	uint32_t event;
	uint32_t is_end;
};

static int compare(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return (int)x->is_end - (int)y->is_end;
}

static bool go(const struct point *point, const struct event *events, uint32_t *slot_of)
{
	uint32_t slot;

	if (point->is_end)
		return end(slot_of[point->event]);
	if (!~under_way)
		return false;
	slot = (uint32_t)__builtin_ctzll(~under_way);
	slots[slot] = &events[point->event];
	slot_of[point->event] = slot;
	under_way |= 1ull << slot;
	return true;
}

void history_check(unsigned arena)
{
	static struct point points[2 * HISTORY];
	static uint32_t slot_of[HISTORY];
	struct history *history = &kills->histories[arena];
	uint32_t all = atomic_load(&history->count), count = all < HISTORY ? all : HISTORY;

	for (uint32_t i = 0; i < count; i++) {
		points[2 * i] = (struct point){ history->events[i].from, i, 0 };
		points[2 * i + 1] = (struct point){ history->events[i].until, i, 1 };
	}
	qsort(points, 2 * count, sizeof *points, compare);
	set_clear(&now);
	set_add(&now, &(struct state){ 0 });
	under_way = 0;
	for (uint32_t i = 0; i < 2 * count; i++)
		if (!go(&points[i], history->events, slot_of)) {
			tell(arena, &history->events[points[i].event], history, count);
			break;
		}
	atomic_fetch_add(&kills->checked, count);
	atomic_store(&history->count, 0);
	atomic_store(&history->ids, 0);
}
