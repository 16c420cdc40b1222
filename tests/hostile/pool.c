/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - attacks on the memory that is kept for later: one user fills it, and waits for memory that never comes.
 *
 * Judged by what the broker counted: others' creates come from the pool as before, and the device is asked for nothing.
 */
#include <stdio.h>

#include "attacks.h"

#define BALLAST      "victim/ballast"
#define BALLAST_SIZE (24u << 20) /* of ARENA_MEMORY: with what the victim has, less is left than NEVER_SIZE */
#define NEVER        "attacker/pool/never"
#define NEVER_SIZE   (39u << 20) /* within the attacker's quota */
#define PIECES       20          /* of the attacker's, that are freed: more than ARENA_POOL */
#define PIECE_SIZE   (1u << 20)
#define ROUNDS       20

static void make_ballast(void)
{
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, BALLAST, BALLAST_SIZE, 0600, 0));
	speaker_end(&s);
}

static void create_and_drain(struct speaker *s, const char *name)
{
	struct wire_message drain = speaker_message(WIRE_DRAIN, name), answer;

	drain.drain.timeout_ms = 10000;
	WANT(!speaker_create(s, name, PIECE_SIZE, 0600, 0));
	WANT(!speaker_ask(s, &drain, &answer, NULL));
}

/* All there at once, so that none serves the next. */
static void fill_pool(struct speaker *s)
{
	char name[64];

	for (unsigned i = 0; i < PIECES; i++) {
		snprintf(name, sizeof name, "attacker/pool/%u", i);
		WANT(!speaker_create(s, name, PIECE_SIZE, 0600, 0));
	}
	for (unsigned i = 0; i < PIECES; i++) {
		snprintf(name, sizeof name, "attacker/pool/%u", i);
		WANT(!speaker_named(s, WIRE_UNLINK, name));
	}
}

static void fill_and_wait_for_ever(void)
{
	struct wire_message never = speaker_message(WIRE_CREATE, NEVER);
	struct speaker s, waiting;

	join(&s);
	join(&waiting);
	fill_pool(&s);
	never.create.size = NEVER_SIZE;
	never.create.timeout_ms = -1;
	WANT(!speaker_say(&waiting, &never));
	want_served(&s);
	hold();
	speaker_end(&waiting);
	speaker_end(&s);
}

static void leave_mark(const char *name)
{
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, name, 1, 0600, 0));
	speaker_end(&s);
}

static void mark_before(void)
{
	leave_mark("bystander/before");
}

static void mark_after(void)
{
	leave_mark("bystander/after");
}

static void work_from_the_pool(void)
{
	struct speaker s;

	join(&s);
	for (unsigned i = 0; i < ROUNDS; i++)
		create_and_drain(&s, "bystander/passing");
	speaker_end(&s);
}

static bool victim_rests(bool rests)
{
	atomic_store(&stage->pause, rests);
	return SOON(atomic_load(&stage->paused) == rests);
}

/* The status file has all that happened before that mark. */
static bool is_shown(void (*mark)(void), const char *name)
{
	return arena_run(BYSTANDER, mark) && SOON(status_buffers(&arena_broker, name, NULL));
}

/* All rounds but the first, for which there is nothing yet; and a mark is no round. */
static bool others_are_served_from_the_pool(void)
{
	int64_t recycled;
	bool served;

	served = victim_rests(true) && is_shown(mark_before, "bystander/before");
	recycled = counted("buffers_recycled");
	served = served && arena_run(BYSTANDER, work_from_the_pool) && is_shown(mark_after, "bystander/after") &&
		 SOON(counted("buffers_recycled") >= recycled + ROUNDS - 2);
	return victim_rests(false) && served;
}

const struct attack pool[] = {
	{ "fills the pool and waits for ever", "invariant 5: others' creates come from the pool all the same",
	  .prepare = make_ballast, .run = fill_and_wait_for_ever, .during = others_are_served_from_the_pool,
	  .flags = NEEDS_USERS | COUNTS_POOLED },
	{ 0 },
};
