/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what this process knows of one buffer on one device: its grant, its mapping, its slots.
 *
 * The state is one word: grant << 2 | enum record_state, M in the model (tests/model/README.md). A hold (hold.h) that
 * was published and then found the record OPEN pins all other members: a close sets CLOSING first and scans the slots
 * after that. Records are reused for other buffers but never freed, because stale leases lead to them (records.h).
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

#define RECORD_WORD(grant, state) ((uint64_t)(grant) << 2 | (uint64_t)(state))
#define RECORD_STATE(word)        ((enum record_state)((word) & 3))
#define RECORD_GRANT(word)        ((word) >> 2)

#define NAME_WORDS  (NAME_SIZE / 8)
#define SLOT_BLOCKS 12 /* of 2, 4, 8 ... slots */
#define SLOTS_FIRST 2u

struct record {
	/* what an acquire and a renew read: one cache line, and the key in the line that is fetched with it */
	_Alignas(128) _Atomic uint64_t state;       /* RECORD_WORD() */
	const _Atomic uint64_t *_Atomic generation; /* the buffer's generation word in the board, W in the model */
	/* from here to lease_device fixed while OPEN or CLOSING, but for what is atomic */
	uint64_t                live;       /* the generation word while the buffer is live */
	void *_Atomic           ptr[VIEWS]; /* the buffer in its mapping; NULL: that view is not mapped yet */
	uint64_t                size;
	_Atomic uint32_t        rights; /* with GPUB_MINE where the owner allows it; acquires add to them, a seal takes GPUB_WRITE */
	int32_t                 lease_device;
	_Atomic uint32_t        index;  /* of the key: the broker's index of the device that the buffer is opened on */
	_Atomic uint32_t        blocks; /* of slots; changed after last */

	struct slot *_Atomic last;         /* the last block of slots: two more slots than in all blocks before it */
	_Atomic uint64_t name[NAME_WORDS]; /* the key, changed under the table's sequence lock */
	uint64_t         hash;

	/* fixed while OPEN or CLOSING */
	struct mapping      *mapping;
	_Atomic uint64_t     serial;
	uint64_t             offset; /* in its allocation */
	uint64_t             room;   /* bytes from there on that belong to no other buffer */
	uint32_t             flags, owner; /* owner: uid, when it was mapped */
	gpub_layout          layout;
	int32_t              ordinal;
	struct timeline_map *_Atomic timeline;
	struct device_watch  watch[VIEWS]; /* for overruns */

	struct slot     *block[SLOT_BLOCKS]; /* added, never removed */
	_Atomic uint32_t cursor; /* hint: where the last scan of all slots found a free one */

	/* under the client's lock */
	uint32_t       number;   /* among all records */
	uint64_t       request;  /* REQUESTED: the number of its ACQUIRE */
	struct waiter *waiters;  /* callers that wait for its state to change */
	bool           attached; /* in the table */
	bool           forced;   /* a reset ended a lease of it: a call that was given that lease may be under way */
	bool           unlinked; /* its buffer is: in client->due */
	bool           sealed;   /* its buffer is, as gpub_seal() learned: GPUB_WRITE is not added any more */
	uint64_t       passed[2]; /* the last pass of cache_retire() that came to it, without and with synchronising */
	struct record *due_prev, *due_next;
	struct record *mapping_prev, *mapping_next; /* in the mapping's list */
	struct record *next;                        /* among all records */
	struct record *free_prev, *free_next;
};

/* The buffer's name, for messages. A buffer that was redeemed has a key instead, which begins with '#' (delegate.c). */
static inline const char *record_title(const struct record *record)
{
	const char *name = (const char *)record->name;

	return *name == '#' ? "(of a ticket)" : name;
}

/* A caller that waits for a record, on that caller's stack. */
struct waiter {
	uint64_t       state; /* it waits until the record has another one */
	bool           done;  /* the record was released */
	int            error; /* why; 0: it was closed */
	char           text[ERROR_TEXT_MAX];
	struct waiter *next;
};

#define RECORD_NUMBER_BITS 24

#define RECORDS_FREE_MIN 256
#define SLOTS_CROWDED    (SLOTS_MAX / 4) /* when more slots than these are in use, the minimum does not count */

/*
 * The free list is first in, first out, and keeps at least free_min records: until a record is reused, the last leases
 * of its buffer can be renewed. One that was never open has no leases, and goes to the front.
 */
struct record_arena {
	struct record  *all;
	struct record  *free;
	uint32_t        free_count, free_min;
	struct record **numbered;
	uint32_t        count, room;
};

#endif
