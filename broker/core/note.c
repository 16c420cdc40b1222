/* SPDX-License-Identifier: Apache-2.0 */
/* note.c - see note.h */
#include "note.h"

#include <stdbool.h>
#include <string.h>

#include "broker/base/context.h"
#include "broker/memory/jobs.h"
#include "broker/memory/restore.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/request/delegation.h"
#include "broker/request/reclaim.h"
#include "broker/session/discard.h"
#include "broker/session/outbox.h"
#include "broker/session/restore.h"
#include "broker/session/session.h"
#include "keep.h"

#define OVERSIZED 8 /* times as many slots as a new ledger would have */

#define OBJECT(pointer, type) ((const type *)((const char *)(pointer) - offsetof(type, tracked)))

union record {
	struct allocation_record allocation;
	struct cleaning_record   cleaning;
	struct buffer_record     buffer;
	struct mapping_record    mapping;
	struct grant_record      grant;
	struct timeline_record   timeline;
	struct ticket_record     ticket;
	struct session_record    session;
	struct pending_record    pending;
	struct owed_record       owed;
};

_Static_assert(sizeof(struct hand) <= LEDGER_HAND, "the hand fits into the ledger");
_Static_assert(sizeof(union record) <= LEDGER_RECORD_MAX && sizeof(struct counters) <= LEDGER_RECORD_MAX,
	       "records fit into slots");

static void fill_session(const struct tracked *tracked, union record *record)
{
	session_note(OBJECT(tracked, struct session), &record->session);
}

static void fill_buffer(const struct tracked *tracked, union record *record)
{
	buffer_note(OBJECT(tracked, struct buffer), &record->buffer);
}

static void fill_mapping(const struct tracked *tracked, union record *record)
{
	mapping_note(OBJECT(tracked, struct mapping), &record->mapping);
}

static void fill_grant(const struct tracked *tracked, union record *record)
{
	grant_note(OBJECT(tracked, struct grant), &record->grant);
}

static void fill_timeline(const struct tracked *tracked, union record *record)
{
	timeline_note((const struct timeline *)((const char *)tracked - offsetof(struct timeline, shown.tracked)),
		      &record->timeline);
}

static void fill_allocation(const struct tracked *tracked, union record *record)
{
	allocation_note(OBJECT(tracked, struct allocation), &record->allocation);
}

static void fill_cleaning(const struct tracked *tracked, union record *record)
{
	reclaim_note(tracked, &record->cleaning);
}

static void fill_ticket(const struct tracked *tracked, union record *record)
{
	delegation_note(tracked, &record->ticket);
}

static void fill_pending(const struct tracked *tracked, union record *record)
{
	pending_note(OBJECT(tracked, struct pending), &record->pending);
}

static void fill_owed(const struct tracked *tracked, union record *record)
{
	outbox_note(tracked, &record->owed);
}

/* The types of objects that the ledger has. */
static const struct kind {
	size_t size;
	void (*fill)(const struct tracked *tracked, union record *record);
} kinds[TRACKED_TYPES] = {
	[TRACKED_SESSION] = { sizeof(struct session_record), fill_session },
	[TRACKED_BUFFER] = { sizeof(struct buffer_record), fill_buffer },
	[TRACKED_MAPPING] = { sizeof(struct mapping_record), fill_mapping },
	[TRACKED_GRANT] = { sizeof(struct grant_record), fill_grant },
	[TRACKED_TIMELINE] = { sizeof(struct timeline_record), fill_timeline },
	[TRACKED_ALLOCATION] = { sizeof(struct allocation_record), fill_allocation },
	[TRACKED_CLEANING] = { sizeof(struct cleaning_record), fill_cleaning },
	[TRACKED_TICKET] = { sizeof(struct ticket_record), fill_ticket },
	[TRACKED_PENDING] = { sizeof(struct pending_record), fill_pending },
	[TRACKED_OWED] = { sizeof(struct owed_record), fill_owed },
};

_Static_assert((unsigned)TRACKED_TYPES <= NOTE_HAND, "types of records are numbered once");

size_t note_size(unsigned type)
{
	return type < TRACKED_TYPES	? kinds[type].size :
	       type == NOTE_NUMBERS	? sizeof(struct numbers_record) :
	       type == NOTE_COUNTERS	? sizeof(struct counters) :
	       type == NOTE_HAND	? sizeof(struct hand_record) :
					  0;
}

static int make_room(void *context, uint32_t slots)
{
	struct broker *broker = context;
	struct note *note = broker->note;

	int error = note->keep ? keep_reserve(note->keep, slots) : 0;

	return error ? error : ledger_reserve(&note->ledger, NOTE_SLOTS + slots);
}

static void mark_all(struct tracking *tracking)
{
	for (uint32_t slot = 0; slot < tracking->slots; slot++)
		tracking_put(tracking, SINK_LEDGER, slot);
}

static void begin(struct broker *broker, struct note *note)
{
	struct tracking *tracking = broker->tracking;

	tracking->reserve = make_room;
	tracking->context = broker;
	broker->note = note;
	broker->notes = true;
	broker->sessions->hand = ledger_hand(&note->ledger);
	broker->sessions->pendings.tracking = tracking;
	mark_all(tracking);
}

int note_begin(struct broker *broker, struct note *note)
{
	int error;

	memset(note, 0, sizeof *note);
	error = ledger_create(&note->ledger, NOTE_SLOTS + broker->tracking->room);
	if (!error)
		begin(broker, note);
	return error;
}

int note_go_on(struct broker *broker, struct note *note, int fd)
{
	int error;

	memset(note, 0, sizeof *note);
	error = ledger_go_on(&note->ledger, fd);
	if (!error)
		error = ledger_reserve(&note->ledger, NOTE_SLOTS + broker->tracking->room);
	if (error) {
		ledger_destroy(&note->ledger);
		return error;
	}
	note->loading = true;
	begin(broker, note);
	return 0;
}

void note_end(struct broker *broker, struct note *note)
{
	if (!broker->notes)
		return;
	broker->notes = false;
	broker->note = NULL;
	broker->tracking->reserve = NULL;
	broker->sessions->hand = &broker->sessions->own_hand;
	broker->sessions->pendings.tracking = NULL;
	ledger_destroy(&note->ledger);
}

static void put_changed(struct ledger *ledger, struct tracking *tracking)
{
	while (tracking->changes[SINK_LEDGER].count) {
		uint32_t slot = tracking_take(tracking, SINK_LEDGER);
		const struct tracked *tracked = tracking->at[slot];
		unsigned type = tracked ? tracked->type : TRACKED_NONE;
		union record record;

		if (kinds[type].fill) {
			kinds[type].fill(tracked, &record);
			ledger_put(ledger, NOTE_SLOTS + slot, (uint16_t)type, &record, kinds[type].size);
		} else {
			ledger_free(ledger, NOTE_SLOTS + slot);
		}
	}
}

/* Frees the slots that no object has had in this broker. */
static void free_others(struct ledger *ledger, const struct tracking *tracking)
{
	for (uint32_t slot = NOTE_SLOTS + tracking->slots; slot < ledger->slots; slot++)
		ledger_free(ledger, slot);
}

static struct numbers_record numbers_of(const struct broker *broker)
{
	return (struct numbers_record){ .serial = broker->registry->next_serial,
					.mapping = broker->registry->next_mapping,
					.allocation = broker->memory->next,
					.session = broker->sessions->next_id,
					.order = broker->jobs->numbers,
					.addresses = broker->memory->addresses.random };
}

static void put_numbers(struct broker *broker, struct note *note)
{
	const struct numbers_record numbers = numbers_of(broker);

	if (note->loading || memcmp(&numbers, &note->numbers, sizeof numbers))
		ledger_put(&note->ledger, NOTE_NUMBERS_SLOT, NOTE_NUMBERS, &numbers, sizeof numbers);
	note->numbers = numbers;
}

static void put_counters(struct broker *broker, struct note *note)
{
	if (note->loading || memcmp(&broker->counters, &note->counters, sizeof note->counters))
		ledger_put(&note->ledger, NOTE_COUNTERS_SLOT, NOTE_COUNTERS, &broker->counters,
			   sizeof broker->counters);
	note->counters = broker->counters;
}

static void put_hand(struct broker *broker, struct note *note)
{
	const struct hand_record hand = { broker->sessions->hand->number, broker->sessions->done };

	if (note->loading || memcmp(&hand, &note->hand, sizeof hand))
		ledger_put(&note->ledger, NOTE_HAND_SLOT, NOTE_HAND, &hand, sizeof hand);
	note->hand = hand;
}

/* Descriptors are kept before the commit that implies them, and dropped after the one that implies them no more. */
static void commit(struct broker *broker, struct note *note)
{
	if (note->keep)
		keep_put(note->keep);
	outboxes_note(&broker->sessions->outboxes);
	if (note->loading) {
		mark_all(broker->tracking);
		free_others(&note->ledger, broker->tracking);
	}
	put_numbers(broker, note);
	put_hand(broker, note);
	put_changed(&note->ledger, broker->tracking);
	put_counters(broker, note);
	ledger_commit(&note->ledger);
	broker->tracking->urgent = false;
	if (note->keep)
		keep_drop(note->keep);
}

/* Whether there is more to note than which messages were answered. A refusal is counted, so it is noted. */
static bool must_commit(const struct broker *broker, const struct note *note)
{
	const struct numbers_record numbers = numbers_of(broker);

	return broker->tracking->urgent || memcmp(&numbers, &note->numbers, sizeof numbers) ||
	       memcmp(&broker->counters, &note->counters, sizeof note->counters);
}

void note_commit(struct broker *broker, struct note *note)
{
	if (note->loading)
		return;
	if (must_commit(broker, note))
		commit(broker, note);
	else if (note->keep && (discard_holds_any(broker->discard) || jobs_hold_any(broker->jobs)))
		keep_drop(note->keep);
}

/* Whether a new ledger would be much smaller: each next broker reads all of it. */
static bool is_oversized(const struct broker *broker, const struct note *note)
{
	return note->ledger.slots > OVERSIZED * (NOTE_SLOTS + broker->tracking->room);
}

static int replace_ledger(struct broker *broker, struct note *note)
{
	struct ledger last = note->ledger;
	int error = ledger_create(&note->ledger, NOTE_SLOTS + broker->tracking->room);

	if (error) {
		note->ledger = last;
		return error;
	}
	broker->sessions->hand = ledger_hand(&note->ledger);
	memcpy(broker->sessions->hand, ledger_hand(&last), LEDGER_HAND);
	ledger_destroy(&last);
	return 0;
}

int note_loaded(struct broker *broker, struct note *note, bool damaged)
{
	bool replaced = damaged || is_oversized(broker, note);
	int error = replaced ? replace_ledger(broker, note) : 0;

	if (error)
		return error;
	commit(broker, note);
	note->loading = false;
	return replaced;
}
