/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the memory of client structures, and the check whether a client may be used.
 *
 * Structures are recycled and never freed, because a stale lease may point to one. Each structure keeps its guard, the
 * page that a fork wipes. A lease is in the program's memory and may be damaged, so its client pointer is compared with
 * the addresses of all structures before it is followed. The first structure is a static variable, which the fast path
 * knows by its address; the others are in a list that only grows. Owns the structures that are not in use; knows
 * nothing of a connection.
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "common/error.h"
#include "common/wiped.h"

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpub_client *recycled;
static bool first_used; /* true: client_first, the process's first client, is in use or has been */
static _Atomic(struct gpub_client *) others_made; /* list of all client structures but client_first */

static struct client_guard never_connected = { CLIENT_ENDED };
struct gpub_client client_first = { .guard = &never_connected };

bool client_is_known(const struct gpub_client *client)
{
	const struct gpub_client *made = atomic_load(&others_made);

	while (made && made != client)
		made = made->next_made;
	return made || client == &client_first;
}

int client_check_slow(const struct gpub_client *client)
{
	if (!client)
		return error_set(-EINVAL, "there is no client: pass one from gpub_connect()");
	switch ((enum client_state)atomic_load(&client->guard->state)) {
	case CLIENT_OPEN:
		return 0;
	case CLIENT_LOST:
		return link_lost_error(&client->link);
	case CLIENT_ENDED:
		return error_set(-ESTALE, "this client was disconnected: connect anew");
	default:
		return error_set(-ECHILD, "this client belongs to the parent of this process: exec, then connect");
	}
}

/* ---- making one ---- */

static void locks_init(struct gpub_client *client)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&client->lock, NULL);
	pthread_mutex_init(&client->reading, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&client->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

static int client_init(struct gpub_client *client)
{
	struct client_guard *guard = wiped_map(sizeof *guard, PROT_READ | PROT_WRITE);

	if (!guard)
		return -ENOMEM;
	if (table_init(&client->table)) {
		munmap(guard, sizeof *guard);
		return -ENOMEM;
	}
	client->guard = guard;
	locks_init(client);
	client->records.free_min = RECORDS_FREE_MIN;
	return 0;
}

/* Initialises client_first and returns it. NULL: out of memory. Call it under pool_lock. */
static struct gpub_client *first_make(void)
{
	if (client_init(&client_first))
		return NULL;
	first_used = true;
	return &client_first;
}

/* Makes a new client structure in others_made. NULL: out of memory. Call it under pool_lock. */
static struct gpub_client *other_make(void)
{
	struct gpub_client *client = calloc(1, sizeof *client);

	if (!client)
		return NULL;
	if (client_init(client)) {
		free(client);
		return NULL;
	}
	client->next_made = atomic_load(&others_made);
	atomic_store(&others_made, client);
	return client;
}

/* ---- the pool ---- */

static struct gpub_client *client_take(void)
{
	struct gpub_client *client;

	pthread_mutex_lock(&pool_lock);
	client = recycled;
	if (client)
		recycled = client->next;
	else
		client = first_used ? other_make() : first_make();
	pthread_mutex_unlock(&pool_lock);
	return client;
}

struct gpub_client *client_alloc(void)
{
	struct gpub_client *client = client_take();

	if (!client)
		return NULL;
	client->key = sodium_malloc(WIRE_KEY_SIZE);
	if (!client->key) {
		client_recycle(client);
		return NULL;
	}
	client->leaving = client->closing = false;
	client->next_number = 0;
	client->cache = (struct cache){ CACHE_MAPPINGS, UINT64_MAX, 0 };
	atomic_store(&client->flags, 0);
	atomic_store(&client->guard->state, CLIENT_ENDED);
	return client;
}

void client_recycle(struct gpub_client *client)
{
	pthread_mutex_lock(&pool_lock);
	client->next = recycled;
	recycled = client;
	pthread_mutex_unlock(&pool_lock);
}

void client_pool_lock(void)
{
	pthread_mutex_lock(&pool_lock);
}

void client_pool_unlock(bool forget)
{
	if (forget)
		recycled = NULL;
	pthread_mutex_unlock(&pool_lock);
}
