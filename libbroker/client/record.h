/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what this process knows of one buffer on one device: its mapping, its slots.
 *
 * The state is one word: id of the mapping << 2 | enum record_state, rstate and mapping in the model (tests/model/).
 * While a hold (hold.h) exists that was published before the record was found OPEN, all other members stay as they are:
 * a close sets CLOSING first and scans the slots after that. Records are reused for other buffers but never freed,
 * because stale leases lead to them (records.h).
 */
#ifndef GPUB_RECORD_H
#define GPUB_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/name.h"
#include "device/device.h"
#include "slot.h"
#include "view.h"

struct mapping;
struct timeline_map;

enum record_state { RECORD_NONE = 0, RECORD_REQUESTED, RECORD_OPEN, RECORD_CLOSING };

#define RECORD_WORD(mapping, state) ((uint64_t)(mapping) << 2 | (uint64_t)(state))
#define RECORD_STATE(word)          ((enum record_state)((word) & 3))
#define RECORD_MAPPING(word)        ((word) >> 2)

#define NAME_WORDS  (NAME_SIZE / 8)
#define SLOT_BLOCKS 12 /* blocks of slots at most; they have 2, 4, 8 ... slots */
#define SLOTS_FIRST 2u

struct record {
	/* what an acquire and a renew read: one cache line; the key is in the next line, which is fetched as well */
	_Alignas(128) _Atomic uint64_t state;       /* RECORD_WORD() */
	const _Atomic uint64_t *_Atomic generation; /* the buffer's generation word in the board, W in the model */
	/* from here to lease_device: constant while OPEN or CLOSING, except the atomic members */
	uint64_t                live;       /* value of *generation while the buffer is live */
	void *_Atomic           ptr[VIEWS]; /* the buffer's address in each view; NULL: the view is not mapped yet */
	uint64_t                size;
	_Atomic uint32_t        rights; /* rights that leases may have; acquires add some, a seal removes GPUB_WRITE */
	int32_t                 lease_device; /* member `device` of leases: the ordinal, or GPUB_HOST */
	_Atomic uint32_t        index;  /* part of the key: the broker's index of the device of the mapping */
	_Atomic uint32_t        blocks; /* number of blocks of slots; stored after last */

	struct slot *_Atomic last;         /* the last block, which has two more slots than all other blocks together */
	_Atomic uint64_t name[NAME_WORDS]; /* part of the key: the name; changed under the table's sequence lock */
	uint64_t         hash;             /* hash of the key */

	/* constant while OPEN or CLOSING */
	struct mapping      *mapping;
	_Atomic uint64_t     serial;
	uint64_t             offset; /* bytes from the beginning of the allocation */
	uint64_t             room;   /* bytes from offset on that belong to no other buffer */
	uint32_t             flags;  /* as gpub_info.flags */
	uint32_t             owner;  /* uid of the buffer's owner when it was granted */
	gpub_layout          layout;
	int32_t              ordinal; /* the device's ordinal in this process */
	struct timeline_map *_Atomic timeline; /* NULL: the buffer has no timeline */
	struct device_watch  watch[VIEWS]; /* by view: to detect writes beyond the buffer */

	struct slot     *block[SLOT_BLOCKS]; /* the blocks of slots; added, never removed */
	_Atomic uint32_t cursor; /* hint: number of the slot that the last scan found idle */

	/* under the client's lock */
	uint32_t       number;   /* index in record_arena.numbered, and low bits of the record's request numbers */
	uint64_t       request;  /* number of the latest ACQUIRE or REDEEM */
	struct waiter *waiters;  /* list of callers that wait for the state to change */
	bool           attached; /* the record is in the table */
	bool           forced;   /* a reset ended a held lease; a call with that lease may still use the timeline */
	bool           unlinked; /* the buffer was unlinked; the record is in client->due */
	bool           sealed;   /* this process knows that the buffer is sealed: record_add_rights() leaves GPUB_WRITE out */
	uint64_t       passed[2]; /* number of the last cache_retire() that visited the record, by its argument sync */
	struct record *due_prev, *due_next; /* in client->due */
	struct record *mapping_prev, *mapping_next; /* in mapping->records */
	struct record *next;                        /* in record_arena.all */
	struct record *free_prev, *free_next;       /* in record_arena.free */
};

/* The buffer's name for messages. A buffer of a ticket has no name, but a key that begins with '#' (delegate.c). */
static inline const char *record_title(const struct record *record)
{
	const char *name = (const char *)record->name;

	return *name == '#' ? "(of a ticket)" : name;
}

/* A caller that waits for the state of a record to change. On the caller's stack. */
struct waiter {
	uint64_t       state; /* the record's state when the wait began; the wait ends when the state differs */
	bool           done;  /* the record was released, or leaked */
	int            error; /* if done: negative errno of the release; 0: the buffer was closed */
	char           text[ERROR_TEXT_MAX]; /* error message, if error is not 0 */
	struct waiter *next;                 /* in record->waiters */
};

#define RECORD_NUMBER_BITS 24 /* low bits of a request's number: the number of its record */

#define RECORDS_FREE_MIN 256
#define SLOTS_CROWDED    (SLOTS_MAX / 4) /* if more slots are in use, free_min does not count */

/*
 * All records of a client. The free list is first in, first out, and keeps at least free_min records, because the
 * last leases of a buffer can be renewed until its record is reused. A record that was never open has no leases, and
 * goes to the front.
 */
struct record_arena {
	struct record  *all; /* list of all records */
	struct record  *free; /* list of free records; usually the head is reused first */
	uint32_t        free_count; /* length of the list free */
	uint32_t        free_min;   /* if free has no more records than this, a new one is made */
	struct record **numbered; /* array of all records by number */
	uint32_t        count;    /* number of records */
	uint32_t        room;     /* size of numbered, in records */
};

#endif
