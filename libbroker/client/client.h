/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - the library's own view of a connection: what a gpub_client is made of, and who touches it how.
 *
 * Data flows one way:  gpubroker.h -> lease.c (fast path) -> acquire.c (slow path) -> call.c -> socket
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
#include <time.h>

#include "common/board.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/thread.h"
#include "common/wire.h"
#include "device/device.h"
#include "gpubroker.h"
#include "hold.h"
#include "mapping.h"
#include "reader.h"
#include "record.h"
#include "slot.h"
#include "table.h"
#include "timeline-map.h"
#include "trace.h"

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
	uint64_t bytes, looks;
};

#define CACHE_MAPPINGS 16384

/* Looking for the answer to one kind of question instead of sleeping for it: reader.c's. */
struct spin {
	unsigned pause; /* answers to sleep for before the next try */
	unsigned in_vain;
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
	uint64_t             walks; /* through mappings and due, that have begun so far */
	struct cache         cache;
	struct slot_pool     slots;
	struct timeline_maps timelines;
	struct gpub_client  *next; /* in fork.c's list of open ones, or client.c's of recycled ones */
	struct gpub_client  *next_made; /* in client.c's list of all; fixed */
};

/* ---- client.c ---- */

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

/* ---- call.c: round trips ---- */

/*
 * Sends the request (its number is filled in) and waits for the reply. 0 and *reply, or the errno and the
 * sentence that the broker refused with. fd: NULL, or where a descriptor that came is put (-1: none came).
 * -ETIMEDOUT when the deadline is past (NULL: never): a reply that still comes is dropped.
 */
int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline);

/* ---- connect.c ---- */

/* gpub_connect() that starts no device: for a program that only asks. What it cannot do then is not checked. */
int client_connect_bare(struct gpub_client **client, const char *address);

/* ---- manage.c ---- */

/*
 * Has the broker cut that session off. *pidfd gets a pidfd of its process, now the caller's. -ENOENT, -EACCES, -EINVAL its own.
 */
int client_evict(struct gpub_client *client, uint64_t session, int *pidfd);

/* ---- closer.c ---- */

/* The flags changed: starts the closer where it is wanted, and has it look. */
int closer_wake(struct gpub_client *client);

/* Waits for its end, once client->leaving says so. */
void closer_stop(struct gpub_client *client);

/* ---- acquire.c: the slow path ---- */

#define GRACE_MS 10000 /* beyond a timeout that the broker itself keeps: it is stopped or overloaded then */

/*
 * Asks for a record in state NONE with that message, whose number is filled in, and waits until it changed: record_wait()'s
 * result. Locked; gives the lock up meanwhile.
 */
int record_ask(struct gpub_client *client, struct record *record, struct wire_message *message,
	       const struct timespec *deadline);

/* An ACQUIRE of anybody's buffer, without its number. Returns message. */
struct wire_message *acquire_fill(struct wire_message *message, const struct table_key *key, unsigned rights,
				  int timeout_ms);

/* Holds the buffer of that name for a device, asking the broker where needed. owner: whose it must be, or GPUB_ANY_USER. */
int acquire_slow(struct gpub_client *client, const char *name, unsigned index, uint32_t owner, unsigned rights,
		 int timeout_ms, gpub_lease *lease);

/* The same without a range of its own (trace.h). */
int acquire_untraced(struct gpub_client *client, const char *name, unsigned index, unsigned rights, int timeout_ms,
		     gpub_lease *lease);

/* ---- close.c ---- */

/*
 * Closes one mapping unless a lease holds a record of it (-EBUSY, all as before). wait: for returns in stream order
 * that have not landed yet. Called with the lock held; gives it up meanwhile: the mapping may be gone after. -EIO: its
 * records stay CLOSING for ever.
 */
int mapping_close(struct gpub_client *client, struct mapping *mapping, bool wait);

/*
 * Lets go of one OPEN record whose mapping stays, once the device is done with its leases: 0, -EBUSY (all as before).
 * sync: asks the device to be done with those that were returned plainly; else the stream's word alone counts. Called with
 * the lock held; gives it up meanwhile.
 */
int record_retire(struct gpub_client *client, struct record *record, bool sync);

/*
 * Retires all records whose buffers are unlinked, as far as they can be. True: there are some that will be, without
 * anybody else's doing, once the device is done. Locked, as above.
 */
bool client_retire_due(struct gpub_client *client, bool sync);

/*
 * Where that device was reset since the last look, its mappings are over, and the leases of them. 0: it was not; 1: it was,
 * and the lock was given up; -EIO: it was, and cannot be used again. Locked.
 */
int client_notice_reset(struct gpub_client *client, int ordinal);

/* All mappings that no lease holds, and in others what is unlinked. The first real error, else 0. */
int client_close_idle(struct gpub_client *client, bool wait);

/*
 * At the end of a disconnect. Whoever connects next has the same structure, and perhaps another broker (invariant 8): nothing
 * of this connection may be found again. What could not be closed stays mapped, and granted until this process ends.
 */
void client_forget_all(struct gpub_client *client);

/* ---- cache.c ---- */

bool cache_is_full(const struct gpub_client *client);

/* Closes what was used least recently, where more is open than may be. Locked; gives the lock up meanwhile. */
void cache_trim(struct gpub_client *client);

/* ---- fork.c ---- */

/* client_check() for calls that are given no client: -ECHILD where this process was forked from one that had any. */
int client_check_process(void);

/* From now on a forked child lets go of this client, whose socket is yet to be opened. */
void fork_guard(struct gpub_client *client);
/* And of this device. */
void fork_guard_device(const struct device *device);
/* Closes the client's socket, too. */
void fork_unguard(struct gpub_client *client);

#endif
