/* SPDX-License-Identifier: Apache-2.0 */
/* fork.c - see fork.h */
#include "fork.h"

#include <errno.h>
#include <sodium.h>
#include <unistd.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/wiped.h"
#include "timeline-wait.h"

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gpub_client *open_clients;
static _Atomic(struct client_guard *) last_guard; /* guard of the client that this process, or its parent, made last */
/* indexed by kind: the kind of device, if this process or its parent has used it; else NULL */
static const struct device *used_devices[DEVICE_KINDS];
static pthread_once_t handlers_once = PTHREAD_ONCE_INIT;

int client_check_process(void)
{
	struct client_guard *guard = atomic_load(&last_guard);

	if (guard && atomic_load(&guard->state) == CLIENT_FORKED)
		return error_set(-ECHILD, "this belongs to the parent of this process: a child cannot use it");
	return 0;
}

static void before_fork(void)
{
	client_pool_lock();
	pthread_mutex_lock(&list_lock);
	timeline_waits_lock();
	CRASH_POINT(fork_before);
}

static void after_fork_parent(void)
{
	CRASH_POINT(fork_parent);
	timeline_waits_unlock(false);
	pthread_mutex_unlock(&list_lock);
	client_pool_unlock(false);
}

/*
 * In the child: closes the devices' descriptors, then the clients' sockets, so that the child has no descriptor of a
 * device when the broker sees a socket hang up. Closes the devices' descriptors also after a disconnect, because a
 * mapping that failed to close is still granted.
 */
static void after_fork_child(void)
{
	struct client_guard *guard = atomic_load(&last_guard);
	struct gpub_client *client;

	CRASH_POINT(fork_child);
	for (int kind = 0; kind < DEVICE_KINDS; kind++)
		if (used_devices[kind])
			used_devices[kind]->child_after_fork();
	CRASH_POINT(fork_child_device);
	for (client = open_clients; client; client = client->next) {
		link_close(&client->link);
		sodium_memzero(client->key, WIRE_KEY_SIZE);
		slot_arena_wipe(&client->slots);
		wiped_by_hand(client->guard, sizeof *client->guard);
	}
	if (guard)
		wiped_by_hand(guard, sizeof *guard);
	timeline_waits_unlock(true);
	open_clients = NULL; /* the clients are the parent's; calls with them or their leases find a wiped guard */
	pthread_mutex_unlock(&list_lock);
	client_pool_unlock(true);
	CRASH_POINT(fork_child_done);
}

static void handlers_install(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

void fork_guard(struct gpub_client *client)
{
	pthread_once(&handlers_once, handlers_install);
	pthread_mutex_lock(&list_lock);
	link_init(&client->link);
	client->next = open_clients;
	open_clients = client;
	atomic_store(&last_guard, client->guard);
	pthread_mutex_unlock(&list_lock);
}

void fork_guard_device(const struct device *device)
{
	pthread_mutex_lock(&list_lock);
	used_devices[device->kind] = device;
	pthread_mutex_unlock(&list_lock);
}

/*
 * Removes the client from the list and closes its socket under one lock, because a child that was forked between the
 * two would keep the socket open.
 */
void fork_unguard(struct gpub_client *client)
{
	struct gpub_client **link = &open_clients;

	pthread_mutex_lock(&list_lock);
	while (*link && *link != client)
		link = &(*link)->next;
	if (*link)
		*link = client->next;
	link_close(&client->link);
	pthread_mutex_unlock(&list_lock);
}
