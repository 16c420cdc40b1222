/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.c - attacks on seals, renames, rights that are asked for later, and the question for a newer buffer.
 *
 * Who may not unlink a buffer may not take its name either; a name that moves takes nothing from who holds the buffer; and whoever moves one as
 * often as it likes makes nobody read more than one notice.
 */
#include <string.h>

#include "attacks.h"

#define OWN     "attacker/publish"
#define NEXT    "attacker/publish/next"
#define RENAMES 5000
#define WAITS   1024 /* that a session may have */

static int rename_to(struct speaker *s, const char *name, const char *to, uint32_t flags)
{
	struct wire_message message = speaker_message(WIRE_RENAME, name), answer;

	strcpy(message.rename.to, to);
	message.rename.flags = flags;
	return speaker_ask(s, &message, &answer, NULL);
}

static int add_rights(struct speaker *s, const struct wire_grant *grant, uint64_t serial, unsigned rights)
{
	struct wire_message message = speaker_message(WIRE_RIGHTS, ""), answer;

	message.rights = (struct wire_rights){ .grant = grant->grant, .serial = serial, .rights = rights };
	return speaker_ask(s, &message, &answer, NULL);
}

static struct wire_info info_of(struct speaker *s, const char *name)
{
	struct wire_message message = speaker_message(WIRE_STAT, name), answer;

	WANT(!speaker_ask(s, &message, &answer, NULL) && answer.type == WIRE_INFO);
	return answer.info;
}

/* ---- of another user ---- */

static void publish_of_others(void)
{
	struct wire_grant grant;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0600, 0));
	WANT(speaker_named(&s, WIRE_SEAL, SHOWN) == -EACCES);
	WANT(speaker_named(&s, WIRE_SEAL, SECRET) == -EACCES);
	WANT(rename_to(&s, SHOWN, "attacker/stolen", 0) == -EACCES);
	WANT(rename_to(&s, OWN, SHOWN, 0) == -EEXIST);
	WANT(rename_to(&s, OWN, SHOWN, GPUB_REPLACE) == -EACCES);
	WANT(rename_to(&s, OWN, SECRET, GPUB_REPLACE) == -EACCES);
	WANT(!speaker_acquire(&s, SHOWN, GPUB_READ, &grant) && grant.rights == GPUB_READ);
	WANT(add_rights(&s, &grant, grant.serial, GPUB_WRITE) == -EACCES);
	WANT(add_rights(&s, &grant, grant.serial, BOTH) == -EACCES);
	WANT(!add_rights(&s, &grant, grant.serial, GPUB_READ));
	WANT(info_of(&s, OWN).state == GPUB_LIVE);
	speaker_end(&s);
}

/* ---- rights ---- */

static void rights_of_the_wrong(void)
{
	struct speaker s, other;
	struct wire_grant grant, foreign;

	join(&s);
	join(&other);
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_ALONE));
	WANT(!speaker_acquire(&s, OWN, GPUB_READ, &grant) && !speaker_acquire(&other, OWN, GPUB_READ, &foreign));
	WANT(add_rights(&s, &foreign, foreign.serial, GPUB_WRITE) == -ESTALE);
	WANT(add_rights(&s, &grant, grant.serial + 1, GPUB_WRITE) == -ESTALE);
	WANT(add_rights(&s, &grant, UINT64_MAX, GPUB_WRITE) == -ESTALE);
	WANT(add_rights(&s, &grant, grant.serial, 0) == -EINVAL);
	WANT(add_rights(&s, &grant, grant.serial, GPUB_WRITE | GPUB_MINE) == -EINVAL);
	WANT(add_rights(&s, &grant, grant.serial, UINT32_MAX) == -EINVAL);
	/* neither of the two writes: now one does, by what it asked for last */
	WANT(!add_rights(&other, &foreign, foreign.serial, GPUB_WRITE));
	WANT(speaker_named(&s, WIRE_SEAL, OWN) == -EBUSY);
	WANT(!speaker_closed(&other, foreign.grant));
	want_served(&other);
	WANT(!speaker_named(&s, WIRE_SEAL, OWN) && !speaker_named(&s, WIRE_SEAL, OWN));
	WANT(add_rights(&s, &grant, grant.serial, GPUB_WRITE) == -EROFS);
	WANT(speaker_acquire(&s, OWN, GPUB_WRITE, &foreign) == -EROFS);
	WANT(!rename_to(&s, OWN, NEXT, 0));
	WANT(add_rights(&s, &grant, grant.serial, GPUB_READ) == -ESTALE);
	speaker_end(&s);
	speaker_end(&other);
}

/* Of one's own session: only that which the name's acquires share ends with the seal. */
static void seal_around_a_ticket(void)
{
	static const struct wire_issue terms = { .rights = BOTH, .uid = TICKET_ANY_USER };
	struct wire_grant named, redeemed;
	struct ticket ticket;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_ALONE) && !speaker_issue(&s, OWN, &terms, &ticket));
	WANT(!speaker_acquire(&s, OWN, BOTH, &named) && !speaker_redeem(&s, &ticket, &redeemed));
	WANT(speaker_named(&s, WIRE_SEAL, OWN) == -EBUSY);
	WANT(!speaker_closed(&s, redeemed.grant) && !speaker_named(&s, WIRE_SEAL, OWN));
	WANT(!speaker_redeem(&s, &ticket, &redeemed) && redeemed.rights == GPUB_READ);
	WANT(!rename_to(&s, OWN, NEXT, 0));
	WANT(speaker_redeem(&s, &ticket, &redeemed) == -ESTALE);
	speaker_end(&s);
}

/* ---- renames ---- */

/* The notices that came without a question. */
static int notices_of(const struct speaker *s)
{
	struct wire_message message = speaker_message(WIRE_STAT, "no-such");
	int count = -1;

	WANT(!speaker_say(s, &message));
	do {
		WANT(!speaker_receive(s, &message, NULL));
		count++;
	} while (message.type == WIRE_NOTICE);
	WANT(message.type == WIRE_REFUSED);
	return count;
}

static void rename_on_and_on(void)
{
	struct wire_grant grant;
	struct speaker s, reader;

	join(&s);
	join(&reader);
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_ALONE) && !speaker_acquire(&reader, OWN, GPUB_READ, &grant));
	for (int i = 0; i < RENAMES; i++)
		WANT(!rename_to(&s, i % 2 ? NEXT : OWN, i % 2 ? OWN : NEXT, GPUB_REPLACE));
	WANT(info_of(&s, OWN).generation >= grant.serial + RENAMES && info_of(&s, OWN).grants == 1);
	WANT(notices_of(&reader) == 1);
	WANT(!speaker_named(&s, WIRE_UNLINK, OWN) && !notices_of(&reader));
	speaker_end(&s);
	speaker_end(&reader);
}

/* A use ends under the serial that it began with, and no other. */
static void quiesce_by_the_wrong_serial(void)
{
	struct wire_grant before, after;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_ALONE) && !speaker_acquire(&s, OWN, BOTH, &before));
	WANT(!rename_to(&s, OWN, NEXT, 0) && !speaker_acquire(&s, NEXT, GPUB_READ, &after));
	WANT(after.grant == before.grant && after.serial > before.serial && info_of(&s, NEXT).grants == 2);
	for (int i = 0; i < 3; i++)
		WANT(!speaker_quiesced(&s, before.grant, before.serial)); /* the first is good */
	WANT(info_of(&s, NEXT).grants == 1);
	WANT(!speaker_quiesced(&s, before.grant, after.serial + 1));
	WANT(info_of(&s, NEXT).grants == 1);
	WANT(!speaker_named(&s, WIRE_UNLINK, NEXT));
	WANT(!speaker_quiesced(&s, after.grant, after.serial));
	want_served(&s);
	speaker_end(&s);
}

static bool wrong_serials_are_counted(void)
{
	return SOON(counted("idle_foreign") == 3) && counted("idle_foreign") == 3;
}

static void absurd_renames(void)
{
	struct wire_message message = speaker_message(WIRE_NEWER, OWN), answer;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0600, 0));
	WANT(rename_to(&s, OWN, NEXT, UINT32_MAX) == -EINVAL && rename_to(&s, OWN, NEXT, 4) == -EINVAL && rename_to(&s, OWN, OWN, 4) == -EINVAL);
	WANT(rename_to(&s, OWN, "", 0) == -EINVAL && rename_to(&s, OWN, "/etc", 0) == -EINVAL);
	WANT(rename_to(&s, "", OWN, 0) == -EINVAL && rename_to(&s, NEXT, OWN, GPUB_REPLACE) == -ENOENT);
	WANT(speaker_named(&s, WIRE_SEAL, "") == -EINVAL);
	message.newer.generation = UINT64_MAX;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -EINVAL);
	message.newer.generation = info_of(&s, OWN).generation;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -ETIMEDOUT);
	message.newer.timeout_ms = 1;
	WANT(speaker_ask(&s, &message, &answer, NULL) == -ETIMEDOUT);
	speaker_end(&s);
}

/* ---- waits ---- */

static void wait_for_newer(void)
{
	struct wire_message message = speaker_message(WIRE_NEWER, OWN), answer;
	struct speaker s, other;

	join(&s);
	join(&other);
	WANT(!speaker_create(&s, OWN, 4096, 0600, 0));
	message.newer.generation = info_of(&s, OWN).generation;
	message.newer.timeout_ms = INT32_MIN; /* for ever, as any below 0 */
	for (int i = 0; i < WAITS; i++)
		WANT(!speaker_say(&other, &message));
	WANT(speaker_ask(&other, &message, &answer, NULL) == -EDQUOT);
	attack_done();
	hold();
	WANT(!rename_to(&s, OWN, NEXT, 0)); /* which wakes nobody */
	speaker_end(&other);
	WANT(!speaker_create(&s, OWN, 4096, 0600, 0));
	want_served(&s);
	speaker_end(&s);
}

static bool waits_are_charged(void)
{
	return SOON(status_number(&arena_broker, "waiting") >= WAITS) && newcomer_works(BYSTANDER);
}

const struct attack publishing[] = {
	{ "seals, renames, replaces what is another's", "all are refused", .run = publish_of_others, .flags = NEEDS_USERS },
	{ "asks for rights that are not its own", "they are refused", .run = rights_of_the_wrong },
	{ "seals what it may write by a ticket", "it is refused, and the ticket gives less and ends", .run = seal_around_a_ticket },
	{ "renames a buffer on and on", "a reader is told once", .run = rename_on_and_on },
	{ "quiesces by serials of before and after a rename", "each ends its own use alone", .run = quiesce_by_the_wrong_serial,
	  .after = wrong_serials_are_counted },
	{ "renames to what is none, waits for what will never be", "it is refused", .run = absurd_renames },
	{ "waits for newer buffers, as often as it may", "that is charged, and ends with it", .run = wait_for_newer,
	  .during = waits_are_charged },
	{ 0 },
};
