/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - the library's own view of a connection: what a gpub_client is made of, and who touches it how.
 *
 * Data flows one way:  gpubroker.h -> lease.c (fast path) -> acquire.c (slow path) -> call.c -> send.c -> socket
 *                      socket -> reader.c (one thread at a time) -> messages.c -> records.c -> waiting callers
 *
 * What the fast path reads is atomic or pinned by a hold (slot.h); all else is under client->lock. The lock
 * is never held across a send, nor across a device call but those that register memory, watch buffers and look for resets.
 */
#ifndef GPUB_CLIENT_H
#define GPUB_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/board.h"
#include "common/wire.h"
#include "device/device.h"
#include "gpubroker.h"
#include "record.h"
#include "slot.h"
#include "table.h"
#include "timeline-map.h"

/* A page that a fork wipes, so a child finds CLIENT_FORKED without a system call (madvise(2), WIPEONFORK). */
enum client_state { CLIENT_FORKED = 0, CLIENT_OPEN, CLIENT_LOST, CLIENT_ENDED };

struct client_guard {
	_Atomic uint32_t state;
};

/* A round trip that a caller waits for. */
struct call {
	uint64_t            number;
	bool                done;
	struct wire_message reply;
	int                 fd; /* that came with it, now the caller's; -1 none; -EMFILE no room for it */
	struct call        *next;
};

/* What may stay open that nobody holds. */
struct cache {
	unsigned mappings;
	uint64_t bytes, scans;
};

#define CACHE_MAPPINGS 16384

/* Looking for the answer to one kind of question instead of sleeping for it: reader.c's. */
struct spin {
	unsigned pause; /* answers to sleep for before the next try */
	unsigned misses; /* in a row */
};

struct gpub_client {
	struct client_guard *guard;
	const struct device *device;
	int                  sock, watch; /* watch: reader.c's */
	pthread_mutex_t      reading;     /* held by the reader */
	bool                 over;        /* the reader's: nothing comes any more */
	struct spin          spin[WIRE_TYPES]; /* the reader's, by what was asked */
	struct socket_packet *packet;         /* the reader's; kept for whoever has this structure next */
	uint8_t             *key; /* sodium_malloc'd; the reader's */
	uint64_t             session;
	uint32_t             user, broker; /* uids, as the broker said */
	struct board         board;
	int                  index_of[DEVICE_MAX];   /* ordinal here -> the broker's index, or -1 */
	int                  ordinal_of[DEVICE_MAX]; /* the broker's index -> ordinal here, or -1 */
	int                  devices;                /* ordinals in index_of */
	_Atomic uint64_t     epochs[DEVICE_MAX];     /* by ordinal: of the device, when it was last looked at */
	_Atomic unsigned     flags;

	pthread_mutex_t      lock;
	pthread_cond_t       changed; /* a record or a call changed state */
	pthread_t            service;
	pthread_t            closer;
	bool                 closing; /* the closer thread was started */
	bool                 leaving; /* disconnect is under way: grants that still come are given back */
	uint64_t             next_number;
	struct call         *calls;

	struct table         table; /* (name, device) -> record */
	struct record_pool   records;
	struct record       *due;      /* unlinked buffers that are still mapped */
	bool                 newly_due;
	struct mapping      *mappings, *mappings_by_grant;
	unsigned             mapping_count;
	uint64_t             mapping_bytes;
	uint64_t             passes; /* of cache.c through mappings and due, that have begun so far */
	struct cache         cache;
	struct slot_pool     slots;
	struct timeline_maps timelines;
	struct gpub_client  *next; /* in fork.c's list of open ones, or client.c's of recycled ones */
	struct gpub_client  *next_made; /* in client.c's list of all; fixed */
};

/* A client structure: recycled where one was disconnected, for leases may still point to it. NULL: no memory. */
struct gpub_client *client_alloc(void);

/* The first structure of a process, as a rule the only one: the fast path knows it by its address alone. */
extern struct gpub_client client_first __attribute__((visibility("hidden")));

/* Whether that pointer, which may be anything, leads to a client structure. Any thread; takes no lock. */
bool client_is_known(const struct gpub_client *client);

void client_recycle(struct gpub_client *client);

/* Around a fork. forget: in the child, where those that were recycled are the parent's. */
void client_pool_lock(void);
void client_pool_unlock(bool forget);

/*
 * 0 where the client may be used; -ECHILD in a forked child, -ECONNRESET when the broker is gone, -ESTALE
 * after disconnect, -EINVAL for NULL; each with its sentence.
 */
int client_check_slow(const struct gpub_client *client);

static inline int client_check(const struct gpub_client *client)
{
	if (client && atomic_load_explicit(&client->guard->state, memory_order_relaxed) == CLIENT_OPEN)
		return 0;
	return client_check_slow(client);
}

#endif
