/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash.c - a client that dies, stops or ends anywhere, or the owner that dies: the accounting balances, and the next
 * client gets zeroed memory.
 *
 * Each scenario is played once undisturbed, which shows what crash points (crash-point.h) it passes, in the library and
 * in the broker. Then it is played once for each of these points and each of kill, stop and exit, the first passing
 * doing it; once for each point of the broker and of the owner, at which the owner is killed; once for each point of
 * the broker, at which the broker itself is killed and another one goes on, and for each point of a takeover, at which
 * that one is killed, too; and for each point of an owner's start, at which the owner is killed that follows one that
 * was killed; then CRASH_ROUNDS times with scenario, point, passing and action at random (CRASH_SEED repeats that). The
 * scenarios are dealt to a few lanes (lanes.h), each with one broker that serves all its plays. After each, when
 * nothing of the victim is left, the accounting must be empty but for the other client, which then takes all of the
 * device's memory and must find it zeroed. A point that no scenario passes is a failure, and so is one at which no
 * victim or owner could be caught. While a victim is stopped, the other must be served as ever. No step has another
 * result because a broker or an owner was killed, unless the export has no descriptors: then buffers may lose their
 * names.
 *
 *   tests/crash/crash [SCENARIO [POINT]]    only that, for a look at a failure
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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
static const int tries_for[] = { 5, 2, 1, 2, 1 };

#define PASSES_MAX  20  /* the later passings are like the earlier ones */

enum action { KILL, STOP, EXIT, KILL_OWNER, KILL_BROKER, STOP_AND_GO_ON, ACTIONS };

#define FOR_EACH_POINT 5 /* actions that each point gets; the last comes at random */

static const char *const action_names[ACTIONS] = { "kill", "stop", "exit", "kill of the owner",
						   "kill of the broker", "stop and go on" };
static const char *const action_words[ACTIONS] = { "kill", "stop", "exit", "kill", "kill", "stop" };

#define KEPT "kept" /* a buffer of the other's, so that the next owner has memory to adopt */

/* The end of an owner that has memory, before what comes at the start of the next one. */
#define FIRST_OWNER "order_answered:1:kill\n"

/* The end of a broker at the victim's first request, before what comes at the start of the next one. */
#define FIRST_SERVER "request_received:1:kill:%d:%d\n"

enum side { LIBRARY, BROKER, LOOP, OWNER, NEXT };

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
static bool *caught_at;       /* clients, by point; shared by the lanes */
static bool *owner_caught_at; /* owners, likewise */
static bool *server_caught_at; /* brokers, likewise */
static const char *only_scenario, *only_point;

static char visited[80], orders[80];

/* ---- telling the broker where ---- */

/*
 * Replaces the orders. Returns how many of the last ones were carried out. A process that was at a point has left it,
 * or is dying.
 */
static int broker_order(const char *text)
{
	char last[512] = "";
	int fd = open(orders, O_RDWR | O_CREAT | O_CLOEXEC, 0600), done = 0;

	if (fd < 0 || flock(fd, LOCK_EX) || pread(fd, last, sizeof last - 1, 0) < 0 || ftruncate(fd, 0) ||
	    pwrite(fd, text, strlen(text), 0) < 0 || close(fd))
		bail_out("%s cannot be written: %s", orders, strerror(errno));
	for (const char *line = strtok(last, "\n"); line; line = strtok(NULL, "\n"))
		done += *line == CRASH_DONE;
	return done;
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

/* ---- the owner ---- */

static pid_t owner; /* that serves, or that did when the play began */

static bool owner_is_another(void)
{
	pid_t now = owner_of(broker.pid);
	char stat[256];

	if (!now || now == owner)
		return false;
	process_line(now, "stat", stat, sizeof stat);
	if (!strchr(stat, ')') || strstr(stat, ") Z"))
		return false;
	owner = now;
	return true;
}

/* ---- the broker's process ---- */

static pid_t server; /* that serves, or that did when the play began */

static bool server_is_another(void)
{
	pid_t now = server_of(broker.pid);

	if (!now || now == server)
		return false;
	server = now;
	return true;
}

/* ---- one play ---- */

static char play_name[160]; /* for what is printed when something is wrong */
static const struct scenario *playing;

/* Has the other do what the victim may wait for. */
static void relieve(void)
{
	if (playing->relief.run)
		other_tries(playing->relief);
}

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
	if (!wrong && owner_of(broker.pid) != owner)
		wrong = "the owner has ended";
	if (!wrong && server_of(broker.pid) != server)
		wrong = "the broker has ended";
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
static bool look_while_stopped(const char *point, enum action action)
{
	bool good = true;

	other_goes_on();
	if (action == STOP_AND_GO_ON) {
		relieve();
		victim_continue();
		victim_end();
		return victim_fate() == VICTIM_ENDED;
	}
	if (victim_fate() == VICTIM_CHILD_STOPPED)
		good = child_holds(point);
	victim_kill(true);
	return good;
}

/* After all but the death of the owner. Stores whether all orders were carried out. */
static bool owner_is_replaced(int expected, bool *caught)
{
	/* the last order may be carried out only now */
	const char *wrong = balance_wrong(&broker, &other);
	int done = broker_order("");

	*caught = done == expected;
	if (!wrong && done && !SOON(owner_is_another()))
		wrong = "no other owner starts";
	if (!wrong && name_was_lost && !done)
		wrong = "a buffer lost its name, and no owner was killed";
	if (wrong)
		printf("# %s: %s\n", play_name, wrong);
	return !wrong;
}

/* After all but the death of the broker. Stores whether all orders were carried out. */
static bool server_is_replaced(int expected, bool *caught)
{
	const char *wrong = balance_wrong(&broker, &other);
	int done = broker_order("");

	*caught = done == expected;
	if (!wrong && done && !SOON(server_is_another()))
		wrong = "no other broker starts";
	if (wrong)
		printf("# %s: %s\n", play_name, wrong);
	return !wrong;
}

static bool spares_victim(enum action action)
{
	return action == KILL_OWNER || action == KILL_BROKER;
}

/* The scenario up to the victim's end, and what the other finds then. expected: how many orders there are. */
static bool play(const char *point, enum action action, int expected, bool *caught)
{
	bool good = true;

	playing->play();
	victim_end();
	*caught = victim_was_caught();
	if (victim_fate() == VICTIM_STOPPED || victim_fate() == VICTIM_CHILD_STOPPED)
		good = look_while_stopped(point, action);
	if (victim_fate() == VICTIM_FAILED || (spares_victim(action) && victim_fate() != VICTIM_ENDED))
		good = false;
	if (!spares_victim(action))
		broker_order("");
	victim_bury();
	if (playing->after)
		playing->after();
	other_lets_go();
	if (expected == 2)
		ask(&other, do_unlink, .name = KEPT); /* does nothing if there is none */
	if (action == KILL_OWNER)
		good &= owner_is_replaced(expected, caught);
	if (action == KILL_BROKER)
		good &= server_is_replaced(expected, caught);
	return all_is_well() && good;
}

/* Sets what is played, and whether steps may find that names were lost. */
static void prepare(int scenario, enum action action)
{
	playing = &scenarios[scenario];
	names_may_go = action == KILL_OWNER && !tested_export()->by_descriptor;
	victim_relief = names_may_go ? relieve : NULL;
}

static bool crash(int scenario, int point, int nth, enum action action, bool *caught)
{
	enum side side = points[point].side;
	/* a point of an owner's start needs the end of another owner */
	bool next_owner = side == OWNER && !passes[scenario][point];
	char text[256], first[64] = "";
	int length;

	prepare(scenario, action);
	snprintf(play_name, sizeof play_name, "%s, %s at %s, passing %d", playing->name, action_names[action],
		 points[point].name, nth);
	length = snprintf(text, sizeof text, "%s%s:%d:%s", next_owner ? FIRST_OWNER : "", points[point].name, nth,
			  action_words[action]);
	victim_start(&broker, side == LIBRARY ? text : NULL, playing->fail);
	if (side == NEXT) {
		snprintf(first, sizeof first, FIRST_SERVER, victim.pid, server);
		length = snprintf(text, sizeof text, "%s%s:%d:%s", first, points[point].name, nth,
				  action_words[action]);
	}
	if (side == BROKER || side == LOOP)
		snprintf(text + length, sizeof text - (size_t)length, ":%d:%d", victim.pid,
			 action == KILL_OWNER  ? owner :
			 action == KILL_BROKER ? server :
						 victim.pid);
	if (side != LIBRARY)
		broker_order(text);
	if (next_owner)
		ask(&other, do_create, .name = KEPT);
	return play(points[point].name, action, next_owner || side == NEXT ? 2 : 1, caught);
}

/* ---- all of them ---- */

static void play_undisturbed(int scenario)
{
	bool caught, good;

	prepare(scenario, KILL);
	snprintf(play_name, sizeof play_name, "%s, undisturbed", playing->name);
	visited_clear();
	setenv("GPUB_CRASH_VISITED", visited, 1);
	victim_start(&broker, NULL, playing->fail);
	unsetenv("GPUB_CRASH_VISITED");
	good = play("", KILL, 0, &caught);
	POINT(good && !caught, "%s: undisturbed", playing->name);
	visited_count(passes[scenario]);
}

/* Whether the action is for points of the side. */
static bool is_for(enum action action, enum side side)
{
	if (action == KILL_BROKER)
		return side == BROKER || side == LOOP || side == NEXT;
	if (side == NEXT)
		return false;
	return action == KILL_OWNER ? side != LIBRARY : side != OWNER;
}

/*
 * Memory is adopted by an owner that starts while there is some, which lasts as long as a play: one try in ten has
 * it. So it is tried until any scenario has.
 */
#define ADOPTS 60

static int tries_at(int point)
{
	bool adopts = point == CRASH_memory_adopted && tested_export()->by_descriptor && !owner_caught_at[point];

	return adopts ? ADOPTS : tries_for[points[point].side];
}

/* A point that the plays of a scenario need not pass may have to be tried again. */
static bool crash_somehow(int scenario, int point, enum action action)
{
	bool caught = false, good = true;

	for (int try = 0; good && !caught && try < tries_at(point); try++)
		good = crash(scenario, point, 1, action, &caught);
	if (only_point)
		printf("# %s: %s\n", play_name, caught ? "caught" : "not caught");
	if (action == KILL_OWNER)
		owner_caught_at[point] |= caught;
	else if (action == KILL_BROKER)
		server_caught_at[point] |= caught;
	else /* the client that the broker serves may be gone */
		caught_at[point] |= caught || points[point].side != LIBRARY;
	return good;
}

static void crash_at_each_point(int scenario)
{
	static const char *const what[] = { [LIBRARY] = "a client killed, stopped and ended",
					    [BROKER] = "a client killed, stopped and ended, owner and broker killed,",
					    [LOOP] = "a client killed, stopped and ended, owner and broker killed,",
					    [OWNER] = "the owner killed",
					    [NEXT] = "two brokers killed" };

	for (int point = 0; point < CRASH_POINT_COUNT; point++) {
		enum side side = points[point].side;
		bool good = true;

		if ((!passes[scenario][point] && side != OWNER && side != NEXT) ||
		    (only_point && strcmp(only_point, points[point].name)))
			continue;
		for (enum action action = 0; good && action < FOR_EACH_POINT; action++)
			if (is_for(action, side))
				good = crash_somehow(scenario, point, action);
		POINT(good, "%s: %s at %s", scenarios[scenario].name, what[side], points[point].name);
	}
}

/* Some of each play's points that are passed, and of each point's passings. */
static bool crash_at_random(unsigned lane)
{
	int scenario = (int)((unsigned)random() % SCENARIOS / LANES * LANES + lane), point, nth;
	enum action action;
	bool caught;

	if (scenario >= SCENARIOS)
		scenario = (int)lane;
	do
		point = (int)(random() % CRASH_POINT_COUNT);
	while (!passes[scenario][point]);
	nth = 1 + (int)(random() % (passes[scenario][point] < PASSES_MAX ? passes[scenario][point] : PASSES_MAX));
	do
		action = (enum action)(random() % ACTIONS);
	while (!is_for(action, points[point].side));
	return crash(scenario, point, nth, action, &caught);
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

/* Memory without a descriptor is adopted by nobody. */
static bool is_reached(int point)
{
	enum side side = points[point].side;

	if (side == NEXT)
		return server_caught_at[point];
	return (side == OWNER || caught_at[point]) && (side == LIBRARY || side == OWNER || server_caught_at[point]) &&
	       (side == LIBRARY || owner_caught_at[point] ||
		(point == CRASH_memory_adopted && !tested_export()->by_descriptor));
}

/* A point that nobody passed is in no scenario: write one. */
static int points_must_be_reached(unsigned lane)
{
	bool all = true;

	(void)lane;
	for (int point = 0; point < CRASH_POINT_COUNT; point++) {
		if (!is_reached(point))
			printf("# no client was caught, or no owner or broker, at %s\n", points[point].name);
		all &= is_reached(point);
	}
	POINT(all, "each of %d points was reached, and a client or the owner caught at it", CRASH_POINT_COUNT);
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
	setenv("TEST_BROKER", "brokerd", 1);
	setenv("GPUB_CRASH", order, 1);
	setenv("GPUB_CRASH_VISITED", visited, 1);
	balance_broker(&broker);
	unsetenv("GPUB_CRASH");
	unsetenv("GPUB_CRASH_VISITED");
	if (!SOON(owner_is_another()) || !SOON(server_is_another()))
		bail_out("brokerd has no owner or no broker");
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
	owner_caught_at = shared(CRASH_POINT_COUNT * sizeof *owner_caught_at);
	server_caught_at = shared(CRASH_POINT_COUNT * sizeof *server_caught_at);
	failed = lanes_run(LANES, play_all);
	if (!only_scenario)
		failed |= lanes_run(1, points_must_be_reached);
	lanes_plan();
	return failed;
}

#endif
