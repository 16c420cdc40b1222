/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what this process knows of one buffer on one device: its mapping, its slots.
 *
 * The state is one word: id of the mapping << 2 | enum record_state, rstate and mapping in the model (tests/model/).
 * While a hold (hold.h) exists that was published before the record was found OPEN, the members that are constant while
 * the record is OPEN stay as they are, because a close sets CLOSING first and scans the slots after that. Records are
 * reused for other buffers but never freed, because stale leases lead to them (records.h).
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
#define SLOT_BLOCKS 12 /* blocks of slots of one record at most; the blocks have 2, 4, 8 ... slots */
#define SLOTS_FIRST 2u

struct record {
	/* an acquire and a renew read the members from here to blocks, one cache line, and the key in the next line */
	_Alignas(128) _Atomic uint64_t state;       /* RECORD_WORD() */
	const _Atomic uint64_t *_Atomic generation; /* the buffer's generation word in the board, W in the model */
	/* from here to lease_device: constant while the record is OPEN or CLOSING, except the atomic members */
	uint64_t                live;       /* the value that *generation has while the buffer is live */
	void *_Atomic           ptr[VIEWS]; /* the buffer's address in each view; NULL: the view is not mapped yet */
	uint64_t                size;
	/* rights that leases may have; acquires add rights, a seal removes GPUB_WRITE */
	_Atomic uint32_t        rights;
	int32_t                 lease_device; /* gpub_lease.device of the record's leases: the ordinal, or GPUB_HOST */
	_Atomic uint32_t        index;  /* part of the key: the broker's index of the device that maps the memory */
	_Atomic uint32_t        blocks; /* number of blocks of slots; stored after `last` */

	struct slot *_Atomic last;         /* the last block, which has two more slots than all other blocks together */
	/* part of the key: the buffer's name; changed under the table's sequence lock */
	_Atomic uint64_t name[NAME_WORDS];
	uint64_t         hash;             /* hash of the record's key in client->table */

	/* these members, but for `watch`, are constant while the record is OPEN or CLOSING and not leaked */
	struct mapping      *mapping;
	_Atomic uint64_t     serial;
	uint64_t             offset; /* bytes from the beginning of the allocation to the buffer */
	uint64_t             room;   /* bytes, from `offset` of the allocation on, that belong to no other buffer */
	uint32_t             flags;  /* the buffer's flags, as in gpub_info.flags */
	uint32_t             owner;  /* uid of the buffer's owner when the broker granted the buffer */
	gpub_layout          layout;
	int32_t              ordinal; /* ordinal, in this process, of the device that maps the memory */
	struct timeline_map *_Atomic timeline; /* the buffer's timeline; NULL: the buffer has none */
	struct device_watch  watch[VIEWS]; /* the device's watch of each view, which detects writes beyond the buffer */

	struct slot     *block[SLOT_BLOCKS]; /* the record's blocks of slots, which are added and never removed */
	_Atomic uint32_t cursor; /* hint: number, in the record, of the slot that the last scan found idle */

	/* the members from here on are under client->lock */
	uint32_t       number;   /* index in record_arena.numbered, and low bits of the record's request numbers */
	uint64_t       request;  /* number of the latest ACQUIRE or REDEEM that was sent for the record */
	struct waiter *waiters;  /* list of the callers that wait for `state` to change */
	bool           attached; /* the record is in client->table */
	bool           forced;   /* a reset ended a held lease; a call with that lease may still use the timeline */
	bool           unlinked; /* the buffer was unlinked, and the record is in the list client->due */
	bool           sealed;   /* this process knows that the buffer is sealed: leases get no GPUB_WRITE any more */
	uint64_t       passed[2]; /* number of the last cache_retire() that visited the record, without and with sync */
	struct record *due_prev, *due_next; /* links of the list client->due */
	struct record *mapping_prev, *mapping_next; /* links of the list mapping->records */
	struct record *next;                        /* link of the list record_arena.all */
	struct record *free_prev, *free_next;       /* links of the list record_arena.free */
};

/*
 * Returns the buffer's name for error messages. A buffer that came by a ticket has no name here, but a key that begins
 * with '#' (delegate.c).
 */
static inline const char *record_title(const struct record *record)
{
	const char *name = (const char *)record->name;

	return *name == '#' ? "(of a ticket)" : name;
}

/* A caller that waits for the state of a record to change. On the caller's stack, or an item of acquire-many.c. */
struct waiter {
	uint64_t       state; /* the record's state when the wait began; the wait ends when the state differs */
	bool           done;  /* the record was released (record_release()) or leaked (record_leak()) */
	int            error; /* if done: negative errno for the caller; 0: the buffer was closed */
	char           text[ERROR_TEXT_MAX]; /* the error message, if `error` is not 0 */
	struct waiter *next;                 /* link of the list record->waiters */
};

/* The low bits of a request's number are its record's number (record->number); there are as many as this. */
#define RECORD_NUMBER_BITS 24

#define RECORDS_FREE_MIN 256
#define SLOTS_CROWDED    (SLOTS_MAX / 4) /* if more slots than this are in use, records are reused despite free_min */

/*
 * All records of a client. The list `free` is first in, first out, and keeps at least free_min records, unless slots
 * (SLOTS_CROWDED) or memory are short, because the last leases of a buffer can be renewed until its record is reused. A
 * record that was never open has no leases, and goes to the front of `free`.
 */
struct record_arena {
	struct record  *all; /* list of all records */
	struct record  *free; /* list of free records; usually the head is reused first */
	uint32_t        free_count; /* length of the list `free` */
	/* if `free` has no more records than this, a new record is made instead of a reuse */
	uint32_t        free_min;
	struct record **numbered; /* array of all records, indexed by record.number */
	uint32_t        count;    /* number of records in `numbered` */
	uint32_t        room;     /* number of records for which `numbered` has room */
};

#endif
