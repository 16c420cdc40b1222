/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shares.c - attacks on what all users have together: a small board, few descriptors, the memory of what waits to be
 * read.
 *
 * An attacker takes as much as it gets, then its accomplice does; a third user, who comes after both, must be able to
 * work. Judged by counts, and by what must hold after every attack (arena.h).
 */
#include <errno.h>
#include <poll.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "attacks.h"

#define WORDS    120 /* of the board */
#define HANDLES  120
#define FILES    256 /* descriptors of the broker */
#define QUEUED   (2 << 20)
#define AT_ONCE  4
#define UNREAD   1200 /* messages that a session asks for and does not read: fewer than it may by itself */
#define SESSIONS 128

enum who { FIRST, SECOND };

/* ---- the second user ---- */

static unsigned (*take)(void); /* takes all that it gets, and keeps it; how much that was */

static void take_as_first(void)
{
	stage->number[FIRST] = take();
	WANT(stage->number[FIRST] > 0);
	attack_done();
	hold();
}

static void take_as_second(void)
{
	unsigned got = take();

	stage->number[SECOND] = got;
	atomic_store(&stage->number[2], 1);
	pause();
}

/* The accomplice comes, and then somebody who has nothing yet. */
static bool a_third_works(void)
{
	pid_t pid = arena_fork(ACCOMPLICE, take_as_second);
	bool good = SOON(atomic_load(&stage->number[2])) && newcomer_works(BYSTANDER) && newcomer_works(BYSTANDER);

	printf("# the first user has got %llu, the second %llu\n", (unsigned long long)stage->number[FIRST],
	       (unsigned long long)stage->number[SECOND]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return good && stage->number[SECOND] > 0 && stage->number[SECOND] <= stage->number[FIRST];
}

static void nothing_taken(void)
{
	atomic_store(&stage->number[2], 0);
}

/* ---- the board ---- */

static unsigned take_words(void)
{
	static struct speaker s;
	unsigned made = 0;
	int error = 0;

	join(&s);
	for (; !error; made += !error) {
		char name[NAME_SIZE];

		snprintf(name, sizeof name, "taken/%d/%u", getpid(), made);
		error = speaker_create(&s, name, 1, 0600, 0);
	}
	WANT(error == -EDQUOT && made <= WORDS / 2);
	return made;
}

static void fill_words(void)
{
	take = take_words;
	take_as_first();
}

static bool words_are_left(void)
{
	take = take_words;
	return a_third_works();
}

/* Each time that a ticket is redeemed is another mapping, and another place. */
static unsigned take_places(void)
{
	static const struct wire_issue terms = { .rights = GPUB_READ, .uid = TICKET_ANY_USER };
	static struct speaker s;
	struct wire_grant grant;
	struct ticket ticket;
	unsigned got = 0;
	char name[NAME_SIZE];
	int error = 0;

	join(&s);
	snprintf(name, sizeof name, "taken/%d", getpid());
	WANT(!speaker_create(&s, name, 4096, 0600, 0));
	WANT(!speaker_issue(&s, name, &terms, &ticket));
	for (; !error; got += !error)
		error = speaker_redeem(&s, &ticket, &grant);
	WANT(error == -EDQUOT && got <= HANDLES / 2);
	return got;
}

static void fill_places(void)
{
	take = take_places;
	take_as_first();
}

static bool handles_are_left(void)
{
	take = take_places;
	return a_third_works();
}

/* ---- descriptors ---- */

/* Sessions first, then timelines, of which each costs the broker more. */
static unsigned take_descriptors(void)
{
	static struct speaker s[SESSIONS];
	unsigned joined = 0, made = 0;
	int error = 0;

	while (joined < SESSIONS && !error) {
		error = speaker_greet(&s[joined]);
		joined += !error;
	}
	WANT(error == -EDQUOT && joined > 1);
	/* the room that one leaves is for timelines */
	speaker_end(&s[--joined]);
	for (error = 0; !error && made < FILES; made += !error) {
		char name[NAME_SIZE];

		snprintf(name, sizeof name, "taken/%d/%u", getpid(), made);
		error = speaker_create(&s[0], name, 64, 0600, GPUB_TIMELINE);
	}
	WANT(error == -EDQUOT);
	return joined + made;
}

static void fill_descriptors(void)
{
	take = take_descriptors;
	take_as_first();
}

static bool descriptors_are_left(void)
{
	take = take_descriptors;
	return a_third_works() && charged(ATTACKER, "descriptors") <= FILES / 2;
}

/* ---- what waits to be read ---- */

enum said { SAID_MORE, SAID_ALL, WAS_CUT };

/*
 * A few at a time, when the broker has read the last ones: what is under way when the first session is cut off would
 * cut off others, whose answers then leave.
 */
static enum said say_more(const struct speaker *s, unsigned *said)
{
	struct wire_message stat = speaker_message(WIRE_STAT, "no");
	struct pollfd p = { .fd = s->sock, .events = POLLRDHUP };
	int unread = 0;

	if (poll(&p, 1, 0) == 1)
		return WAS_CUT;
	ioctl(s->sock, SIOCOUTQ, &unread);
	for (unsigned i = 0; i < AT_ONCE && *said < UNREAD && !unread; i++)
		*said += !speaker_send(s, &stat, sizeof stat, MSG_DONTWAIT);
	return *said < UNREAD ? SAID_MORE : SAID_ALL;
}

/* As many sessions as it gets ask for as much as they can until one is cut off, and none reads. */
static void never_read_with_many(void)
{
	static struct speaker s[SESSIONS];
	static unsigned said[SESSIONS];
	unsigned joined = 0;
	enum said most = SAID_MORE;

	while (joined < SESSIONS / 4 && !speaker_greet(&s[joined]))
		joined++;
	WANT(joined > 8);
	for (unsigned beat = 0; most == SAID_MORE && beat < 20000; beat++) {
		most = SAID_ALL;
		for (unsigned i = 0; i < joined && most != WAS_CUT; i++) {
			enum said now = say_more(&s[i], &said[i]);

			most = now == SAID_ALL ? most : now;
		}
		poll(NULL, 0, 1);
	}
	stage->number[FIRST] = joined;
	attack_done();
	hold();
}

/* Without the bound by user it would be what is a session's bound, for each of them. */
static bool what_waits_is_bounded(void)
{
	int64_t queued = charged(ATTACKER, "queued");

	printf("# %llu sessions leave %lld bytes unread, and %lld are cut off\n",
	       (unsigned long long)stage->number[FIRST], (long long)queued, (long long)counted("sessions_cut"));
	return queued > QUEUED / 4 && queued <= QUEUED && SOON(counted("sessions_cut") > 0) &&
	       newcomer_works(BYSTANDER);
}

static const struct attack shares[] = {
	{ "fills the board's words with another user", "invariant 5: a third user works", .prepare = nothing_taken,
	  .run = fill_words, .during = words_are_left, .flags = NEEDS_USERS },
	{ "fills the board's places with another user", "invariant 5: a third user works", .prepare = nothing_taken,
	  .run = fill_places, .during = handles_are_left, .flags = NEEDS_USERS },
	{ "takes all descriptors with another user", "invariant 5: a third user works", .prepare = nothing_taken,
	  .run = fill_descriptors, .during = descriptors_are_left, .flags = NEEDS_USERS },
	{ "never reads, with many sessions", "invariant 5: all of them together may leave so much unread",
	  .run = never_read_with_many, .during = what_waits_is_bounded, .flags = NEEDS_USERS },
	{ 0 },
};

int main(void)
{
	arena_files = FILES;
	arena_config = "board { buffers = 120 mappings = 120 }\nquota \"default\" { queued = \"2M\" }";
	arena_begin("shares", 200);
	for (const struct attack *attack = shares; attack->name; attack++)
		arena_attack(attack);
	return arena_end();
}
