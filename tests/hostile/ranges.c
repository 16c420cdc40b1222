/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges.c - attacks on memory that several buffers share, and that serves one after the other: QUIESCED for what one
 * has not, for what one goes on using, for what is another user's; and everything that crosses.
 *
 * A false QUIESCED of one's own memory harms oneself: the range goes to that user again. QUIESCED of another user's
 * memory is not trusted.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "attacks.h"

#define SMALL     200
#define RANGE     256
#define NEIGHBOUR "attacker/range/neighbour"
#define OWN       "attacker/range/own"

/* ---- idle, of what it has not ---- */

#define IDS 4000

static void idle_of_others(void)
{
	struct speaker s;

	join(&s);
	for (uint64_t id = 0; id < IDS; id++)
		WANT(!speaker_quiesced(&s, id, id % 64));
	WANT(!speaker_quiesced(&s, UINT64_MAX, UINT64_MAX));
	want_served(&s);
	speaker_end(&s);
}

static bool others_are_counted(void)
{
	return SOON(counted("quiesced_foreign") == IDS + 1) && counted("quiesced_foreign") == IDS + 1;
}

/*
 * A mapping of its own, and the serial of a buffer of which it has no grant there; a good one, from another session;
 * one too many.
 */
static void idle_of_the_wrong(void)
{
	struct wire_grant own, neighbour;
	struct speaker s, other;

	join(&s);
	join(&other);
	WANT(!speaker_create(&s, OWN, SMALL, 0600, 0) && !speaker_create(&s, NEIGHBOUR, SMALL, 0600, 0));
	WANT(!speaker_acquire(&s, OWN, BOTH, &own));
	WANT(!speaker_named(&s, WIRE_STAT, NEIGHBOUR));
	for (uint64_t serial = 0; serial < 10; serial++)
		WANT(!speaker_quiesced(&s, own.mapping, own.serial + 1 + serial));
	WANT(!speaker_quiesced(&other, own.mapping, own.serial));
	want_served(&other);
	WANT(!speaker_acquire(&s, NEIGHBOUR, BOTH, &neighbour) && neighbour.mapping == own.mapping);
	WANT(!speaker_named(&s, WIRE_UNLINK, OWN));
	for (int i = 0; i < 3; i++)
		WANT(!speaker_quiesced(&s, own.mapping, own.serial)); /* the first is good */
	WANT(!speaker_closed(&s, own.mapping));
	WANT(!speaker_quiesced(&s, neighbour.mapping, neighbour.serial));
	want_served(&s);
	speaker_end(&s);
	speaker_end(&other);
}

static bool wrong_are_counted(void)
{
	return SOON(counted("quiesced_foreign") == 10 + 1 + 2 + 1) && counted("quiesced_foreign") == 14;
}

/* ---- its own, which it goes on using ---- */

static void write_own_after_quiesced(void)
{
	struct wire_grant own, next;
	struct speaker s;
	uint8_t *bytes;

	join(&s);
	WANT(!speaker_create(&s, NEIGHBOUR, SMALL, 0600, 0) && !speaker_create(&s, OWN, SMALL, 0600, 0));
	WANT(!speaker_acquire(&s, OWN, BOTH, &own));
	bytes = speaker_map(&s, &own);
	WANT(bytes && own.offset + RANGE <= own.span);
	WANT(!speaker_quiesced(&s, own.mapping, own.serial)); /* also while the buffer has its name */
	WANT(!speaker_named(&s, WIRE_UNLINK, OWN));
	for (int i = 0; i < 20; i++) {
		char name[40];

		memset(bytes + own.offset, 0xBD, RANGE);
		snprintf(name, sizeof name, "attacker/range/%d", i);
		WANT(!speaker_create(&s, name, SMALL, 0600, 0));
		WANT(!speaker_acquire(&s, name, BOTH, &next));
	}
	attack_done();
	atomic_store(&stage->ready, true);
	while (!atomic_load(&stage->go_on)) {
		memset(bytes, 0xBD, own.span);
		usleep(1000);
	}
	speaker_end(&s);
}

static bool others_see_nothing_of_it(void)
{
	return newcomer_works(BYSTANDER) && newcomer_works(VICTIM);
}

/* ---- another user's ---- */

#define SHARED   "victim/range/0"
#define SHARED_1 "victim/range/1"
#define NEXT     40

static void make_shared(void)
{
	struct speaker owner;

	join(&owner);
	WANT(!speaker_create(&owner, SHARED, SMALL, 0606, 0) && !speaker_create(&owner, SHARED_1, SMALL, 0606, 0));
	speaker_end(&owner);
}

static void idle_of_anothers_and_keep(void)
{
	struct wire_grant shared;
	struct speaker s;
	uint8_t *bytes;

	join(&s);
	WANT(!speaker_acquire(&s, SHARED, BOTH, &shared));
	bytes = speaker_map(&s, &shared);
	WANT(bytes && !speaker_quiesced(&s, shared.mapping, shared.serial));
	want_served(&s);
	attack_done();
	atomic_store(&stage->ready, true);
	for (;;) {
		memset(bytes + shared.offset, 0xBD, RANGE);
		usleep(500);
	}
}

/*
 * As the victim: unlinks it, says QUIESCED of its own grant, and makes more of its kind: the first range that is free
 * is taken.
 */
static void refill(void)
{
	struct wire_grant own, next;
	struct speaker owner;

	join(&owner);
	WANT(!speaker_acquire(&owner, SHARED, BOTH, &own));
	WANT(!speaker_named(&owner, WIRE_UNLINK, SHARED));
	WANT(!speaker_quiesced(&owner, own.mapping, own.serial));
	want_served(&owner);
	for (int i = 0; i < NEXT; i++) {
		char name[40];

		snprintf(name, sizeof name, "victim/range/next/%d", i);
		WANT(!speaker_create(&owner, name, SMALL, 0606, 0));
		WANT(!speaker_acquire(&owner, name, BOTH, &next));
		WANT(next.mapping != own.mapping || next.offset != own.offset);
	}
	speaker_end(&owner);
}

static bool shared_is_gone(void)
{
	return !status_buffers(&arena_broker, SHARED, NULL);
}

static bool range_is_not_reused(void)
{
	if (!arena_run(VICTIM, refill) || !SOON(status_buffers(&arena_broker, SHARED, "draining") == 1))
		return false;
	if (!newcomer_works(BYSTANDER) || status_buffers(&arena_broker, SHARED, "draining") != 1)
		return false;
	return !kill(stage->pid[0], SIGKILL) && SOON(shared_is_gone());
}

/* ---- a ticket for one of many ---- */

static void lend_shared(void)
{
	static const struct wire_issue any = { .rights = GPUB_READ, .uid = TICKET_ANY_USER };
	struct wire_issue his = any;
	struct speaker owner;
	struct ticket ticket;

	join(&owner);
	WANT(!speaker_create(&owner, SHARED, SMALL, 0600, 0) && !speaker_create(&owner, SHARED_1, SMALL, 0600, 0));
	his.uid = arena_uid(ATTACKER);
	WANT(speaker_issue(&owner, SHARED, &his, &ticket) == -EBUSY);
	WANT(!speaker_issue(&owner, SHARED, &any, &stage->ticket[0])); /* the owner's own processes may */
	speaker_end(&owner);
}

/* A session that had it open would see the other one, too. */
static void redeem_shared(void)
{
	struct wire_grant grant;
	struct speaker s;

	join(&s);
	WANT(speaker_redeem(&s, &stage->ticket[0], &grant) == -EBUSY);
	WANT(speaker_acquire(&s, SHARED, GPUB_READ, &grant) == -EACCES);
	speaker_end(&s);
}

/* ---- everything that crosses ---- */

#define CROSSINGS 5000

/* What it was told last: it is out of date by the time that it is used. */
static bool receive_last(const struct speaker *s, struct wire_grant *last)
{
	struct wire_message message;
	ssize_t got;

	while ((got = recv(s->sock, &message, sizeof message, MSG_DONTWAIT)) > 0)
		if (message.type == WIRE_GRANT)
			*last = message.grant;
	return got < 0 && errno == EAGAIN;
}

static void cross_everything(void)
{
	struct wire_message acquire = speaker_message(WIRE_ACQUIRE, OWN), unlink = speaker_message(WIRE_UNLINK, OWN);
	struct wire_message create = speaker_message(WIRE_CREATE, OWN);
	struct wire_grant last = { 0 };
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, NEIGHBOUR, SMALL, 0600, 0));
	create.create.size = SMALL;
	acquire.request = 1;
	for (int i = 0; i < CROSSINGS; i++) {
		if (i % 5 == 0)
			WANT(!speaker_say(&s, &unlink) && !speaker_say(&s, &create));
		WANT(!speaker_say(&s, &acquire));
		WANT(!speaker_quiesced(&s, last.mapping, last.serial));
		WANT(!speaker_say(&s, &acquire));
		if (i % 3)
			WANT(!speaker_closed(&s, last.mapping));
		WANT(receive_last(&s, &last));
	}
	want_served(&s);
	speaker_end(&s);
}

const struct attack ranges[] = {
	{ "says idle for others", "invariant 3: no use of another session ends by it, each is counted",
	  .run = idle_of_others, .after = others_are_counted },
	{ "says idle for the wrong", "invariant 3: a use ends once, by its own session's QUIESCED",
	  .run = idle_of_the_wrong, .after = wrong_are_counted },
	{ "writes its memory after QUIESCED", "invariant 6: that is its own harm alone",
	  .run = write_own_after_quiesced, .during = others_see_nothing_of_it },
	{ "says idle of another user's range", "invariant 6: it is not trusted: nobody gets that range while it lives",
	  .prepare = make_shared, .run = idle_of_anothers_and_keep, .during = range_is_not_reused,
	  .flags = NEEDS_USERS },
	{ "redeems a part", "a ticket opens no memory in which there is more of another user's", .prepare = lend_shared,
	  .run = redeem_shared, .flags = NEEDS_USERS },
	{ "crosses everything", "invariant 10: what crosses ends as if it had not", .run = cross_everything },
	{ 0 },
};
