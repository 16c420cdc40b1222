/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-kills.c - processes that do everything of the public interface with one broker, over and over, and check each
 * result and each byte, while broker-kills.sh kills processes of the broker.
 *
 *     broker-kills FILE                      the director: starts the workers, checks what they did, prints the verdict
 *     broker-kills FILE worker NUMBER        a worker: some hands, each a thread
 *     broker-kills FILE victim ...           a process that is killed or cut off (broker-kills-victim.c)
 *     broker-kills FILE kill PID [USR2]      kills the process, or sends it that signal, and notes when
 *
 * FILE is memory that all share. BROKER_SEED decides what each hand does, but not what meets what. BROKER_SECONDS or
 * BROKER_STEPS (of each hand) say how long; BROKER_CTL is broker-ctl.
 *
 * A run has rounds. At the end of each, nothing is left, and the director checks what could not be checked before: that
 * the results of calls that competed fit together. Exits with 0 if nothing was wrong.
 */
#include "broker-kills.h"

#include <errno.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUND_NS 1500000000ull
#define ROUND_STEPS 400u /* of each hand at most, where steps are counted */

extern char **environ;

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- a worker ---- */

static void deed(struct hand *hand)
{
	hand->steps++;
	atomic_fetch_add(&kills->deeds, 1);
	switch (hand_random(hand, 10)) {
	case 0:
		offers_host(hand);
		break;
	case 1:
	case 2:
	case 3:
		if (offers_visit(hand))
			break;
		/* fall through */
	case 4:
	case 5:
	case 6:
		own_deed(hand);
		break;
	default:
		arena_deed(hand);
	}
}

static int count_one(const gpub_info *info, void *context)
{
	fprintf(stderr, "%s is left\n", info->name);
	++*(unsigned *)context;
	return 0;
}

/* What one hand does between the rounds, while the others wait. */
static void tidy(struct hand *hand)
{
	unsigned left = 0;

	arena_end(hand);
	WANT(LIST, 0, gpub_list(*hand->client, NULL, count_one, &left));
	HOLDS(!left, "%u buffers are left after a round", left);
}

/* Waits until all hands have come so far in this round. */
static bool meet(unsigned which, uint32_t round)
{
	note_add(&kills->barrier[which], 1);
	return note_await(&kills->barrier[which], HANDS * (round + 1), "the other hands");
}

static bool is_going(const struct hand *hand, uint64_t end)
{
	if (kills->stop > 1)
		return false;
	return kills->steps ? hand->steps < end : note_now() < atomic_load(&kills->round_end);
}

static bool play_round(struct hand *hand, uint32_t round)
{
	uint64_t end = hand->steps + ROUND_STEPS;

	if (end > kills->steps)
		end = kills->steps;
	while (is_going(hand, end))
		deed(hand);
	own_end(hand);
	hand_trim(hand);
	if (!meet(0, round))
		return false;
	if (!hand->number)
		tidy(hand);
	if (!meet(1, round))
		return false;
	hand_trim(hand);
	return meet(2, round) && note_await(&kills->released, round + 1, "the director");
}

static void *hand_main(void *context)
{
	struct hand *hand = context;

	for (uint32_t round = 0; !kills->stop && play_round(hand, round); round++)
		;
	return NULL;
}

static void hand_begin(struct hand *hand, unsigned worker, unsigned thread)
{
	hand->worker = worker;
	hand->alone = worker >= THREADED;
	hand->closer = worker % 3 == 1;
	hand->number = hand->alone ? worker + THREADED * (THREADS - 1) : worker * THREADS + thread;
	hand->random = (kills->seed + 1) * 0x9e3779b97f4a7c15ull ^ (hand->number + 1) * 0xbf58476d1ce4e5b9ull;
	hand->host = malloc(LARGE);
	hand->wanted = malloc(LARGE);
	if (!hand->host || !hand->wanted)
		exit(2);
}

static void run_threads(struct hand *hands, unsigned count)
{
	pthread_t threads[THREADS];

	for (unsigned i = 1; i < count; i++)
		if (!WANT(LOCAL, 0, gpub_stream_create(*hands[i].client, GPUB_CURRENT, &hands[i].stream)) ||
		    pthread_create(&threads[i], NULL, hand_main, &hands[i]))
			exit(1);
	hand_main(&hands[0]);
	for (unsigned i = 1; i < count; i++) {
		pthread_join(threads[i], NULL);
		gpub_stream_destroy(hands[i].stream);
	}
}

static int worker_main(unsigned worker)
{
	static struct hand hands[THREADS];
	static gpub_client *client;
	unsigned count = worker < THREADED ? THREADS : 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < count; i++) {
		hand_begin(&hands[i], worker, i);
		hands[i].client = &client;
	}
	if (!hand_connect(&hands[0]))
		return 1;
	hand_disconnect(&hands[0]); /* counts what a process keeps that was connected once */
	if (!hand_connect(&hands[0]))
		return 1;
	run_threads(hands, count);
	if (kills->stop > 1)
		return 1;
	hand_disconnect(&hands[0]);
	for (unsigned i = 0; i < count; i++) {
		free(hands[i].host);
		free(hands[i].wanted);
	}
	return 0;
}

/* ---- the director ---- */

static pid_t workers[WORKERS];

static void start_workers(char *program, char *file)
{
	char number[16];
	char *arguments[] = { program, file, (char *)"worker", number, NULL };

	for (unsigned i = 0; i < WORKERS; i++) {
		snprintf(number, sizeof number, "%u", i);
		if (posix_spawn(&workers[i], "/proc/self/exe", NULL, NULL, arguments, environ))
			exit(2);
	}
}

/* Looks at the workers that have ended. Returns how many have not. */
static unsigned reap(bool too_early)
{
	unsigned left = 0;
	int status;

	for (unsigned i = 0; i < WORKERS; i++) {
		if (workers[i] > 0 && waitpid(workers[i], &status, WNOHANG) == workers[i]) {
			workers[i] = 0;
			if (kills->stop < 2)
				HOLDS(!status && !too_early, "worker %u has ended with status %#x", i, status);
		}
		left += workers[i] > 0;
	}
	return left;
}

/* Waits until all hands have ended the round; false if that will not be. */
static bool round_ends(uint32_t round)
{
	while (atomic_load(&kills->barrier[2]) < HANDS * (round + 1)) {
		if (reap(true) < WORKERS)
			atomic_store(&kills->stop, 2);
		if (kills->stop > 1)
			return false;
		usleep(2000);
	}
	return true;
}

static bool is_last(uint32_t round)
{
	if (kills->failures)
		return true;
	return kills->steps ? (round + 1) * ROUND_STEPS >= kills->steps : note_now() >= kills->end;
}

static void set_round_end(void)
{
	uint64_t end = note_now() + ROUND_NS;

	atomic_store(&kills->round_end, end < kills->end ? end : kills->end);
}

static void end_workers(void)
{
	uint64_t until = note_now() + (kills->stop > 1 ? 5 : 60) * 1000000000ull;

	while (reap(false) && note_now() < until)
		usleep(2000);
	for (unsigned i = 0; i < WORKERS; i++)
		if (workers[i] > 0) {
			HOLDS(kills->stop > 1, "worker %u does not end", i);
			kill(workers[i], SIGKILL);
			waitpid(workers[i], NULL, 0);
		}
}

static int director_main(char *program, char *file)
{
	kills->seed = number_of("BROKER_SEED", 1);
	kills->steps = number_of("BROKER_STEPS", 0);
	kills->same_address = number_of("BROKER_SAME_ADDRESS", GPUB_SAME_ADDRESS) ? GPUB_SAME_ADDRESS : 0;
	kills->begin = note_now();
	kills->end = kills->begin + number_of("BROKER_SECONDS", 10) * 1000000000ull;
	set_round_end();
	start_workers(program, file);
	for (uint32_t round = 0; round_ends(round); round++) {
		for (unsigned arena = 0; arena < ARENAS; arena++)
			history_check(arena);
		atomic_store(&kills->round, round + 1);
		if (is_last(round))
			atomic_store(&kills->stop, 1);
		set_round_end();
		note_add(&kills->released, 1);
		if (kills->stop)
			break;
	}
	end_workers();
	return note_verdict();
}

/* ---- the killer ---- */

static int kill_main(pid_t pid, int number)
{
	atomic_fetch_add(&kills->kill_count, 1);
	atomic_store(&kills->last_kill, note_now());
	return kill(pid, number) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	note_open(argv[1], argc == 2);
	setenv("BROKER_KILLS_FILE", argv[1], 1);
	if (argc == 2)
		return director_main(argv[0], argv[1]);
	if (argc == 4 && !strcmp(argv[2], "worker"))
		return worker_main((unsigned)strtoul(argv[3], NULL, 10));
	if (argc >= 4 && !strcmp(argv[2], "kill"))
		return kill_main((pid_t)strtol(argv[3], NULL, 10), argc == 4 ? SIGKILL : SIGUSR2);
	if (argc == 7 && !strcmp(argv[2], "victim"))
		return victim_main(argv + 3);
	return 2;
}
