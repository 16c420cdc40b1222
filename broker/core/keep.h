/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keep.h - has the keeper keep the descriptors that the ledger's records imply, and no other ones.
 *
 * Before a commit, keep_put() sends the PUTs of descriptors whose records the commit has for the first time. After it,
 * keep_drop() sends the DROPs of those that no record names any more. The keeper reads the line of a dead broker to
 * its end before it forks the next one, so a PUT that is sent counts as carried out. A PUT that the socket has no room
 * for would be lost with this broker: keep_put() then waits until the keeper, which waits for nobody, has read some.
 *
 * Nobody's loop may make the last close of device memory or of a client's socket, because that can take long:
 * - The owner gets a duplicate of memory with the RELEASE (allocation_order_release()), and has the memory until then.
 *   The DROP is sent after the commit that notes the RELEASE. The RELEASE waits (jobs_hold_releases()) until the
 *   keeper has carried out the DROP. So the owner, the last one to have the memory, makes the last close.
 * - A socket of a client waits in the same way (discard_hold()): the keeper drops it first, the broker closes it last.
 * Whether the keeper has carried out the DROPs is told by a pipe: the keeper gets the end for writing by a PUT, and
 * closes it by the DROP that follows all others. One pipe at a time is under way.
 *
 * Knows for each slot of the tracking what is kept, so a commit takes time for what has changed. Belongs to the loop's
 * thread. Owns the pipe, and none of the descriptors that are kept.
 */
#ifndef GPUB_KEEP_H
#define GPUB_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct broker;
struct event;
struct line;

/* What descriptors are kept for. Other programs' versions know the numbers, too, so they never change. */
enum kept_kind {
	KEPT_SOCKET = 1, /* of the session with the id */
	KEPT_PIDFD = 2,  /* of that session's process */
	KEPT_MEMORY = 3, /* of the memory with the number (owner/order.h) */
	KEPT_PAGE = 4,   /* of the timeline of the buffer with that first serial: the broker's writable one */
	KEPT_FENCE = 5,  /* a pipe by which the broker learns that DROPs are carried out (keep_fence()) */
	/* kinds of which a broker has one descriptor, with the number KEPT_ONLY */
	KEPT_MASTER = 6, /* the master key (base/master-key.h) */
	KEPT_STATUS = 7, /* the status file, with its lock */
	KEPT_OWNER = 8,  /* the broker's end of the owner's socket */
	KEPT_LEDGER = 9, /* the ledger */
	KEPT_CONFIG = 10, /* a copy of the configuration file that was read last */
	KEPT_LISTENER = 11, /* the socket that clients connect to, its lock, its file, and broker-run's its directory */
	KEPT_LISTENER_LOCK = 12,
	KEPT_LISTENER_FILE = 13,
	KEPT_LISTENER_DIRECTORY = 14
};

/* Returns the key under which the keeper has the descriptor; 0: no object has such a number. */
uint64_t keep_key(enum kept_kind kind, uint64_t number);

#define KEPT_ONLY 1 /* number of the only descriptor of its kind */

enum kept_kind keep_kind_of(uint64_t key);
uint64_t keep_number_of(uint64_t key);

#define KEEP_OF_SLOT 2 /* largest number of descriptors of an object: a session's */

struct keep_slot {
	uint64_t key[KEEP_OF_SLOT]; /* what the keeper has for the object in the slot; 0: nothing */
};

struct keep {
	struct broker    *broker;
	struct line      *line;
	struct keep_slot *slot;  /* by slot of the tracking */
	uint64_t         *drops; /* keys that are dropped after the commit */
	uint32_t          count; /* number of `drops` */
	uint32_t          room;  /* number of slots that both arrays have memory for */
	unsigned          lost;  /* number of PUTs that could not be sent */
	bool              frees; /* memory or a socket is among the DROPs since the fence was sent */
	int               fence; /* end for reading of the pipe; negative: no fence is under way */
	struct event     *passed; /* event: the keeper has carried out what was sent before the fence */
};

/*
 * Begins to keep what the broker notes, through the line, which stays the caller's. From then on RELEASEs and the
 * closes of sockets wait for the keeper. Called after note_begin() or note_go_on(), before the first commit. Returns 0,
 * or -ENOMEM with the error message set.
 */
int keep_begin(struct broker *broker, struct keep *keep, struct line *line);

/* Makes room for the slots. Returns 0, or -ENOMEM with the error message set. */
int keep_reserve(struct keep *keep, uint32_t slots);

/*
 * Called for each slot after a load: what a broker before this one had kept for the slot's object is kept. had() tells
 * whether that one had kept something under the key.
 */
void keep_loaded(struct keep *keep, bool (*had)(void *context, uint64_t key), void *context);

/* Sends the PUTs that must precede the next commit. */
void keep_put(struct keep *keep);

/* Sends the DROPs that must follow the last commit. */
void keep_drop(struct keep *keep);

/*
 * Returns the end for reading of a pipe whose other end the keeper closes when it has carried out all that was sent
 * before; the caller's. Or a negative errno with the error message set. number: of the fences that are under way at
 * one time, each has another one.
 */
int keep_fence(struct line *line, uint64_t number);

/* Nothing is kept any more from now on, and nothing waits for the keeper. Does nothing if it has not begun. */
void keep_end(struct keep *keep);

#endif
