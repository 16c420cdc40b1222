/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshots.c - attacks with SNAPSHOT, whose answer is long and for which the broker looks at everything: asked for
 * without end, not read, hung up on in the middle; and what it must never tell of others.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attacks.h"
#include "common/socket.h"

#define FLOOD_MS 3000
#define SESSIONS 32
#define BUFFERS  1000 /* of its own, so that an answer is longer than a socket */

static struct speaker s[SESSIONS];

static void make_buffers(void)
{
	char name[40];

	for (int i = 0; i < BUFFERS; i++) {
		snprintf(name, sizeof name, "attacker/view-%d", i);
		WANT(!speaker_create(&s[0], name, 256, 0600, 0));
	}
}

static void join_all(void)
{
	for (int i = 0; i < SESSIONS; i++)
		join(&s[i]);
	make_buffers();
}

static void end_all(void)
{
	for (int i = 0; i < SESSIONS; i++)
		speaker_end(&s[i]);
}

static void ask_once(const struct speaker *speaker)
{
	struct wire_message message;

	wire_init(&message, WIRE_SNAPSHOT, 1);
	speaker_send(speaker, &message, sizeof message, MSG_DONTWAIT);
}

/* Whether the bytes hold a name of the victim's, of the whole of which this one is told nothing. */
static bool tells(const void *bytes, size_t length)
{
	static const char *const secrets[] = { SECRET, SECRET_2, SHOWN, GIVEN };
	bool found = false;

	for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
		found |= memmem(bytes, length, secrets[i], strlen(secrets[i])) != NULL;
	return found;
}

/* Reads what is there. Returns how many views came to their end. */
static unsigned read_views(const struct speaker *speaker)
{
	struct wire_message packet[SOCKET_PACKET_MAX];
	unsigned views = 0;
	ssize_t got;

	while ((got = recv(speaker->sock, packet, sizeof packet, MSG_DONTWAIT)) > 0) {
		WANT(!arena_has_users() || !tells(packet, (size_t)got));
		for (size_t i = 0; i < (size_t)got / WIRE_SIZE; i++)
			views += packet[i].type == WIRE_VIEW;
	}
	WANT(got < 0);
	return views;
}

/* As many as there may be unanswered, in each session. */
static void ask_without_end(void)
{
	uint64_t end;
	unsigned views = 0;

	join_all();
	end = now_us() + FLOOD_MS * 1000ull;
	while (now_us() < end)
		for (int i = 0; i < SESSIONS; i++) {
			ask_once(&s[i]);
			views += read_views(&s[i]);
		}
	WANT(views);
	end_all();
}

static void never_read_a_view(void)
{
	join_all();
	for (int i = 0; i < SESSIONS; i++)
		for (int j = 0; j < 16; j++)
			ask_once(&s[i]);
	hold();
	end_all();
}

#define REMEMBERED 4096 /* bytes that a view under way may take in the broker, of which this broker has few slots */

/* What is not read waits nowhere; what the broker remembers of each view is little, and charged. */
static bool none_is_cut(void)
{
	return newcomer_works(BYSTANDER) && !counted("sessions_cut") &&
	       charged(ATTACKER, "queued") <= SESSIONS * REMEMBERED;
}

static void hang_up_in_the_middle(void)
{
	uint64_t end;

	join(&s[0]);
	make_buffers();
	end = now_us() + FLOOD_MS * 1000ull;
	while (now_us() < end) {
		join(&s[1]);
		ask_once(&s[1]);
		speaker_end(&s[1]);
	}
	join(&s[1]);
	for (int i = 0; i < 16; i++)
		ask_once(&s[1]);
	raise(SIGKILL);
}

static void die_in_the_middle(void)
{
	attack_done();
	hang_up_in_the_middle();
}

const struct attack snapshots[] = {
	{ "asks for snapshots without end", "invariant 5: the victim is served, and none of its names told",
	  .run = ask_without_end, .flags = TAKES_SECONDS },
	{ "reads none of its snapshots", "invariant 5: no message waits in the broker", .run = never_read_a_view,
	  .during = none_is_cut },
	{ "hangs up in the middle of snapshots, and dies in one", "invariant 10: nothing is left of them",
	  .run = die_in_the_middle, .flags = TAKES_SECONDS },
	{ 0 }
};
