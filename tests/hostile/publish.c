/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.c - attacks on seals, renames, rights that are asked for later, and the question for a newer buffer.
 *
 * Who may not unlink a buffer may not take its name either; a name that moves takes nothing from who holds the buffer;
 * and whoever moves one as often as it likes makes nobody read more than one notice.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attacks.h"
#include "arena-users.h"

#define OWN        "attacker/publish"
#define NEXT       "attacker/publish/next"
#define RENAMES    20000
#define WAITS      1024 /* that a session may have */
#define FIRST_WAIT (1ull << 40) /* the number of the first of those that are cancelled */

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

	message.rights = (struct wire_rights){ .mapping = grant->mapping, .serial = serial, .rights = rights };
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
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_DEDICATED));
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
	WANT(!speaker_closed(&other, foreign.mapping));
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
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_DEDICATED) && !speaker_issue(&s, OWN, &terms, &ticket));
	WANT(!speaker_acquire(&s, OWN, BOTH, &named) && !speaker_redeem(&s, &ticket, &redeemed));
	WANT(speaker_named(&s, WIRE_SEAL, OWN) == -EBUSY);
	WANT(!speaker_closed(&s, redeemed.mapping) && !speaker_named(&s, WIRE_SEAL, OWN));
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

/* stage->number: */
#define HOLDS   0 /* 1: the reader holds a buffer; 2: and is stopped */
#define RENAMED 1 /* so often */
#define MAY_END 2
#define NOTICES 3 /* that the reader got, and 1 */

static bool came_to(unsigned which, uint64_t number)
{
	return atomic_load(&stage->number[which]) >= number;
}

static void wait_until(unsigned which, uint64_t number)
{
	while (!came_to(which, number))
		usleep(1000);
}

static void rename_on_and_on(void)
{
	struct speaker s;

	wait_until(HOLDS, 2);
	join(&s);
	for (uint64_t i = 1; i <= RENAMES; i++) {
		WANT(!rename_to(&s, i % 2 ? OWN : NEXT, i % 2 ? NEXT : OWN, GPUB_REPLACE));
		atomic_store(&stage->number[RENAMED], i);
	}
	WANT(info_of(&s, OWN).grants == 1);
	wait_until(MAY_END, 1);
	WANT(!speaker_named(&s, WIRE_UNLINK, OWN));
	speaker_end(&s);
	_exit(0);
}

static void rename_under_a_reader(void)
{
	struct speaker s;
	int status;
	pid_t pid;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0604, GPUB_DEDICATED));
	for (int i = HOLDS; i <= NOTICES; i++)
		atomic_store(&stage->number[i], 0);
	pid = fork();
	WANT(pid >= 0);
	if (!pid)
		rename_on_and_on();
	hold();
	WANT(waitpid(pid, &status, 0) == pid && !status);
	want_served(&s);
	speaker_end(&s);
}

/* As another user, which reads nothing for as long as the renames last. */
static void hold_and_count_notices(void)
{
	struct wire_grant grant;
	struct speaker s;

	join(&s);
	WANT(!speaker_acquire(&s, OWN, GPUB_READ, &grant));
	atomic_store(&stage->number[HOLDS], 1);
	wait_until(RENAMED, RENAMES);
	atomic_store(&stage->number[NOTICES], (uint64_t)notices_of(&s) + 1);
	WANT(!speaker_closed(&s, grant.mapping));
	want_served(&s);
	speaker_end(&s);
}

static bool others_enter(void)
{
	return newcomer_works(BYSTANDER) && newcomer_works(BYSTANDER);
}

static bool are_renamed(void)
{
	for (int i = 0; i < 6; i++)
		if (SOON(came_to(RENAMED, RENAMES)))
			return true;
	return false;
}

static bool reader_is_told_once(void)
{
	pid_t reader = arena_fork(ACCOMPLICE, hold_and_count_notices);
	bool served = SOON(came_to(HOLDS, 1)) && !kill(reader, SIGSTOP);
	int status = 0;

	atomic_store(&stage->number[HOLDS], 2);
	served = served && SOON(came_to(RENAMED, 1)) && others_enter() && are_renamed();
	kill(reader, SIGCONT);
	served =
		arena_wait_for(reader, &status, 20) && !status && served && came_to(NOTICES, 2) && !came_to(NOTICES, 3);
	atomic_store(&stage->number[MAY_END], 1);
	return served;
}

/* A QUIESCED ends a grant by the serial with which the grant began, and by no other serial. */
static void quiesce_by_the_wrong_serial(void)
{
	struct wire_grant before, after;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0600, GPUB_DEDICATED) && !speaker_acquire(&s, OWN, BOTH, &before));
	WANT(!rename_to(&s, OWN, NEXT, 0) && !speaker_acquire(&s, NEXT, GPUB_READ, &after));
	WANT(after.mapping == before.mapping && after.serial > before.serial && info_of(&s, NEXT).grants == 2);
	for (int i = 0; i < 3; i++)
		WANT(!speaker_quiesced(&s, before.mapping, before.serial)); /* the first is good */
	WANT(info_of(&s, NEXT).grants == 1);
	WANT(!speaker_quiesced(&s, before.mapping, after.serial + 1));
	WANT(info_of(&s, NEXT).grants == 1);
	WANT(!speaker_named(&s, WIRE_UNLINK, NEXT));
	WANT(!speaker_quiesced(&s, after.mapping, after.serial));
	want_served(&s);
	speaker_end(&s);
}

#define CONTENT 0x77
#define CONTENT_SIZE (1u << 20)

static bool all_are(const uint8_t *bytes, size_t size, uint8_t byte)
{
	return bytes[0] == byte && !memcmp(bytes, bytes + 1, size - 1);
}

/* As much as there may be, each full of something else. */
static void reuse_memory(struct speaker *s)
{
	struct wire_grant grant;
	uint8_t *bytes;
	char name[40];

	for (int i = 0; i < 30; i++) {
		snprintf(name, sizeof name, "attacker/publish/%d", i);
		WANT(!speaker_create(s, name, CONTENT_SIZE, 0600, 0) && !speaker_acquire(s, name, BOTH, &grant));
		bytes = speaker_map(s, &grant);
		WANT(bytes && all_are(bytes, CONTENT_SIZE, 0));
		memset(bytes, 0xee, CONTENT_SIZE);
		munmap(bytes, CONTENT_SIZE);
		WANT(!speaker_closed(s, grant.mapping));
	}
}

/* Whoever ends all that it has of a buffer, of before and after its rename, ends nothing of another's. */
static void end_around_a_reader(void)
{
	struct wire_grant before, after, readers;
	struct speaker s, reader;
	uint8_t *bytes;

	join(&s);
	join(&reader);
	WANT(!speaker_create(&s, OWN, CONTENT_SIZE, 0600, GPUB_DEDICATED) && !speaker_acquire(&s, OWN, BOTH, &before));
	bytes = speaker_map(&s, &before);
	WANT(bytes);
	memset(bytes, CONTENT, CONTENT_SIZE);
	munmap(bytes, CONTENT_SIZE);
	WANT(!speaker_acquire(&reader, OWN, GPUB_READ, &readers));
	bytes = speaker_map(&reader, &readers);
	WANT(!rename_to(&s, OWN, NEXT, 0) && !speaker_acquire(&s, NEXT, BOTH, &after));
	WANT(!speaker_quiesced(&s, before.mapping, before.serial) &&
	     !speaker_quiesced(&s, after.mapping, after.serial));
	WANT(!speaker_quiesced(&s, readers.mapping, readers.serial) && !speaker_closed(&s, readers.mapping));
	WANT(!speaker_closed(&s, before.mapping) && !speaker_closed(&s, after.mapping));
	WANT(info_of(&s, NEXT).grants == 1);
	WANT(!speaker_named(&s, WIRE_UNLINK, NEXT));
	reuse_memory(&s);
	WANT(bytes && all_are(bytes, CONTENT_SIZE, CONTENT));
	hold();
	munmap(bytes, CONTENT_SIZE);
	WANT(!speaker_closed(&reader, readers.mapping));
	want_served(&reader);
	speaker_end(&s);
	speaker_end(&reader);
}

static bool renamed_is_draining(void)
{
	return status_buffers(&arena_broker, NEXT, "draining") == 1;
}

static bool reader_keeps_the_memory(void)
{
	return SOON(renamed_is_draining()) && status_holders(&arena_broker, NEXT, stage->pid[0]) == 1;
}

static bool wrong_serials_are_counted(void)
{
	return SOON(counted("quiesced_foreign") == 3) && counted("quiesced_foreign") == 3;
}

static void absurd_renames(void)
{
	struct wire_message message = speaker_message(WIRE_NEWER, OWN), answer;
	struct speaker s;

	join(&s);
	WANT(!speaker_create(&s, OWN, 4096, 0600, 0));
	WANT(rename_to(&s, OWN, NEXT, UINT32_MAX) == -EINVAL && rename_to(&s, OWN, NEXT, 4) == -EINVAL &&
	     rename_to(&s, OWN, OWN, 4) == -EINVAL);
	WANT(rename_to(&s, OWN, "", 0) == -EINVAL && rename_to(&s, OWN, "/etc", 0) == -EINVAL);
	WANT(rename_to(&s, "", OWN, 0) == -EINVAL && rename_to(&s, NEXT, OWN, GPUB_REPLACE) == -ENOENT);
	WANT(speaker_named(&s, WIRE_SEAL, "") == -EINVAL);
	message.newer.generation = UINT64_MAX; /* which nobody is told that there was none */
	WANT(speaker_ask(&s, &message, &answer, NULL) == -ETIMEDOUT);
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

/* No answer to an earlier request has come or is under way: the next is the answer to this one. */
static void want_no_answer(const struct speaker *speaker)
{
	struct wire_message message = speaker_message(WIRE_STAT, "no/such/buffer"), answer;

	message.request = FIRST_WAIT - 1;
	WANT(!speaker_say(speaker, &message));
	WANT(!speaker_receive(speaker, &answer, NULL));
	WANT(answer.request == message.request);
}

/* Numbers of requests are a session's own: another one's CANCEL ends nothing, however often it comes. */
static void cancel_waits(void)
{
	struct wire_message message = speaker_message(WIRE_NEWER, OWN), cancel = speaker_message(WIRE_CANCEL, ""),
			    answer;
	struct speaker s, other;

	join(&s);
	join(&other);
	WANT(!speaker_create(&s, OWN, 4096, 0600, 0));
	message.newer.generation = info_of(&s, OWN).generation;
	message.newer.timeout_ms = -1;
	for (unsigned i = 0; i < WAITS; i++) {
		message.request = FIRST_WAIT + i;
		WANT(!speaker_say(&s, &message));
	}
	for (unsigned i = 0; i < 2 * WAITS; i++) {
		cancel.request = FIRST_WAIT + i % WAITS;
		WANT(!speaker_say(&other, &cancel));
	}
	want_served(&other);
	want_no_answer(&s);
	for (unsigned i = 0; i < WAITS; i++) {
		cancel.request = FIRST_WAIT + i;
		WANT(!speaker_say(&s, &cancel));
		WANT(!speaker_receive(&s, &answer, NULL));
		WANT(answer.type == WIRE_REFUSED && answer.request == cancel.request &&
		     answer.refused.error == -ETIMEDOUT);
	}
	WANT(!speaker_say(&s, &cancel)); /* of nothing */
	want_no_answer(&s);
	/* two waits under one number: the first alone can be cancelled, and the second ends with its session */
	message.request = cancel.request;
	for (int i = 0; i < 2; i++)
		WANT(!speaker_say(&s, &message));
	for (int i = 0; i < 2; i++)
		WANT(!speaker_say(&s, &cancel));
	WANT(!speaker_receive(&s, &answer, NULL));
	WANT(answer.type == WIRE_REFUSED && answer.request == cancel.request && answer.refused.error == -ETIMEDOUT);
	want_no_answer(&s);
	speaker_end(&other);
	speaker_end(&s);
}

static void wait_for_newer_and_linger(void)
{
	struct wire_message message = speaker_message(WIRE_NEWER, OWN);
	struct speaker s;

	join(&s);
	message.newer.timeout_ms = -1;
	for (int i = 0; i < 100; i++)
		WANT(!speaker_say(&s, &message));
	want_served(&s);
	atomic_store(&stage->number[HOLDS], 1);
	pause();
}

static void die_waiting_for_newer(void)
{
	struct speaker s;
	pid_t pid;

	atomic_store(&stage->number[HOLDS], 0);
	join(&s);
	pid = fork();
	WANT(pid >= 0);
	if (!pid)
		wait_for_newer_and_linger();
	wait_until(HOLDS, 1);
	WANT(!kill(pid, SIGKILL) && !speaker_create(&s, OWN, 4096, 0600, 0)); /* which may be before the broker knows */
	WANT(waitpid(pid, NULL, 0) == pid);
	WANT(!rename_to(&s, OWN, NEXT, 0) && !rename_to(&s, NEXT, OWN, 0));
	want_served(&s);
	speaker_end(&s);
}

static bool waits_are_charged(void)
{
	return SOON(status_number(&arena_broker, "waiting") >= WAITS) && newcomer_works(BYSTANDER);
}

const struct attack publishing[] = {
	{ "seals, renames, replaces what is another's", "all are refused", .run = publish_of_others,
	  .flags = NEEDS_USERS },
	{ "asks for rights that are not its own", "they are refused", .run = rights_of_the_wrong },
	{ "seals what it may write by a ticket", "it is refused, and the ticket gives less and ends",
	  .run = seal_around_a_ticket },
	{ "renames a buffer on and on", "invariant 5: a reader that is stopped is told once and stays, others enter",
	  .run = rename_under_a_reader, .during = reader_is_told_once },
	{ "quiesces by serials of before and after a rename", "each ends its own use alone",
	  .run = quiesce_by_the_wrong_serial, .after = wrong_serials_are_counted },
	{ "ends all that it has of before and after a rename", "invariant 2: another one's mapping stays",
	  .run = end_around_a_reader, .during = reader_keeps_the_memory },
	{ "renames to what is none, waits for what will never be", "it is refused", .run = absurd_renames },
	{ "waits for newer buffers, as often as it may", "that is charged, and ends with it", .run = wait_for_newer,
	  .during = waits_are_charged },
	{ "cancels another session's waits, and its own", "its own end", .run = cancel_waits },
	{ "dies while it waits for newer buffers", "its waits end", .run = die_waiting_for_newer },
	{ 0 },
};
