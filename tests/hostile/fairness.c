/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fairness.c - how long the victim waits for a grant while others ask for as much as they can: a table.
 *
 * Judged by factors within one run: connections and greetings keep the victim waiting little longer than floods of
 * requests do, and under each load newcomers come in. What the latency must never exceed is hostile.c's.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "common/socket.h"
#include "flood.h"
#include "arena.h"

#define LOAD_MS 3000
#define FACTOR  4 /* of the middle round trip; it was 6 to 12 where connections were outside of the fair queue */

static void flood_one(void)
{
	flood(1, 1, 60000);
}

static void flood_64(void)
{
	flood(64, 1, 60000);
}

static void flood_packed(void)
{
	flood(64, SOCKET_PACKET_MAX, 60000);
}

static void connections(void)
{
	flood_connections(60000);
}

static void greetings(void)
{
	flood_greetings(60000);
}

enum load { NONE, REQUESTS, REQUESTS_64, PACKED, CONNECTIONS, GREETINGS, OWN, LOADS };

static const struct {
	const char *name;
	enum user   user;
	void (*run)(void);
} loads[LOADS] = { [NONE] = { "no load", ATTACKER, NULL },
		   [REQUESTS] = { "1 flooding session of another user", ATTACKER, flood_one },
		   [REQUESTS_64] = { "64 flooding sessions of another user", ATTACKER, flood_64 },
		   [PACKED] = { "64 of another user, in packets", ATTACKER, flood_packed },
		   [CONNECTIONS] = { "connections of another user", ATTACKER, connections },
		   [GREETINGS] = { "greetings of another user", ATTACKER, greetings },
		   [OWN] = { "64 flooding sessions of the same user", VICTIM, flood_64 } };

static uint32_t middle[LOADS]; /* us */

static void measure(unsigned load)
{
	pid_t pid = loads[load].run ? arena_fork(loads[load].user, loads[load].run) : 0;
	int64_t opened, refused;
	uint32_t p50, p99, worst;
	unsigned count;

	usleep(300000);
	opened = status_counter(&arena_broker, "sessions_opened");
	refused = status_counter(&arena_broker, "sessions_refused");
	arena_measure();
	usleep(LOAD_MS * 1000);
	p50 = middle[load] = arena_measured(500, &count);
	p99 = arena_measured(990, &count);
	worst = arena_measured(1000, &count);
	printf("# %-40s %7u %9u %9u %9u %9lld %9lld\n", loads[load].name, count, p50, p99, worst,
	       (long long)(status_counter(&arena_broker, "sessions_opened") - opened),
	       (long long)(status_counter(&arena_broker, "sessions_refused") - refused));
	if (arena_has_users())
		POINT(newcomer_works(BYSTANDER), "a newcomer comes in: %s", loads[load].name);
	else
		point_skip("a newcomer comes in: %s: needs several users, so root", loads[load].name);
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	arena_measure();
	POINT(count > 0, "the victim gets grants: %s", loads[load].name);
}

/* The processors are busy with the load as well: what floods of requests cost is the measure. */
static uint32_t usual(void)
{
	uint32_t most = 0;

	for (unsigned load = NONE; load <= PACKED; load++)
		most = middle[load] > most ? middle[load] : most;
	return most;
}

static void judge(unsigned load)
{
	if (arena_has_users())
		POINT(middle[load] <= FACTOR * usual(),
		      "invariant 5: %s: no more than %d times what a user's requests cost the victim", loads[load].name,
		      FACTOR);
	else
		point_skip("%s: needs several users, so root", loads[load].name);
}

int main(void)
{
	arena_begin("fairness", 120);
	printf("# %-40s %7s %9s %9s %9s %9s %9s\n", "load", "grants", "p50 us", "p99 us", "worst us", "sessions",
	       "refused");
	for (unsigned load = 0; load < LOADS; load++)
		measure(load);
	judge(CONNECTIONS);
	judge(GREETINGS);
	return arena_end();
}
