/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - the memory that client structures live in, and whether one may be used.
 *
 * They are recycled and never freed, because a stale lease must find one. Each keeps its guard, the page that a
 * fork wipes. Owns those that are not in use; knows nothing of a connection.
 */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "common/wiped.h"

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpub_client *recycled;

int client_check_slow(const struct gpub_client *client)
{
	if (!client)
		return error_set(-EINVAL, "there is no client: pass one that gpub_connect() made");
	switch ((enum client_state)atomic_load(&client->guard->state)) {
	case CLIENT_OPEN:
		return 0;
	case CLIENT_LOST:
		return error_set(-ECONNRESET, "the broker is gone: connect to a new one");
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

static struct gpub_client *client_new(void)
{
	struct gpub_client *client = calloc(1, sizeof *client);

	if (!client)
		return NULL;
	client->guard = wiped_map(sizeof *client->guard, PROT_READ | PROT_WRITE);
	if (!client->guard)
		goto free_client;
	if (table_init(&client->table))
		goto unmap_guard;
	locks_init(client);
	client->records.rest = RECORDS_REST;
	return client;
unmap_guard:
	munmap(client->guard, sizeof *client->guard);
free_client:
	free(client);
	return NULL;
}

/* ---- the pool ---- */

static struct gpub_client *client_take(void)
{
	struct gpub_client *client;

	pthread_mutex_lock(&pool_lock);
	client = recycled;
	if (client)
		recycled = client->next;
	pthread_mutex_unlock(&pool_lock);
	return client ? client : client_new();
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
