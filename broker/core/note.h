/* SPDX-License-Identifier: Apache-2.0 */
/*
 * note.h - writes what must survive this broker into its ledger (ledger/ledger.h), object by object.
 *
 * Each object that must survive has a slot (base/tracked.h); its room fills its record. Writes a record only when its
 * object has changed, and counters and next numbers when they have. Owns the ledger. Never reads it: load.h does.
 *
 * A piece of work that has changed nothing and is not counted, such as a question, is not noted: a next broker handles
 * its packet, which is in hand, again. A refusal is counted, because the reason for it may be gone by then. That an
 * answer was sent is no reason for a commit either: the next broker sends it again, and the client drops it. Both come
 * with the next commit. An answer that waits for room is a reason for one, before the next packet is received
 * (sessions_commit()).
 */
#ifndef GPUB_NOTE_H
#define GPUB_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/base/counters.h"
#include "broker/base/tracked.h"
#include "broker/ledger/ledger.h"
#include "broker/session/session.h"

struct broker;
struct keep;

/* Types of records of no object; the others are those of enum tracked_type. */
#define NOTE_NUMBERS  (LEDGER_TYPES - 1)
#define NOTE_COUNTERS (LEDGER_TYPES - 2)
#define NOTE_HAND     (LEDGER_TYPES - 3)

/* Slots of the ledger before those of the objects. */
enum note_slot { NOTE_NUMBERS_SLOT, NOTE_COUNTERS_SLOT, NOTE_HAND_SLOT, NOTE_SLOTS = 8 };

/* The next numbers to give, which are never used twice. */
struct numbers_record {
	uint64_t serial;     /* registry.next_serial */
	uint64_t mapping;    /* registry.next_mapping */
	uint64_t allocation; /* memory.next */
	uint64_t session;    /* sessions.next_id */
	uint64_t order;      /* jobs.numbers */
	uint64_t addresses;  /* the random number of addresses_init() */
};

struct note {
	struct ledger         ledger;
	struct keep          *keep;     /* has the descriptors kept that the records imply (keep.h); NULL: no keeper */
	struct numbers_record numbers;  /* as last written */
	struct counters       counters; /* as last written */
	struct hand_record    hand;     /* as last written */
	bool                  loading;  /* nothing is noted until note_loaded() */
};

/*
 * Makes an empty ledger, which has the hand of the sessions, too. Returns 0 or a negative errno with the error message
 * set.
 */
int note_begin(struct broker *broker, struct note *note);

/*
 * As note_begin(), but goes on with the ledger `fd` of the broker before this one, which keeps what it has until
 * note_loaded(). fd stays the caller's. New memory for all records takes a third of a pause
 * (bench/README.md, "What survival costs").
 */
int note_go_on(struct broker *broker, struct note *note, int fd);

/*
 * Notes all objects, after those of that ledger were loaded, in one commit. Returns 0; or 1: in a new ledger, because
 * the other one is damaged, or many times as large; or a negative errno with the error message set, and then nothing is
 * noted.
 */
int note_loaded(struct broker *broker, struct note *note, bool damaged);

/* Does nothing if note_begin() was not called. */
void note_end(struct broker *broker, struct note *note);

/*
 * Commits all changes since the last commit, if there are others than that messages were answered. Does nothing while
 * another broker's ledger is loaded. Cannot fail.
 */
void note_commit(struct broker *broker, struct note *note);

/* Bytes of the records of a type; 0: there is none. */
size_t note_size(unsigned type);

#endif
