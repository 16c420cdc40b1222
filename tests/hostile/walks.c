/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walks.c - attacks by what lies in the broker's tables: as much as one user may have, and then requests that look
 * something up in there.
 *
 * Judged by factors: how long the victim waits, and how long the broker works for a request, beside eight senders when
 * the tables are full, against the same senders with the same requests when they are empty, alternating in one run. So
 * nothing depends on how fast the machine is; and on one so busy that the senders rarely run, the second still tells.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "attacks.h"
#include "common/socket.h"
#include "flood.h"

#define CROWD     "attacker/crowd"
#define SENDERS   8
#define HOLDERS   2
#define ROUNDS    3
#define FACTOR    3
#define FLOOD_MS  900
#define BEGIN_MS  100 /* of a flood: then it is measured, for: */
#define LOOK_MS   600

/*
 * What the program wants next, and what the attacker is at: it sends, or has sent and waits until the program has
 * looked.
 */
enum phase { NOTHING, EMPTY, FULL, SENT, LOOKED, END };
#define WANTED   0
#define AT       1
#define ANSWERED 2 /* how many requests */

/* ---- the attacker ---- */

static struct speaker maker, holders[HOLDERS], waiters[HOLDERS];

static struct wire_message redeem_of(const struct ticket *ticket)
{
	struct wire_message message;

	wire_init(&message, WIRE_REDEEM, 0);
	message.redeem.ticket = *ticket;
	return message;
}

static void issue(bool once, uint64_t lifetime_ms, struct ticket *ticket)
{
	struct wire_issue terms = {
		.rights = GPUB_READ, .uid = TICKET_ANY_USER, .once = once, .lifetime_ms = lifetime_ms
	};

	WANT(!speaker_issue(&maker, CROWD, &terms, ticket));
}

/* Mappings, grants of one buffer, tickets that are good once, names, waits. */
static void fill(void)
{
	struct wire_message wait = speaker_message(WIRE_ACQUIRE, "attacker/never-made");
	struct wire_grant grant;
	struct ticket ticket;
	char name[32];

	issue(false, 0, &ticket);
	for (unsigned i = 0; i < HOLDERS; i++) {
		join(&holders[i]);
		for (unsigned j = 0; j < (ARENA_GRANTS - 100) / HOLDERS; j++)
			WANT(!speaker_redeem(&holders[i], &ticket, &grant));
	}
	for (unsigned i = 0; i < ARENA_TICKETS - 10; i++)
		issue(true, i % 2 ? 600000 + i : 0, &ticket);
	for (unsigned i = 0; i < ARENA_BUFFERS - 100; i++) {
		snprintf(name, sizeof name, "attacker/%u", i);
		WANT(!speaker_create(&maker, name, 1, 0600, GPUB_EPHEMERAL));
	}
	wait.acquire.timeout_ms = -1;
	for (unsigned i = 0; i < HOLDERS; i++) {
		join(&waiters[i]);
		for (unsigned j = 0; j < 1000; j++)
			WANT(!speaker_say(&waiters[i], &wait));
		want_served(&waiters[i]);
	}
}

/* The senders come last, and so stand behind all others in every list. */
static void send_requests(void)
{
	struct wire_message packet[SOCKET_PACKET_MAX], redeem;
	struct wire_grant grant;
	struct ticket ticket;

	issue(true, 0, &ticket);
	redeem = redeem_of(&ticket);
	WANT(!speaker_redeem(&maker, &ticket, &grant));
	for (unsigned i = 0; i < SOCKET_PACKET_MAX; i++)
		packet[i] = i % 4 == 1 ? speaker_message(WIRE_ISSUE, CROWD) : i % 4 == 3 ? redeem :
			    speaker_message(WIRE_ACQUIRE, CROWD);
	atomic_store(&stage->number[ANSWERED], flood_with(SENDERS, packet, SOCKET_PACKET_MAX, FLOOD_MS));
}

static enum phase wanted(void)
{
	return (enum phase)atomic_load(&stage->number[WANTED]);
}

_Noreturn static void attack_phase(enum phase phase)
{
	join(&maker);
	/* the last one may be on its way */
	WANT(SOON(!speaker_create(&maker, CROWD, 4096, 0600, GPUB_EPHEMERAL | GPUB_DEDICATED)));
	if (phase == FULL)
		fill();
	atomic_store(&stage->number[AT], phase);
	send_requests();
	atomic_store(&stage->number[AT], SENT);
	while (wanted() != LOOKED)
		usleep(2000);
	_exit(0);
}

/* In a process that ends, and all that it has with it. */
static void attack_in_child(enum phase phase)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		attack_phase(phase);
	WANT(waitpid(pid, &status, 0) == pid && !status);
	atomic_store(&stage->number[WANTED], NOTHING);
	atomic_store(&stage->number[AT], NOTHING);
}

static void fill_tables(void)
{
	atomic_store(&stage->number[AT], NOTHING);
	atomic_store(&stage->number[WANTED], NOTHING);
	atomic_store(&stage->ready, true);
	while (wanted() != END) {
		enum phase phase = wanted();

		if (phase == EMPTY || phase == FULL)
			attack_in_child(phase);
		else
			usleep(2000);
	}
}

/* ---- the program ---- */

static bool is_at(enum phase phase)
{
	return atomic_load(&stage->number[AT]) == (uint64_t)phase;
}

/* What the broker has worked, in ns. */
static uint64_t broker_worked(void)
{
	struct timespec worked = { 0 };
	clockid_t clock;

	if (!clock_getcpuclockid(arena_broker.pid, &clock))
		clock_gettime(clock, &worked);
	return (uint64_t)worked.tv_sec * 1000000000 + (uint64_t)worked.tv_nsec;
}

/* The best of some rounds: a busy machine makes one slower and none faster. */
struct seen {
	uint32_t median_us;  /* the victim's */
	uint64_t request_ns; /* the broker's */
};

static void keep_best(struct seen *best, const struct seen *seen)
{
	if (!best->median_us || seen->median_us < best->median_us)
		best->median_us = seen->median_us;
	if (!best->request_ns || seen->request_ns < best->request_ns)
		best->request_ns = seen->request_ns;
}

/* False: the attacker did not come that far. */
static bool look_beside(enum phase phase, struct seen *best)
{
	struct seen seen;
	uint64_t worked;
	unsigned count;
	bool sent;

	atomic_store(&stage->number[WANTED], phase);
	if (!SOON(is_at(phase)))
		return false;
	worked = broker_worked();
	usleep(BEGIN_MS * 1000);
	arena_measure();
	usleep(LOOK_MS * 1000);
	seen.median_us = arena_measured(500, &count);
	if (!count)
		seen.median_us = LOOK_MS * 1000; /* not one grant in all that time */
	arena_measure();
	sent = SOON(is_at(SENT)) && atomic_load(&stage->number[ANSWERED]);
	if (sent)
		seen.request_ns = (broker_worked() - worked) / atomic_load(&stage->number[ANSWERED]);
	atomic_store(&stage->number[WANTED], LOOKED);
	if (!sent || !SOON(is_at(NOTHING)))
		return false;
	keep_best(best, &seen);
	return true;
}

static bool full_is_as_empty(void)
{
	struct seen empty = { 0 }, full = { 0 };
	bool looked = true;

	for (int i = 0; i < ROUNDS && looked; i++)
		looked = look_beside(EMPTY, &empty) && look_beside(FULL, &full);
	atomic_store(&stage->number[WANTED], END);
	printf("# beside %u senders: the victim's grants p50 %u us with empty tables, %u us with full ones; "
	       "the broker works %llu ns a request, %llu ns\n",
	       SENDERS, empty.median_us, full.median_us, (unsigned long long)empty.request_ns,
	       (unsigned long long)full.request_ns);
	return looked && full.median_us <= FACTOR * empty.median_us && full.request_ns <= FACTOR * empty.request_ns;
}

const struct attack walks[] = {
	{ "fills all tables",
	  "invariant 5: requests that look something up take the victim no longer than with empty ones",
	  .run = fill_tables, .during = full_is_as_empty, .flags = NEEDS_USERS | TAKES_SECONDS },
	{ 0 },
};
