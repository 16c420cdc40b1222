/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer-mutex.c - the peer that one writes oneself: a table in shared memory under a robust process-shared mutex; an
 * acquire looks the name up and counts it under the mutex, a release counts down without.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"
#include "clients.h"
#include "peer.h"

#define PLACES 4096 /* a power of two, some times PEER_NAMES */

static struct table {
	pthread_mutex_t mutex;
	struct {
		char             name[CLIENTS_NAME];
		_Atomic uint32_t count;
	} place[PLACES];
} *table;

/* FNV-1a: what a table of one's own has. */
static uint32_t hash(const char *name)
{
	uint32_t h = 2166136261u;

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return h ^ h >> 15;
}

static uint32_t find(const char *name)
{
	uint32_t at = hash(name) % PLACES;

	while (table->place[at].name[0] && strcmp(table->place[at].name, name))
		at = (at + 1) % PLACES;
	return at;
}

static void make(const char *folder)
{
	pthread_mutexattr_t kind;
	char name[CLIENTS_NAME];

	(void)folder;
	table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		bench_fail("no shared memory");
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&table->mutex, &kind);
	for (unsigned i = 0; i < PEER_NAMES; i++) {
		clients_name(name, i);
		strcpy(table->place[find(name)].name, name);
	}
}

static void open_table(const char *folder)
{
	(void)folder; /* the clients inherit it */
}

static void round_trip(const char *name)
{
	uint32_t at;

	if (pthread_mutex_lock(&table->mutex) == EOWNERDEAD)
		pthread_mutex_consistent(&table->mutex);
	at = find(name);
	table->place[at].count++;
	pthread_mutex_unlock(&table->mutex);
	if (!table->place[at].name[0])
		bench_fail("mutex: a name is lost");
	table->place[at].count--;
}

static void close_table(void)
{
	munmap(table, sizeof *table);
}

int main(void)
{
	static const struct peer peer = { "mutex", make, open_table, round_trip, close_table, 1000 };

	return peer_main(&peer);
}
