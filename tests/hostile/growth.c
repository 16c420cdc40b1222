/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.c - attacks on buffers that grow: sizes and reserves that make no sense, growth of what is another's, growth
 * without end, and memory that is cut off while somebody maps it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attacks.h"
#include "common/export.h"
#include "common/handle.h"

#define OWN     "attacker/growing"
#define SHARED  "victim/growing" /* everybody may write it */
#define RESERVE (4u << 20)
#define STEP    65536u
#define RESIZES 20000

static int create_with(struct speaker *s, const char *name, uint64_t size, uint64_t reserve, unsigned mode)
{
	struct wire_message message = speaker_message(WIRE_CREATE, name), answer;

	message.create.size = size;
	message.create.reserve = reserve;
	message.create.mode = mode;
	return speaker_ask(s, &message, &answer, NULL);
}

static int resize_to(struct speaker *s, const char *name, uint64_t size)
{
	struct wire_message message = speaker_message(WIRE_RESIZE, name), answer;

	message.resize.size = size;
	message.resize.timeout_ms = 0;
	return speaker_ask(s, &message, &answer, NULL);
}

/* ---- what makes no sense ---- */

static void absurd(void)
{
	struct wire_message message = speaker_message(WIRE_RESIZE, OWN), answer;
	struct speaker s;

	join(&s);
	WANT(create_with(&s, OWN, 4096, 4095, 0600) == -EINVAL && create_with(&s, OWN, 4096, 1, 0600) == -EINVAL);
	WANT(create_with(&s, OWN, 4096, UINT64_MAX, 0600) == -EINVAL &&
	     create_with(&s, OWN, 4096, 1ull << 63, 0600) == -EINVAL);
	WANT(create_with(&s, OWN, UINT64_MAX, UINT64_MAX, 0600) < 0 && create_with(&s, OWN, 0, 4096, 0600) == -EINVAL);
	WANT(!speaker_create(&s, "attacker/fixed", 4096, 0600, 0) && resize_to(&s, "attacker/fixed", 8192) == -EINVAL);
	WANT(!create_with(&s, OWN, 4096, RESERVE, 0600));
	WANT(resize_to(&s, OWN, 0) == -EINVAL && resize_to(&s, OWN, UINT64_MAX) == -ENOSPC &&
	     resize_to(&s, OWN, RESERVE + 1) == -ENOSPC);
	WANT(resize_to(&s, "", 4096) == -EINVAL && resize_to(&s, "/etc", 4096) == -EINVAL &&
	     resize_to(&s, "no-such", 4096) == -ENOENT);
	message.resize.size = 8192;
	message.resize.timeout_ms = INT32_MIN;
	WANT(!speaker_ask(&s, &message, &answer, NULL));
	WANT(resize_to(&s, SHOWN, SECRET_SIZE * 2) == -EACCES && resize_to(&s, SECRET, 1) == -EACCES);
	speaker_end(&s);
}

/* ---- without end ---- */

/* As many chunks as there can be, each answer with all of them, which nobody reads; and sizes back and forth. */
static void without_end(void)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, OWN);
	struct wire_grant grant;
	struct speaker s, other;

	join(&s);
	join(&other);
	WANT(!create_with(&s, OWN, STEP, RESERVE, 0600) && !speaker_acquire(&other, OWN, BOTH, &grant));
	for (unsigned i = 1; i < EXPORT_CHUNKS_MAX; i++)
		WANT(!resize_to(&s, OWN, (i + 1) * STEP));
	WANT(resize_to(&s, OWN, RESERVE) == -ENOSPC);
	for (int i = 0; i < 16; i++) {
		struct speaker again;

		join(&again);
		WANT(!speaker_say(&again, &message) && !speaker_say(&again, &message));
		speaker_end(&again);
	}
	WANT(!speaker_acquire(&other, OWN, BOTH, &grant) && grant.place == WIRE_NO_HANDLE &&
	     grant.span == EXPORT_CHUNKS_MAX * STEP);
	for (unsigned i = 0; i < RESIZES; i++)
		WANT(resize_to(&s, OWN, EXPORT_CHUNKS_MAX * STEP - 1) == -EBUSY); /* the other maps it */
	WANT(!create_with(&s, "attacker/unused", STEP, RESERVE, 0600) && !resize_to(&s, "attacker/unused", 2 * STEP));
	for (unsigned i = 0; i < RESIZES; i++)
		WANT(!resize_to(&s, "attacker/unused", 2 * STEP - 1 + i % 2));
	WANT(!resize_to(&s, "attacker/unused", 1));
	want_served(&s);
	speaker_end(&other);
	speaker_end(&s);
}

static bool broker_goes_on(void)
{
	return newcomer_works(BYSTANDER);
}

/* ---- what is cut off ---- */

static void make_shared(void)
{
	struct speaker owner;

	join(&owner);
	WANT(!create_with(&owner, SHARED, STEP, RESERVE, 0606) && !resize_to(&owner, SHARED, 2 * STEP));
	speaker_end(&owner);
}

static void shrink_shared(void)
{
	struct speaker owner;

	join(&owner);
	WANT(resize_to(&owner, SHARED, STEP) == -EBUSY);
	WANT(!resize_to(&owner, SHARED, 3 * STEP));
	speaker_end(&owner);
}

/* It says that it has closed it, and goes on writing: the owner cannot cut off what it maps, and may let it grow. */
static void keep_what_is_cut_off(void)
{
	struct wire_grant grant;
	struct speaker s;

	join(&s);
	WANT(!speaker_acquire(&s, SHARED, BOTH, &grant) && grant.span == 2 * STEP);
	WANT(resize_to(&s, SHARED, STEP) == -EACCES && resize_to(&s, SHARED, RESERVE) == -EACCES);
	WANT(!speaker_closed(&s, grant.mapping));
	want_served(&s);
	hold();
	speaker_end(&s);
}

static bool owner_cannot_shrink(void)
{
	return arena_run(VICTIM, shrink_shared) && newcomer_works(BYSTANDER);
}

static void unlink_shared(void)
{
	struct speaker owner;

	join(&owner);
	WANT(!resize_to(&owner, SHARED, STEP) && !speaker_named(&owner, WIRE_UNLINK, SHARED));
	speaker_end(&owner);
}

/* When its process is dead. */
static bool owner_can_shrink(void)
{
	return SOON(arena_run(VICTIM, unlink_shared));
}

const struct attack growth[] = {
	{ "absurd sizes and reserves", "each is refused, and the buffers of others keep their size", .run = absurd },
	{ "grows without end", "invariant 5: a bounded number of chunks, and nobody else waits", .run = without_end,
	  .after = broker_goes_on, .flags = TAKES_SECONDS },
	{ "keeps what is cut off", "invariant 2: nothing is cut off from what a process of another user mapped",
	  .prepare = make_shared, .run = keep_what_is_cut_off, .during = owner_cannot_shrink, .after = owner_can_shrink,
	  .flags = NEEDS_USERS },
	{ 0 },
};
