/* SPDX-License-Identifier: Apache-2.0 */
/* race.c - see race.h */
#include "race.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUICK_MS     1200  /* of each race, when no number of rounds is asked for */
#define QUICK_MAX_MS 12000 /* and when it has not shown yet what it must: a busy box */
#define SPINS        20000 /* looks for the other side before the processor is yielded, ten microseconds or so */
#define NAP_NS       20000 /* for that long at a time: who has slept is let in again at once, who yields is not */
#define LOST_MS      60000 /* it has died */

struct side {
	_Alignas(128) _Atomic uint64_t at; /* the meeting that it has come to */
};

struct track {
	struct side side[2];
	bool        over; /* set by the first side before a meeting */
};

struct tally {
	uint64_t rounds, outcome[OUTCOMES];
};

static struct track *track;
static uint64_t wanted;
static unsigned points;
static bool failed;
static pid_t second_pid; /* 0: it is a thread */
static int cpus, cpu[2];
static _Thread_local uint64_t meeting, seed;

static uint64_t milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void fail_with(const char *what)
{
	if (second_pid > 0)
		kill(second_pid, SIGKILL);
	printf("Bail out! %s\n", what);
	exit(1);
}

/* ---- the two processors ---- */

static int core_of(int number)
{
	char path[96];
	FILE *file;
	int core = -1;

	snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/core_id", number);
	file = fopen(path, "r");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &core) != 1)
		core = -1;
	fclose(file);
	return core;
}

/* Two that are not threads of one core, where there are such. */
static void cpus_choose(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set))
		return;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &set))
			continue;
		if (cpus < 2 || (core_of(cpu[0]) == core_of(cpu[1]) && core_of(i) != core_of(cpu[0])))
			cpu[cpus ? 1 : 0] = i;
		cpus++;
	}
}

static void cpu_pin(int side)
{
	cpu_set_t set;

	if (cpus < 2)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu[side], &set);
	sched_setaffinity(0, sizeof set, &set);
}

/* ---- rounds ---- */

uint32_t race_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 16);
}

static bool other_is_there(int side, uint64_t number)
{
	return atomic_load_explicit(&track->side[!side].at, memory_order_acquire) >= number;
}

/* On a busy box it has no processor now, and needs this side to be there when it gets one. */
static void meet_slowly(int side, uint64_t number)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t last = milliseconds() + LOST_MS;

	while (!other_is_there(side, number)) {
		nanosleep(&nap, NULL);
		if (milliseconds() > last)
			fail_with("the other side of a race has died or hangs");
	}
}

static void meet(int side)
{
	uint64_t number = ++meeting;

	atomic_store_explicit(&track->side[side].at, number, memory_order_release);
	for (int scans = cpus < 2 ? SPINS : 0; scans < SPINS; scans++)
		if (other_is_there(side, number))
			return;
	meet_slowly(side, number);
}

static void delay(unsigned mask)
{
	for (unsigned steps = race_random() & mask; steps; steps--)
		__asm__ volatile("" ::: "memory");
}

static void pass_rounds(const struct race *race, int side)
{
	void (*act)(unsigned cell) = side ? race->second : race->first;

	for (unsigned i = 0; i < CELLS; i++)
		race->touch(i);
	for (unsigned i = 0; i < CELLS; i++) {
		meet(side);
		delay(race->delay);
		act(i);
	}
	meet(side);
}

static void side_begin(int side)
{
	cpu_pin(side);
	meeting = 0;
	seed = 0x9e3779b97f4a7c15ull * (uint64_t)(side + 1) ^ (uint64_t)getpid();
}

static void *second_side(void *argument)
{
	const struct race *race = argument;

	side_begin(1);
	for (;;) {
		meet(1);
		if (track->over)
			return NULL;
		pass_rounds(race, 1);
	}
}

static void one_pass(const struct race *race, struct tally *tally)
{
	for (unsigned i = 0; i < CELLS; i++)
		race->reset(i);
	meet(0);
	pass_rounds(race, 0);
	for (unsigned i = 0; i < CELLS; i++)
		tally->outcome[race->judge(i)]++;
	tally->rounds += CELLS;
}

/* ---- a race ---- */

/* What shows that the two sides did meet. */
static bool tried(const struct race *race, const struct tally *tally)
{
	if (race->control)
		return tally->outcome[OUTCOME_FORBIDDEN] > 0;
	return tally->outcome[OUTCOME_ONE] && tally->outcome[OUTCOME_TWO];
}

static bool enough(const struct race *race, const struct tally *tally, uint64_t ms)
{
	return (wanted ? tally->rounds >= wanted : ms >= QUICK_MS) && (tried(race, tally) || ms >= QUICK_MAX_MS);
}

/* Untried is a failure but on one processor, and but for a control under emulation. */
static void point(const struct race *race, const struct tally *tally)
{
	bool forbidden = !race->control && tally->outcome[OUTCOME_FORBIDDEN], shown = tried(race, tally);
	bool excused = cpus < 2 || (race->control && getenv("LITMUS_EMULATED"));

	failed |= forbidden || (!shown && !excused);
	printf("%s %u - %s", forbidden || (!shown && !excused) ? "not ok" : "ok", ++points, race->text);
	if (race->control && shown)
		printf(": seen %llu times", (unsigned long long)tally->outcome[OUTCOME_FORBIDDEN]);
	else if (!forbidden && !shown && excused)
		printf(" # SKIP the two sides never met here");
	putchar('\n');
}

static void details(const struct race *race, const struct tally *tally, uint64_t ms)
{
	printf("# %llu rounds in %llu.%llu s:", (unsigned long long)tally->rounds, (unsigned long long)ms / 1000,
	       (unsigned long long)ms % 1000 / 100);
	for (int i = 0; i < OUTCOME_FORBIDDEN; i++)
		if (race->seen[i])
			printf(" %s %llu,", race->seen[i], (unsigned long long)tally->outcome[i]);
	printf(" forbidden %llu\n", (unsigned long long)tally->outcome[OUTCOME_FORBIDDEN]);
	fflush(stdout);
}

static void second_start(const struct race *race, pthread_t *thread)
{
	second_pid = 0;
	if (!race->process) {
		if (pthread_create(thread, NULL, second_side, (void *)(uintptr_t)race))
			fail_with("no thread can be started");
		return;
	}
	fflush(stdout);
	second_pid = fork();
	if (second_pid < 0)
		fail_with("no process can be forked");
	if (!second_pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		second_side((void *)(uintptr_t)race);
		_exit(0);
	}
}

static void second_end(pthread_t thread)
{
	track->over = true;
	meet(0);
	if (second_pid)
		waitpid(second_pid, NULL, 0);
	else
		pthread_join(thread, NULL);
	second_pid = 0;
}

void race_run(const struct race *race)
{
	struct tally tally = { 0 };
	uint64_t start, ms;
	pthread_t thread = 0;

	atomic_store(&track->side[0].at, 0);
	atomic_store(&track->side[1].at, 0);
	track->over = false;
	second_start(race, &thread);
	side_begin(0);
	start = milliseconds();
	do {
		one_pass(race, &tally);
		ms = milliseconds() - start;
	} while (!enough(race, &tally, ms));
	second_end(thread);
	point(race, &tally);
	details(race, &tally, ms);
}

void *race_shared(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail_with("no memory");
	return memory;
}

void race_begin(uint64_t rounds, size_t races)
{
	wanted = rounds;
	cpus_choose();
	track = race_shared(sizeof *track);
	printf("1..%zu\n# %d processors; the two sides are on %d and %d\n", races, cpus, cpu[0], cpu[1]);
}

int race_end(void)
{
	return failed;
}
