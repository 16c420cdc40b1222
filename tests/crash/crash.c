/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash.c - a client that dies, stops or ends anywhere: the accounting balances, and the next client gets zeroed
 * memory.
 *
 * Each scenario is played once undisturbed, which shows what crash points (crash-point.h) it passes, in the library and
 * in the broker. Then it is played once for each of these points and each of kill, stop and exit, the first passing
 * doing it; then CRASH_ROUNDS times with scenario, point, passing and action at random (CRASH_SEED repeats that). The
 * scenarios are dealt to a few lanes (lanes.h), each with one broker that serves all its plays. After each, when
 * nothing of the victim is left, the accounting must be empty but for the other client, which then takes all of the
 * device's memory and must find it zeroed. A point that no scenario passes is a failure, and so is
 * one at which no victim could be caught. While one is stopped, the other must be served as ever.
 *
 *   tests/crash/crash [SCENARIO [POINT]]    only that, for a look at a failure
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "balance.h"
#include "common/crash-point.h"
#include "lanes.h"
#include "scenarios.h"

#ifndef CRASH_POINTS_ENABLED

int main(void)
{
	printf("1..0 # SKIP configure with --enable-crash-points\n");
	return 0;
}

#else

#define SECONDS     290
#define LANES       4
#define ROUNDS      1000

/* For a point that only some plays of a scenario pass, by side. The broker's may come when the victim is gone. */
static const int tries_for[] = { 5, 2, 1 };

#define PASSES_MAX  20  /* the later passings are like the earlier ones */

enum action { KILL, STOP, EXIT, STOP_AND_GO_ON, ACTIONS };

#define FOR_EACH_POINT 3 /* actions that each point gets; the last comes at random */

static const char *const action_names[ACTIONS] = { "kill", "stop", "exit", "stop and go on" };
static const char *const action_words[ACTIONS] = { "kill", "stop", "exit", "stop" };

enum side { LIBRARY, BROKER, LOOP };

static const struct {
	enum side   side;
	const char *name;
} points[CRASH_POINT_COUNT] = {
#define POINT_ROW(side, name, text) [CRASH_##name] = { side, #name },
	CRASH_POINTS(POINT_ROW)
#undef POINT_ROW
};

/* How often each scenario passes each point, undisturbed. */
static unsigned passes[SCENARIOS][CRASH_POINT_COUNT];
static bool *caught_at; /* by point, shared by the lanes */
static const char *only_scenario, *only_point;

static char visited[80], orders[80], orders_next[88];

/* ---- telling the broker where ---- */

/* The broker may read it at any moment: it finds the old order or the new one. */
static void broker_order(const char *text)
{
	int fd = open(orders_next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) < 0 || close(fd) || rename(orders_next, orders))
		bail_out("%s cannot be written: %s", orders, strerror(errno));
}

static void files_remove(void)
{
	unlink(visited);
	unlink(orders);
	*strrchr(visited, '/') = 0;
	rmdir(visited);
}

static void files_make(const char *directory)
{
	snprintf(visited, sizeof visited, "%s/visited", directory);
	snprintf(orders, sizeof orders, "%s/orders", directory);
	snprintf(orders_next, sizeof orders_next, "%s.next", orders);
	atexit(files_remove);
	broker_order("");
}

static void visited_clear(void)
{
	int fd = open(visited, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || close(fd))
		bail_out("%s cannot be made: %s", visited, strerror(errno));
}

static int point_of(const char *name)
{
	for (int i = 0; i < CRASH_POINT_COUNT; i++)
		if (!strcmp(points[i].name, name))
			return i;
	bail_out("a point '%s' was passed that is in no table", name);
}

/* What all but the other client passed. */
static void visited_count(unsigned count[CRASH_POINT_COUNT])
{
	FILE *file = fopen(visited, "r");
	char name[64];
	int pid;

	if (!file)
		bail_out("%s cannot be read: %s", visited, strerror(errno));
	while (fscanf(file, "%d %63s", &pid, name) == 2)
		if (pid != other.pid)
			count[point_of(name)]++;
	fclose(file);
}

/* ---- one play ---- */

static char play_name[160]; /* for what is printed when something is wrong */

/* A test that fails says where it was. */
static void name_print(void)
{
	if (*play_name)
		printf("# in: %s\n", play_name);
}

/* Reports it and returns false: the rest of the test needs what is wrong. */
static bool all_is_well(void)
{
	const char *wrong = balance_wrong(&broker, &other);

	if (!wrong)
		wrong = memory_wrong(&other);
	if (!wrong && broker_said(&broker, "VIOLATION"))
		wrong = "the host device reports a violation";
	if (wrong)
		printf("# %s: %s\n", play_name, wrong);
	return !wrong;
}

/* The victim is dead, its child has its socket yet: what it held must stay. */
static bool child_holds(const char *point)
{
	pid_t pid = victim.pid;
	bool socket_open = strcmp(point, "fork_child_done") != 0;

	victim_kill(false);
	status_stable(&broker, &other);
	if (!socket_open || status_session(&broker, pid, NULL))
		return true;
	printf("# %s: the session ended while a child had its socket\n", play_name);
	return false;
}

/* What is to be seen while it is stopped; then it dies, or goes on to its end. */
static bool look_while_stopped(const struct scenario *scenario, const char *point, enum action action)
{
	bool good = true;

	other_goes_on();
	if (action == STOP_AND_GO_ON) {
		if (scenario->relief.run)
			other_tries(scenario->relief);
		victim_continue();
		victim_end();
		return victim_fate() == VICTIM_ENDED;
	}
	if (victim_fate() == VICTIM_CHILD_STOPPED)
		good = child_holds(point);
	victim_kill(true);
	return good;
}

/* The scenario up to the victim's end, and what the other finds then. */
static bool play(const struct scenario *scenario, const char *point, enum action action, bool *caught)
{
	bool good = true;

	scenario->play();
	victim_end();
	*caught = victim_was_caught();
	if (victim_fate() == VICTIM_STOPPED || victim_fate() == VICTIM_CHILD_STOPPED)
		good = look_while_stopped(scenario, point, action);
	if (victim_fate() == VICTIM_FAILED)
		good = false;
	broker_order("");
	victim_bury();
	if (scenario->after)
		scenario->after();
	other_lets_go();
	return all_is_well() && good;
}

static bool crash(int scenario, int point, int nth, enum action action, bool *caught)
{
	char order[128];

	snprintf(play_name, sizeof play_name, "%s, %s at %s, passing %d", scenarios[scenario].name,
		 action_names[action], points[point].name, nth);
	snprintf(order, sizeof order, "%s:%d:%s", points[point].name, nth, action_words[action]);
	victim_start(&broker, points[point].side == LIBRARY ? order : NULL, scenarios[scenario].fail);
	if (points[point].side != LIBRARY) {
		snprintf(order + strlen(order), sizeof order - strlen(order), ":%d", victim.pid);
		broker_order(order);
	}
	return play(&scenarios[scenario], points[point].name, action, caught);
}

/* ---- all of them ---- */

static void play_undisturbed(int scenario)
{
	bool caught, good;

	snprintf(play_name, sizeof play_name, "%s, undisturbed", scenarios[scenario].name);
	visited_clear();
	setenv("GPUB_CRASH_VISITED", visited, 1);
	victim_start(&broker, NULL, scenarios[scenario].fail);
	unsetenv("GPUB_CRASH_VISITED");
	good = play(&scenarios[scenario], "", KILL, &caught);
	POINT(good && !caught, "%s: undisturbed", scenarios[scenario].name);
	visited_count(passes[scenario]);
}

/* A point that the plays of a scenario need not pass may have to be tried again. */
static bool crash_somehow(int scenario, int point, enum action action)
{
	bool caught = false, good = true;

	for (int try = 0; good && !caught && try < tries_for[points[point].side]; try++)
		good = crash(scenario, point, 1, action, &caught);
	caught_at[point] |= caught || points[point].side != LIBRARY; /* the client that the broker serves may be gone */
	return good;
}

static void crash_at_each_point(int scenario)
{
	for (int point = 0; point < CRASH_POINT_COUNT; point++) {
		bool good = true;

		if (!passes[scenario][point] || (only_point && strcmp(only_point, points[point].name)))
			continue;
		for (enum action action = 0; good && action < FOR_EACH_POINT; action++)
			good = crash_somehow(scenario, point, action);
		POINT(good, "%s: a client killed, stopped and ended at %s", scenarios[scenario].name,
		      points[point].name);
	}
}

/* Some of each play's points that are passed, and of each point's passings. */
static bool crash_at_random(unsigned lane)
{
	int scenario = (int)((unsigned)random() % SCENARIOS / LANES * LANES + lane), point, nth;
	bool caught;

	if (scenario >= SCENARIOS)
		scenario = (int)lane;
	do
		point = (int)(random() % CRASH_POINT_COUNT);
	while (!passes[scenario][point]);
	nth = 1 + (int)(random() % (passes[scenario][point] < PASSES_MAX ? passes[scenario][point] : PASSES_MAX));
	return crash(scenario, point, nth, (enum action)(random() % ACTIONS), &caught);
}

static unsigned seed;

static unsigned number_of(const char *variable, unsigned otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

static void random_rounds(unsigned lane)
{
	unsigned rounds = number_of("CRASH_ROUNDS", ROUNDS) / LANES, done = 0;

	srandom(seed + lane);
	while (done < rounds && crash_at_random(lane))
		done++;
	POINT(done == rounds, "%u of %u crashes at random (CRASH_SEED=%u repeats them)", done, rounds, seed);
}

/* A point that nobody passed is in no scenario: write one. */
static int points_must_be_reached(unsigned lane)
{
	bool all = true;

	(void)lane;
	for (int point = 0; point < CRASH_POINT_COUNT; point++) {
		if (!caught_at[point])
			printf("# no client was caught at %s\n", points[point].name);
		all &= caught_at[point];
	}
	POINT(all, "each of %d points was reached, and a client caught at it", CRASH_POINT_COUNT);
	return harness_end();
}

static void begin(void)
{
	char directory[] = "/tmp/gpubroker-crash-XXXXXX", order[96];

	harness_begin("crash", SECONDS);
	if (!mkdtemp(directory))
		bail_out("no directory: %s", strerror(errno));
	files_make(directory);
	visited_clear();
	atexit(name_print);
	snprintf(order, sizeof order, "@%s", orders);
	setenv("GPUB_CRASH", order, 1);
	setenv("GPUB_CRASH_VISITED", visited, 1);
	balance_broker(&broker);
	unsetenv("GPUB_CRASH");
	unsetenv("GPUB_CRASH_VISITED");
	victim_prepare();
	other_start();
}

static void end(void)
{
	play_name[0] = 0;
	puppet_end(&other);
	broker_end(&broker);
}

static int play_all(unsigned lane)
{
	begin();
	for (int i = (int)lane; i < SCENARIOS; i += LANES) {
		if (only_scenario && strcmp(only_scenario, scenarios[i].name))
			continue;
		play_undisturbed(i);
		crash_at_each_point(i);
	}
	if (!only_scenario)
		random_rounds(lane);
	end();
	return harness_end();
}

static void *shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		bail_out("no memory: %s", strerror(errno));
	return memory;
}

int main(int argc, char **argv)
{
	int failed;

	only_scenario = argc > 1 ? argv[1] : NULL;
	only_point = argc > 2 ? argv[2] : NULL;
	seed = number_of("CRASH_SEED", (unsigned)time(NULL) ^ (unsigned)getpid());
	caught_at = shared(CRASH_POINT_COUNT * sizeof *caught_at);
	failed = lanes_run(LANES, play_all);
	if (!only_scenario)
		failed |= lanes_run(1, points_must_be_reached);
	lanes_plan();
	return failed;
}

#endif
