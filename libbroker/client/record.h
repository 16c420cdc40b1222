/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - what this process knows of one buffer on one device: its grant, its mapping, its slots.
 *
 * mapping is the M of the model (tests/model/README.md): grant << 2 | state in one word. A hold (hold.h) that was
 * published and then found OPEN pins everything else here: the closer goes CLOSING first and looks at the slots after
 * that. Records are recycled for other buffers but never freed, for stale leases lead to them (records.h).
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

struct mapping;
struct timeline_map;

enum record_state { RECORD_NONE = 0, RECORD_REQUESTED, RECORD_OPEN, RECORD_CLOSING };

#define RECORD_MAPPING(grant, state) ((uint64_t)(grant) << 2 | (uint64_t)(state))
#define RECORD_STATE(mapping)        ((enum record_state)((mapping) & 3))
#define RECORD_GRANT(mapping)        ((mapping) >> 2)

#define NAME_WORDS  (NAME_SIZE / 8)
#define SLOT_BLOCKS 12 /* of 2, 4, 8 ... slots */
#define SLOTS_FIRST 2u

struct record {
	/* what an acquire and a renew read: a line, and the key's in the one that comes with it */
	_Alignas(128) _Atomic uint64_t mapping;
	const _Atomic uint64_t *_Atomic word; /* W: the buffer's word in the board. From here to lease_device: */
	uint64_t                live; /* what it says while the buffer is live; fixed while OPEN or CLOSING */
	void                   *ptr;  /* the buffer in its mapping */
	uint64_t                size;
	uint32_t                rights; /* with GPUB_MINE, where that may be demanded */
	int32_t                 lease_device;
	struct slot *_Atomic    last;   /* the last block of slots, as long as all before it and two more */
	_Atomic uint32_t        blocks; /* so many are there; never fewer than last says */
	_Atomic uint32_t        index;  /* the broker's index of the device it is opened on; the key's, as is: */

	_Atomic uint64_t name[NAME_WORDS]; /* changed under the table's sequence lock */
	uint64_t         hash;

	/* fixed while OPEN or CLOSING */
	struct mapping      *on; /* what it is a part of */
	_Atomic uint64_t     serial;
	uint32_t             flags, owner; /* owner: uid, when it was mapped */
	int32_t              ordinal;
	struct timeline_map *_Atomic timeline;
	struct device_watch  watch; /* where the device looks for overruns */

	/* blocks are added, never removed */
	struct slot     *block[SLOT_BLOCKS];
	_Atomic uint32_t cursor; /* where a free slot was found last by who looked through all: a hint */

	/* under the client's lock */
	uint32_t       number;   /* of the record, among all */
	uint64_t       request;  /* REQUESTED: the number of its ACQUIRE */
	struct waiter *waiters;  /* callers that wait for it to change */
	bool           attached; /* in the table */
	bool           forced;   /* a lease of it was ended by a reset: a call that was given that may be under way */
	bool           noticed;  /* its buffer is unlinked: in client->due */
	uint64_t       passed[2]; /* the last pass of cache_retire() that came to it, without and with synchronising */
	struct record *due_prev, *due_next;
	struct record *on_prev, *on_next; /* on its mapping */
	struct record *next;
	struct record *rest_prev, *rest_next;
};

/* A caller that waits for a record. Lies on that caller's stack. */
struct waiter {
	uint64_t       mapping; /* what it waits to change from */
	int            error;   /* set when the record was released: why, and done */
	bool           done;
	char           text[ERROR_TEXT_MAX];
	struct waiter *next;
};

#define RECORD_NUMBER_BITS 24

#define RECORDS_REST  256
#define SLOTS_CROWDED (SLOTS_MAX / 4) /* with more than these no record rests */

struct record_pool {
	struct record  *all;
	struct record  *rested; /* free, the first given back first, but for those that never were open */
	uint32_t        resting; /* so many are */
	uint32_t        rest;    /* more than so many, or none serves again: until then its last leases can be renewed */
	struct record **numbered;
	uint32_t        count, room;
};

#endif
