/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rounds.c - rounds of the fast paths in a process of its own, without a broker, for instructions.sh to count.
 *
 *     rounds                  the processor that it is built for, or "SKIP" and why its instructions say nothing
 *     rounds PATH ROUNDS      calls measured(), in which the rounds are made
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "client/client.h"
#include "client/hold.h"
#include "client/records.h"
#include "common/error.h"
#include "common/timeline-page.h"

#define NAME  "layer/00001/weights" /* 19 bytes */
#define OTHER "layer/%05u/weights"

static int fake_register(void *page, size_t size, bool writable)
{
	(void)page;
	(void)size;
	(void)writable;
	return 0;
}

/* The stream is done at once. */
static int fake_write(void *stream, uint64_t *word, uint64_t value)
{
	(void)stream;
	*word = value;
	return 0;
}

static int fake_wait(void *stream, const uint64_t *word, uint64_t value)
{
	(void)stream;
	(void)word;
	(void)value;
	return 0;
}

/* What a kind of device does in it is not counted, but that it is asked. */
static uint64_t fake_epoch(int ordinal)
{
	return (uint64_t)ordinal;
}

static const struct device fake = {
	.kind = DEVICE_HOST, .page_register = fake_register, .stream_write = fake_write, .stream_wait = fake_wait,
	.epoch = fake_epoch
};
static _Atomic uint64_t board_generation = BOARD_WORD(5, BOARD_LIVE);
static struct board_end board_end;
static struct gpub_client *client;
static gpub_lease lease, held;
static struct timeline_page page = { .word = 1 };
static struct timeline_map timeline = { .page = &page, .registered = true, .writable = &page };
static uint64_t next = 1;

static int renew(void)
{
	return gpub_renew(&lease) || gpub_return(&lease);
}

static int renew_on(void)
{
	return gpub_renew(&lease) || gpub_return_on(&lease, NULL);
}

static int name(void)
{
	return gpub_acquire(client, NAME, GPUB_READ, 0, &lease) || gpub_return(&lease);
}

/* The value is there. */
static int wait_reached(void)
{
	return gpub_wait_on(&held, 1, NULL);
}

/* Each round for another value, and none is there: the stream is parked. */
static int wait_parked(void)
{
	return gpub_wait_on(&held, ++next, NULL);
}

static int signal_on(void)
{
	return gpub_signal_on(&held, ++next, NULL);
}

static const struct path {
	const char *name;
	int (*round)(void);
	bool holds; /* the buffer is held meanwhile */
} paths[] = { { "renew", renew, false },
	      { "renew-on", renew_on, false },
	      { "name", name, false },
	      { "wait", wait_reached, true },
	      { "wait-parked", wait_parked, true },
	      { "signal", signal_on, true } };

static const char *built_for(void)
{
#if defined(__clang__) || !defined(__GNUC__)
	return "SKIP built by another compiler than gcc, whose figures these are";
#elif !defined(__OPTIMIZE__) || defined(__OPTIMIZE_SIZE__)
	return "SKIP not built with -O2";
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return "SKIP built with sanitizers";
#elif defined(CRASH_POINTS_ENABLED)
	return "SKIP built with crash points";
#elif defined(__x86_64__)
	return "x86_64";
#elif defined(__aarch64__)
	return "aarch64";
#else
	return "SKIP no figures for this processor";
#endif
}

/* As messages.c's record_open() leaves it. */
static int record_make(const char *text)
{
	struct record *record = record_bind(client, text, 0);

	if (!record || record_grow(client, record))
		return -1;
	record->generation = &board_generation;
	record->live = BOARD_WORD(5, BOARD_LIVE);
	record->rights = GPUB_READ | GPUB_WRITE;
	record->ptr[VIEW_READ] = record->ptr[VIEW_WRITE] = &board_generation;
	record->timeline = &timeline;
	atomic_store(&record->state, RECORD_WORD(9, RECORD_OPEN));
	return 0;
}

/* One buffer among others. The same hash each time, so that the counts are. */
static int setup(void)
{
	char text[32];
	int error = 0;

	if (sodium_init() < 0)
		return -1;
	client = client_alloc();
	if (!client)
		return -1;
	client->device = &fake;
	client->link.sock.fd = -1;
	client->devices = 1;
	memset(client->table.hash_key, 7, sizeof client->table.hash_key);
	atomic_store(&client->guard->state, CLIENT_OPEN);
	for (unsigned i = 0; i < 20 && !error; i++) {
		snprintf(text, sizeof text, OTHER, i);
		error = record_make(text);
	}
	timeline.word = &board_generation;
	timeline.end = &board_end;
	pthread_mutex_init(&timeline.signalling, NULL);
	return error ? error : name();
}

__attribute__((noinline)) void measured(const struct path *path, unsigned long rounds);
void measured(const struct path *path, unsigned long rounds)
{
	while (rounds--)
		if (path->round())
			abort();
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return puts(built_for()) < 0;
	if (setup()) {
		fprintf(stderr, "rounds: no buffer to hold: %s\n", error_text());
		return 1;
	}
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
		if (!strcmp(argv[1], paths[i].name)) {
			if (paths[i].holds && gpub_acquire(client, NAME, GPUB_WRITE, 0, &held))
				return 1;
			/* what a thread does once, and the loader */
			measured(&paths[i], 1);
			measured(&paths[i], strtoul(argv[2], NULL, 10));
			return 0;
		}
	fprintf(stderr, "rounds: there is no path '%s'\n", argv[1]);
	return 2;
}
