/* SPDX-License-Identifier: Apache-2.0 */
/*
 * floods.c - attacks by number: requests, connections, sessions, waits, grants, notices, buffers, tickets.
 *
 * Each is as much as one user can do. The others' latency is what all of them are judged by (arena.h).
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "attacks.h"
#include "common/socket.h"
#include "flood.h"

#define FLOOD_MS 3000

/* ---- requests ---- */

static void flood_with_one(void)
{
	flood(1, 1, FLOOD_MS);
}

static void flood_in_packets(void)
{
	flood(4, SOCKET_PACKET_MAX, FLOOD_MS);
}

static void flood_with_many(void)
{
	flood(250, 1, FLOOD_MS);
}

/* Asks for more than it ever reads; it is no longer read then, and keeps what it has. */
static void never_read(void)
{
	struct wire_message stat = speaker_message(WIRE_STAT, "no");
	struct wire_grant grant;
	struct speaker s;
	struct pollfd p;

	join(&s);
	WANT(!speaker_acquire(&s, SHOWN, GPUB_READ, &grant));
	p = (struct pollfd){ .fd = s.sock, .events = POLLOUT };
	/* until it is no longer read, and far from for ever */
	for (int i = 0; i < 50000; i++)
		if (speaker_send(&s, &stat, sizeof stat, MSG_DONTWAIT) && poll(&p, 1, 500) != 1)
			break;
	attack_done();
	hold();
	speaker_end(&s);
}

static bool it_is_cut(void)
{
	return SOON(counted("sessions_cut") == 1) && newcomer_works(BYSTANDER);
}

/* What a child goes on sending with its socket: nothing is answered to it. */
static void flood_on(const struct speaker *s)
{
	struct wire_message closed = speaker_message(WIRE_CLOSED, "");
	uint64_t end = now_us() + FLOOD_MS * 1000ull;
	struct pollfd p = { .fd = s->sock, .events = POLLOUT };

	while (now_us() < end)
		if (speaker_send(s, &closed, sizeof closed, MSG_DONTWAIT))
			poll(&p, 1, 20);
	_exit(0);
}

/* With a full socket, and a request that waits; its children have the socket, and keep it full. */
static void die_in_a_flood(void)
{
	struct wire_message wait = speaker_message(WIRE_ACQUIRE, "attacker/never-made"),
			    closed = speaker_message(WIRE_CLOSED, "");
	struct speaker s;

	join(&s);
	wait.acquire.timeout_ms = -1;
	WANT(!speaker_say(&s, &wait));
	want_served(&s);
	for (int i = 0; i < 4; i++)
		if (!fork())
			flood_on(&s);
	while (!speaker_send(&s, &closed, sizeof closed, MSG_DONTWAIT))
		;
	raise(SIGKILL);
}

static void leave_a_flood(void)
{
	int status, over[2];
	pid_t pid;

	WANT(!pipe2(over, O_CLOEXEC));
	pid = fork();
	if (!pid)
		die_in_a_flood();
	close(over[1]);
	WANT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	hold();
	/* the end of the flooding processes */
	WANT(!read(over[0], &status, 1));
	attack_done();
}

static bool the_dead_is_cut(void)
{
	bool cut = SOON(counted("sessions_cut") == 1 && !status_number(&arena_broker, "waiting"));

	return cut && newcomer_works(BYSTANDER);
}

/* ---- connections and sessions ---- */

#define CONNECTIONS 10000

static int socks[CONNECTIONS];

static void hang_up_all(int count)
{
	for (int i = 0; i < count; i++)
		if (socks[i] >= 0)
			close(socks[i]);
}

/* None of them greets. */
static void connect_ten_thousand(void)
{
	struct speaker s;
	int count;

	for (count = 0; count < CONNECTIONS && !speaker_dial(&s); count++)
		socks[count] = s.sock;
	stage->number[0] = (uint64_t)count;
	WANT(count > 500);
	attack_done();
	hold();
	hang_up_all(count);
}

static bool others_come_in(void)
{
	bool refused = SOON(counted("sessions_refused") >= (int64_t)stage->number[0] - ARENA_GREETINGS);

	printf("# connections that do not greet: %llu\n", (unsigned long long)stage->number[0]);
	return refused && (!arena_has_users() || newcomer_works(BYSTANDER));
}

static void open_sessions(void)
{
	static struct speaker s[ARENA_SESSIONS + 44];
	int count = 0, refused = 0;

	for (int i = 0; i < ARENA_SESSIONS + 44; i++) {
		int error = speaker_greet(&s[i]);

		WANT(!error || error == -EDQUOT);
		count += !error;
		refused += error != 0;
	}
	/* where all are one user, the victim has one, too */
	WANT(count == ARENA_SESSIONS - !arena_has_users() && refused == 44 + !arena_has_users());
	attack_done();
	hold();
	for (int i = 0; i < count; i++)
		speaker_end(&s[i]);
}

static bool others_get_a_session(void)
{
	return !arena_has_users() || newcomer_works(BYSTANDER);
}

static void come_and_go(void)
{
	for (int i = 0; i < 3000; i++) {
		struct speaker s;

		if (i % 3)
			WANT(!speaker_dial(&s));
		else
			join(&s);
		speaker_end(&s);
	}
}

/* ---- waits ---- */

#define WAITERS 1000
#define WAITS   1100 /* each; a session may have 1024 */

static void wait_for_name(const struct speaker *s, const char *name)
{
	struct wire_message message = speaker_message(WIRE_ACQUIRE, name);

	message.acquire.timeout_ms = -1;
	message.request = 1;
	for (int i = 0; i < WAITS; i++) {
		WANT(!speaker_say(s, &message));
		WANT(!drain(s));
	}
}

/* A million acquires for one name, of nearly all sessions that a user may have; then it is there. */
static void wake_a_million(void)
{
	static struct speaker s[WAITERS];
	struct speaker maker;

	for (int i = 0; i < WAITERS; i++) {
		join(&s[i]);
		wait_for_name(&s[i], "attacker/awaited");
	}
	join(&maker);
	WANT(!speaker_create(&maker, "attacker/awaited", 4096, 0600, 0));
	want_served(&maker);
	WANT(!speaker_named(&maker, WIRE_UNLINK, "attacker/awaited"));
	for (int i = 0; i < WAITERS; i++)
		speaker_end(&s[i]);
	speaker_end(&maker);
}

/* ---- grants, notices, buffers, tickets: up to the quota ---- */

/* Of its own buffer, by a ticket: each time it is redeemed that is another grant, in a mapping of its own. */
static int take_grants(struct speaker *s, const char *name, int wanted)
{
	static const struct wire_issue terms = { .rights = GPUB_READ, .uid = TICKET_ANY_USER };
	struct wire_grant grant;
	struct ticket ticket;
	int count = 0, error = 0;

	WANT(!speaker_issue(s, name, &terms, &ticket));
	for (; count < wanted && !error; count += !error)
		error = speaker_redeem(s, &ticket, &grant);
	WANT(!error || error == -EDQUOT);
	return count;
}

static void take_all_grants(void)
{
	struct speaker s;
	int count;

	join(&s);
	WANT(!speaker_create(&s, "attacker/granted", 4096, 0600, 0));
	count = take_grants(&s, "attacker/granted", ARENA_GRANTS + 10);
	WANT(count <= ARENA_GRANTS && count >= ARENA_GRANTS - 2);
	/* each of them gets its notice, none is read */
	WANT(!speaker_named(&s, WIRE_UNLINK, "attacker/granted"));
	attack_done();
	hold();
	speaker_end(&s);
}

/* Each gets its notice, and none is read: no reason to cut it off, and no burden to others. */
static void never_read_notices(void)
{
	struct speaker s, owner;

	join(&s);
	join(&owner);
	WANT(!speaker_create(&owner, "attacker/noticed", 4096, 0600, 0));
	WANT(take_grants(&s, "attacker/noticed", 3000) == 3000);
	WANT(!speaker_named(&owner, WIRE_UNLINK, "attacker/noticed"));
	want_served(&owner);
	want_served(&s);
	speaker_end(&s);
	speaker_end(&owner);
}

/*
 * Grants of another user's buffer, of many sessions, which send CLOSED: each grant is then under an orphaned mapping.
 */
static void hold_for_many(void)
{
	static struct speaker s[64];
	struct wire_grant grant;

	for (int i = 0; i < 64; i++) {
		join(&s[i]);
		for (int j = 0; j < 40; j++) {
			WANT(!speaker_acquire(&s[i], GIVEN, BOTH, &grant));
			WANT(!speaker_closed(&s[i], grant.mapping));
		}
	}
	want_served(&s[63]);
	for (int i = 0; i < 64; i++)
		speaker_end(&s[i]);
}

static void fill_memory(void)
{
	struct wire_message message = speaker_message(WIRE_CREATE, ""), answer;
	int made = 0, error = 0;
	struct speaker s;

	join(&s);
	for (int i = 0; i < 400 && !error; i++) {
		char name[32];

		snprintf(name, sizeof name, "attacker/fill/%d", i);
		error = speaker_create(&s, name, 1 << 20, 0600, 0);
		made += !error;
	}
	WANT(error == -EDQUOT && made <= (int)(ARENA_QUOTA >> 20));
	/* a place in the queue does not get it more */
	strcpy(message.create.name, "attacker/fill/more");
	message.create.size = 8 << 20;
	message.create.timeout_ms = -1;
	for (int i = 0; i < 500; i++)
		WANT(speaker_ask(&s, &message, &answer, NULL) == -EDQUOT);
	attack_done();
	hold();
	speaker_end(&s);
}

static bool others_get_memory(void)
{
	return newcomer_works(BYSTANDER) && newcomer_works(VICTIM);
}

static void fill_names(void)
{
	int made = 0, error = 0;
	struct speaker s;

	join(&s);
	for (int i = 0; i < ARENA_BUFFERS + 10 && !error; i++) {
		char name[NAME_SIZE];

		snprintf(name, sizeof name, "attacker/%080d", i);
		error = speaker_create(&s, name, 1, 0600, i % 2 ? GPUB_EPHEMERAL : 0);
		made += !error;
	}
	WANT(error == -EDQUOT && made <= ARENA_BUFFERS && made > ARENA_BUFFERS - 8);
	speaker_end(&s);
}

static void issue_tickets(void)
{
	static const struct wire_issue once = { .rights = GPUB_READ, .uid = TICKET_ANY_USER, .once = 1 },
				       many = { .rights = GPUB_READ, .uid = TICKET_ANY_USER };
	struct ticket ticket;
	struct speaker s;
	int made = 0;

	join(&s);
	WANT(!speaker_create(&s, "attacker/issued", 4096, 0600, 0));
	while (!speaker_issue(&s, "attacker/issued", &once, &ticket))
		made++;
	WANT(made == ARENA_TICKETS);
	for (int i = 0; i < 2000; i++)
		WANT(!speaker_issue(&s, "attacker/issued", &many, &ticket));
	speaker_end(&s);
}

const struct attack floods[] = {
	{ "floods", "invariant 5: the victim is served", .run = flood_with_one, .flags = TAKES_SECONDS },
	{ "floods in packets", "invariant 5: the victim is served", .run = flood_in_packets, .flags = TAKES_SECONDS },
	{ "floods with 250 sessions", "invariant 5: the victim is served", .run = flood_with_many,
	  .flags = TAKES_SECONDS },
	{ "never reads", "invariant 5: it is cut off", .run = never_read, .during = it_is_cut },
	{ "dies in a flood", "invariant 9: its children have its socket, and neither its session nor others' time",
	  .run = leave_a_flood, .during = the_dead_is_cut, .flags = TAKES_SECONDS },
	{ "connects ten thousand times",
	  "invariant 5: of connections that do not greet a user has few, and others come in",
	  .run = connect_ten_thousand, .during = others_come_in },
	{ "opens sessions", "no more than its quota, and others come in", .run = open_sessions,
	  .during = others_get_a_session },
	{ "comes and goes", "three thousand connections are nothing", .run = come_and_go },
	{ "waits a million times", "invariant 5: that they are all answered at once keeps nobody waiting",
	  .run = wake_a_million, .flags = NEEDS_USERS },
	{ "takes grants", "no more than its quota", .run = take_all_grants, .during = others_get_a_session,
	  .flags = NEEDS_USERS },
	{ "never reads notices", "one a grant is not too many", .run = never_read_notices },
	{ "has many orphaned mappings", "invariant 10: they end with their processes", .prepare = make_given,
	  .run = hold_for_many, .flags = NEEDS_USERS },
	{ "fills the device", "no more than its quota, and others get memory", .run = fill_memory,
	  .during = others_get_memory, .flags = NEEDS_USERS },
	{ "makes a thousand buffers", "no more than its quota", .run = fill_names, .flags = NEEDS_USERS },
	{ "issues tickets", "of those that are good once no more than its quota", .run = issue_tickets },
	{ 0 },
};
