/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - the members of a gpub_client, and the rules for their use.
 *
 * Data flows one way:  gpubroker.h -> lease.c (fast path) -> acquire.c (slow path) -> call.c -> send.c -> socket
 *                      socket -> receiver.c (one thread at a time) -> messages.c -> records.c -> waiting callers
 *
 * Members that the fast path reads are atomic, or constant while a hold exists (hold.h). Some are used only by the
 * thread that is the reader (receiver.h). All others are under client->lock. The lock is not held during a send, except
 * the CANCELs of acquire-many.c. The only device calls under the lock are those that register memory, watch buffers and
 * look for resets.
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

/*
 * State of a client. Stands in a page that a fork zeroes (madvise(2), MADV_WIPEONFORK), so that a forked child reads
 * CLIENT_FORKED without a system call. CLIENT_LOST: the connection has ended. CLIENT_ENDED: not connected.
 */
enum client_state { CLIENT_FORKED = 0, CLIENT_OPEN, CLIENT_LOST, CLIENT_ENDED };

struct client_guard {
	_Atomic uint32_t state;
};

/* A request whose answer a caller waits for. On the caller's stack. */
struct call {
	uint64_t            number; /* number of the request */
	bool                done;   /* the reply has come, and is in `reply` */
	struct wire_message reply;
	int                 fd;     /* descriptor that came with the reply; -1: none; -EMFILE: none was left for it */
	int                 file;   /* descriptor to which PART messages are written; -1: they are dropped */
	int                 error;  /* negative errno of the writing to `file`; 0: no error */
	struct call        *next;   /* link of the list client->calls */
};

/* The limits of gpub_set_cache() on open mappings, whether leases hold them or not. Owned by cache.c. */
struct cache {
	unsigned mappings; /* limit on the number of open mappings */
	uint64_t bytes;    /* limit on the bytes of all open mappings together */
	uint64_t scans;    /* how often cache.c has read the acquire counts of all mappings so far */
};

#define CACHE_MAPPINGS 16384

/* Whether receiver.c polls for the answer to one type of request before it sleeps. Learned from earlier answers. */
struct spin {
	unsigned pause;  /* number of coming answers for which the reader sleeps without polling first */
	/* how often polling was in vain since it found an answer, not at its first look; at most SPIN_PAUSES */
	unsigned misses;
};

struct gpub_client {
	struct client_guard *guard;
	const struct device *device;
	struct link          link;
	pthread_mutex_t      reading;     /* held by the thread that is the reader */
	bool                 over;        /* used only by the reader: no more messages will come */
	struct spin          spin[WIRE_TYPES]; /* used only by the reader; indexed by the type of request */
	struct socket_packet *packet;  /* used only by the reader: the packet that it received last */
	struct chunks        chunks;   /* used only by the reader: memory for the next GRANT */
	/* the session's key, which unseals handles (sodium_malloc()); constant while connected */
	uint8_t             *key;
	uint64_t             session;
	unsigned             revision;  /* of the protocol, which broker and library agreed on (wire_agree()) */
	struct ticks_moment  connected; /* the time when the session began */
	uint32_t             user;      /* uid of this client, as the broker sees it */
	uint32_t             broker;    /* uid of the broker's user, as the broker sent it */
	struct board         board;
	/* indexed by ordinal in this process: the broker's index of the device; -1: none */
	int                  index_of[DEVICE_MAX];
	/* indexed by the broker's index: the device's ordinal in this process; -1: none */
	int                  ordinal_of[DEVICE_MAX];
	int                  devices;                /* number of ordinals of this process, in index_of */
	/* indexed by ordinal: the device's epoch that client_notice_reset() saw last */
	_Atomic uint64_t     epochs[DEVICE_MAX];
	_Atomic unsigned     flags;                  /* what gpub_set_flags() set */

	pthread_mutex_t      lock;
	pthread_cond_t       changed; /* broadcast when a record, call, mapping or setting changes */
	pthread_t            service;
	pthread_t            closer;
	bool                 closing; /* the thread `closer` was started, and not joined yet */
	bool                 leaving; /* a disconnect is in progress: mappings that arrive are closed at once */
	/* counter for the numbers of requests and the keys of delegate.c: incremented for each */
	uint64_t             next_number;
	struct call         *calls;       /* list of the requests whose callers wait for an answer */

	struct table         table; /* (name, device) -> record */
	struct record_arena  records;
	struct record       *due;      /* list of records whose buffer was unlinked, and whose mapping is still open */
	atomic_bool          newly_due; /* the list `due` or `wanted` has grown since the service thread last looked */
	struct mapping      *mappings;          /* list of open mappings that have not leaked */
	struct mapping      *mappings_by_id; /* hash table of all open mappings, leaked ones too, by id */
	struct mapping      *wanted; /* list of mappings that the broker wants back, and whose close may need no wait */
	unsigned             mapping_count; /* length of the list `mappings` */
	uint64_t             mapping_bytes; /* bytes of all mappings in the list `mappings` together */
	uint64_t             passes; /* number of passes of cache.c, over `mappings`, `due` or `wanted`, begun so far */
	struct cache         cache;
	struct slot_arena    slots;
	struct timeline_maps timelines;
	/* link of fork.c's list of open clients, or of client.c's list of recycled clients */
	struct gpub_client  *next;
	struct gpub_client  *next_made; /* link of client.c's list of all clients but client_first; never changes */
};

/*
 * Returns a client structure in state CLIENT_ENDED: a recycled one, or a new one. NULL: out of memory. Structures are
 * never freed, because leases may still point to them.
 */
struct gpub_client *client_alloc(void);

/* The client structure that a process uses first, and usually alone. The fast path recognises it by its address. */
extern struct gpub_client client_first __attribute__((visibility("hidden")));

/*
 * Whether the pointer, which may be damaged, is the address of a client structure. Any thread may call it. Takes no
 * lock.
 */
bool client_is_known(const struct gpub_client *client);

void client_recycle(struct gpub_client *client);

/*
 * Lock and unlock the list of recycled client structures around a fork. forget: true in the child, where the list is
 * emptied, because the structures are the parent's.
 */
void client_pool_lock(void);
void client_pool_unlock(bool forget);

/*
 * Returns 0 if the client may be used; else, with the error message set, -ECHILD in a forked child, -ECONNRESET if
 * the connection is lost, -ESTALE after a disconnect, -EINVAL for NULL.
 */
int client_check_slow(const struct gpub_client *client);

static inline int client_check(const struct gpub_client *client)
{
	if (client && atomic_load_explicit(&client->guard->state, memory_order_relaxed) == CLIENT_OPEN)
		return 0;
	return client_check_slow(client);
}

#endif
