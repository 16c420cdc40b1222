/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - the members of a gpub_client, and the rules for their use.
 *
 * Data flows one way:  gpubroker.h -> lease.c (fast path) -> acquire.c (slow path) -> call.c -> send.c -> socket
 *                      socket -> receiver.c (one thread at a time) -> messages.c -> records.c -> waiting callers
 *
 * What the fast path reads is atomic or pinned by a hold (slot.h); all else is under client->lock. The lock is never held
 * across a send. Of device calls, only those that register memory, watch buffers and look for resets are made under it.
 */
#ifndef GPUB_CLIENT_H
#define GPUB_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "chunks.h"
#include "common/board.h"
#include "common/wire.h"
#include "device/device.h"
#include "gpubroker.h"
#include "link.h"
#include "record.h"
#include "slot.h"
#include "table.h"
#include "ticks.h"
#include "timeline-map.h"

/* In a page that a fork wipes: a child finds CLIENT_FORKED without a system call (madvise(2), WIPEONFORK). */
enum client_state { CLIENT_FORKED = 0, CLIENT_OPEN, CLIENT_LOST, CLIENT_ENDED };

struct client_guard {
	_Atomic uint32_t state;
};

/* A round trip that a caller waits for. */
struct call {
	uint64_t            number;
	bool                done;
	struct wire_message reply;
	int                 fd; /* came with the reply, now the caller's; -1: none; -EMFILE: no descriptor is left */
	int                 file; /* where the parts of the answer are written; -1: nowhere */
	int                 error; /* why one could not be */
	struct call        *next;
};

/* The bound on what stays open without a lease: cache.c's. */
struct cache {
	unsigned mappings;
	uint64_t bytes, scans;
};

#define CACHE_MAPPINGS 16384

/* How often receiver.c polls for the answer to one type of request before it sleeps. */
struct spin {
	unsigned pause;  /* so many answers are slept for before it polls again */
	unsigned misses; /* in a row */
};

struct gpub_client {
	struct client_guard *guard;
	const struct device *device;
	struct link          link;
	pthread_mutex_t      reading;     /* held by the reader */
	bool                 over;        /* the reader's: no more messages will come */
	struct spin          spin[WIRE_TYPES]; /* the reader's, by type of request */
	struct socket_packet *packet;         /* the reader's; kept when the structure is recycled */
	struct chunks        chunks;   /* the reader's */
	uint8_t             *key; /* sodium_malloc'd; the reader's */
	uint64_t             session;
	struct ticks_moment  connected;
	uint32_t             user, broker; /* uids of this client and of the broker, as the broker sent them */
	struct board         board;
	int                  index_of[DEVICE_MAX];   /* ordinal here -> the broker's index, or -1 */
	int                  ordinal_of[DEVICE_MAX]; /* the broker's index -> ordinal here, or -1 */
	int                  devices;                /* ordinals in index_of */
	_Atomic uint64_t     epochs[DEVICE_MAX];     /* by ordinal: the device's epoch when it was last compared */
	_Atomic unsigned     flags;

	pthread_mutex_t      lock;
	pthread_cond_t       changed; /* a record or a call changed state */
	pthread_t            service;
	pthread_t            closer;
	bool                 closing; /* the closer thread was started */
	bool                 leaving; /* disconnect is in progress: grants that still arrive are given back */
	uint64_t             next_number;
	struct call         *calls;

	struct table         table; /* (name, device) -> record */
	struct record_arena  records;
	struct record       *due;      /* unlinked buffers that are still mapped */
	bool                 newly_due;
	struct mapping      *mappings, *mappings_by_grant;
	struct mapping      *wanted; /* by the broker: those whose close may need no wait */
	unsigned             mapping_count;
	uint64_t             mapping_bytes;
	uint64_t             passes; /* of cache.c through mappings and due, that have begun so far */
	struct cache         cache;
	struct slot_arena    slots;
	struct timeline_maps timelines;
	struct gpub_client  *next;      /* in fork.c's list of open clients, or client.c's of recycled ones */
	struct gpub_client  *next_made; /* in client.c's list of all; fixed */
};

/* A client structure. Structures are recycled, because leases may still point to them. NULL: no memory. */
struct gpub_client *client_alloc(void);

/* The first structure of a process, usually the only one: the fast path recognises it by its address. */
extern struct gpub_client client_first __attribute__((visibility("hidden")));

/* Whether the pointer, which may be damaged, is that of a client structure. Any thread; takes no lock. */
bool client_is_known(const struct gpub_client *client);

void client_recycle(struct gpub_client *client);

/* Around a fork. forget: in the child, where the recycled structures are the parent's. */
void client_pool_lock(void);
void client_pool_unlock(bool forget);

/*
 * 0 where the client may be used; -ECHILD in a forked child, -ECONNRESET when the broker is gone, -ESTALE
 * after disconnect, -EINVAL for NULL; each with its error message.
 */
int client_check_slow(const struct gpub_client *client);

static inline int client_check(const struct gpub_client *client)
{
	if (client && atomic_load_explicit(&client->guard->state, memory_order_relaxed) == CLIENT_OPEN)
		return 0;
	return client_check_slow(client);
}

#endif
