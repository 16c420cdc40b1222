/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - see load.h */
#include "load.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/memory/addresses.h"
#include "broker/memory/jobs.h"
#include "broker/memory/pool.h"
#include "broker/memory/restore.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/mappings.h"
#include "broker/registry/marks.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/request/delegation.h"
#include "broker/request/inquiry.h"
#include "broker/request/manage.h"
#include "broker/session/outbox.h"
#include "broker/session/restore.h"
#include "broker/session/serve.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/tables.h"
#include "note.h"

/* An object that was made, by the number by which records name it. */
struct known {
	uint64_t       number;
	void          *object;
	UT_hash_handle hh;
};

/* The records of one type. */
struct records {
	struct ledger_record *at;
	size_t                count, room;
};

struct load {
	struct broker                 *broker;
	const struct kept_descriptors *kept;
	struct loaded                 *loaded;
	struct records                 records[LEDGER_TYPES]; /* by type */
	struct known                  *allocations, *mappings;
	struct known                  *renewed; /* buffers whose serial is not their first one */
	struct known                  *memories; /* the allocations by the number of their memory */
	int                           *lost; /* array of the lost_count pidfds of sessions whose records are damaged */
	unsigned                       lost_count;
	bool                           orphans; /* there are ephemeral buffers whose creator was ending */
	int                            error; /* -ENOMEM: the load cannot go on */
	char                           text[EVENT_TEXT_MAX]; /* what is wrong with the last damaged record */
};

/* ---- what was made ---- */

static void *known_find(struct known *const *table, uint64_t number)
{
	struct known *known;

	HASH_FIND(hh, *table, &number, sizeof number, known);
	return known ? known->object : NULL;
}

static int known_add(struct known **table, uint64_t number, void *object)
{
	struct known *known = calloc(1, sizeof *known);

	if (!known)
		return error_set(-ENOMEM, "the broker is out of memory");
	known->number = number;
	known->object = object;
	HASH_ADD(hh, *table, number, sizeof known->number, known);
	if (table_added(known))
		return 0;
	free(known);
	return error_set(-ENOMEM, "the broker is out of memory");
}

static void known_free(struct known **table, struct known *known)
{
	HASH_DELETE(hh, *table, known);
	free(known);
}

static void known_forget(struct known **table)
{
	struct known *known, *next;

	HASH_ITER(hh, *table, known, next)
		known_free(table, known);
}

static void damage(struct load *load)
{
	load->loaded->damaged++;
	snprintf(load->text, sizeof load->text, "%s", error_text());
}

/* Counts what has come of a record: 0, or the error of its room. */
static void count(struct load *load, int error)
{
	if (!error)
		load->loaded->objects++;
	else if (error == -EBADMSG)
		damage(load);
	else
		load->error = -ENOMEM;
}

static void leave_out(struct load *load)
{
	load->loaded->left_out++;
}

static int take_kept(const struct load *load, enum kept_kind kind, uint64_t number)
{
	return load->kept->take(load->kept->context, kind, number);
}

/* ---- one object ---- */

/* Has the next number be larger than one that is used, should the record of the numbers be damaged. */
static void raise_number(uint64_t *next, uint64_t used)
{
	if (*next <= used)
		*next = used + 1;
}

static void load_numbers(struct load *load, const void *bytes)
{
	const struct numbers_record *numbers = bytes;
	struct broker *broker = load->broker;

	broker->registry->next_serial = numbers->serial;
	broker->registry->next_mapping = numbers->mapping;
	broker->memory->next = numbers->allocation;
	broker->sessions->next_id = numbers->session;
	broker->jobs->numbers = numbers->order;
	addresses_deinit(&broker->memory->addresses);
	load->error = addresses_init(&broker->memory->addresses, (uint32_t)numbers->addresses);
}

static void load_counters(struct load *load, const void *bytes)
{
	load->broker->counters = *(const struct counters *)bytes;
}

/* Keeps the pidfd of a session whose record is damaged, for load_lost_sessions(). */
static void lose_session(struct load *load, int pidfd)
{
	int *more = reallocarray(load->lost, load->lost_count + 1, sizeof *more);

	if (!more) {
		close(pidfd);
		load->error = error_set(-ENOMEM, "the broker is out of memory");
		return;
	}
	load->lost = more;
	load->lost[load->lost_count++] = pidfd;
}

static void load_session(struct load *load, const void *bytes)
{
	const struct session_record *record = bytes;
	const struct session_descriptors kept = { record->hung_up ? -1 : take_kept(load, KEPT_SOCKET, record->id),
						  take_kept(load, KEPT_PIDFD, record->id) };
	int error = session_resume(load->broker, record, &kept);

	if (error && kept.sock >= 0)
		close(kept.sock);
	if (error && kept.pidfd >= 0)
		lose_session(load, kept.pidfd);
	if (!error && load->broker->sessions->next_id < record->id)
		load->broker->sessions->next_id = record->id;
	count(load, error);
}

/* What memory_restore() cannot know: the devices, and the other records. */
static int allocation_check(const struct load *load, const struct allocation_record *record)
{
	if (record->device >= load->broker->board->header->devices)
		return error_set(-EBADMSG, "the ledger's record of allocation %llu has an unknown device",
				 (unsigned long long)record->serial);
	if (known_find(&load->allocations, record->serial) || known_find(&load->memories, record->memory))
		return error_set(-EBADMSG, "the ledger has two records of allocation %llu, or of its memory",
				 (unsigned long long)record->serial);
	return 0;
}

static void load_allocation(struct load *load, const void *bytes)
{
	const struct allocation_record *record = bytes;
	struct allocation *allocation;
	int descriptor, error;

	if (record->state == ALLOCATION_MAKING)
		return; /* the request that needs the memory is made again */
	descriptor = record->has_descriptor ? take_kept(load, KEPT_MEMORY, record->memory) : -1;
	error = allocation_check(load, record);
	if (!error)
		error = memory_restore(load->broker->memory, record, descriptor, &allocation);
	if (error && descriptor >= 0)
		close(descriptor);
	if (!error)
		error = known_add(&load->allocations, record->serial, allocation);
	if (!error)
		error = known_add(&load->memories, record->memory, allocation);
	raise_number(&load->broker->memory->next, record->serial);
	raise_number(&load->broker->jobs->numbers, record->memory);
	count(load, error);
}

static void load_chunk(struct load *load, const void *bytes)
{
	const struct allocation_record *record = bytes;
	struct allocation *chunk = known_find(&load->allocations, record->serial);
	struct allocation *parent = record->parent ? known_find(&load->allocations, record->parent) : NULL;

	if (!record->parent || !chunk)
		return;
	if (parent && chunk != parent && record->chunk == parent->chunk_count + 1) {
		memory_restore_chunk(parent, chunk);
		return;
	}
	error_set(-EBADMSG, "the ledger's record of allocation %llu is of no chunk that can be",
		  (unsigned long long)record->serial);
	damage(load);
}

/* Whether the creator of the buffer was ending when the broker before this one did: that one would have unlinked it. */
static bool is_orphan(const struct buffer *buffer)
{
	return buffer->state == BUFFER_LIVE && buffer->flags & GPUB_EPHEMERAL && buffer->creator && !buffer->ephemerals;
}

/* Returns the restored buffer with the first serial, by which other records name it; NULL: there is none. */
static struct buffer *buffer_of(const struct load *load, uint64_t first)
{
	struct buffer *buffer = registry_find_any(load->broker->registry, first);

	return buffer && buffer->first == first ? buffer : known_find(&load->renewed, first);
}

static void load_buffer(struct load *load, const void *bytes)
{
	const struct buffer_record *record = bytes;
	struct allocation *allocation = known_find(&load->allocations, record->allocation);
	struct session *creator = session_find(load->broker, record->creator);
	struct buffer *buffer;
	int error;

	if (record->state == BUFFER_CREATING)
		return; /* its request is made again */
	if (!allocation) {
		leave_out(load);
		return;
	}
	error = registry_restore_buffer(load->broker->registry, record, allocation,
					creator ? &creator->ephemerals : NULL, &buffer);
	if (!error && record->first != record->serial)
		error = known_add(&load->renewed, record->first, buffer);
	if (!error)
		load->orphans |= is_orphan(buffer);
	raise_number(&load->broker->registry->next_serial, record->serial);
	count(load, error);
}

static void load_mapping(struct load *load, const void *bytes)
{
	const struct mapping_record *record = bytes;
	struct allocation *allocation = known_find(&load->allocations, record->allocation);
	struct session *session = session_find(load->broker, record->session);
	struct mapping *mapping;
	int error;

	if (!allocation || !session) {
		leave_out(load);
		return;
	}
	error = mapping_restore(load->broker->registry, record,
				&(struct mapping_party){ session, &session->mappings, session->who.uid }, allocation,
				&mapping);
	if (!error)
		error = known_add(&load->mappings, record->id, mapping);
	raise_number(&load->broker->registry->next_mapping, record->id);
	count(load, error);
}

static void load_grant(struct load *load, const void *bytes)
{
	const struct grant_record *record = bytes;
	struct mapping *mapping = known_find(&load->mappings, record->mapping);
	struct buffer *buffer = buffer_of(load, record->buffer);

	if (mapping && buffer)
		count(load, grant_restore(load->broker->registry, record, mapping, buffer));
	else
		leave_out(load);
}

static int timeline_make(struct load *load, const struct timeline_record *record, struct buffer *buffer, int page)
{
	struct broker *broker = load->broker;
	struct session *creator = session_find(broker, buffer->creator), *writer = session_find(broker, record->writer);
	const struct timeline_place place = { &broker->board->board.ends[buffer->place], buffer->serial };
	const struct grant *grant;
	int error = tracking_reserve(broker->tracking, 1);

	if (!error)
		error = charge_restore(&buffer->descriptors, broker->accounting, buffer->owner, RESOURCE_DESCRIPTORS,
				       TIMELINE_DESCRIPTORS);
	if (!error)
		error = timeline_restore(record, page, &place, creator ? &creator->timelines : NULL,
					 writer ? &writer->timelines : NULL, &buffer->timeline);
	if (error)
		return error == -ENOMEM ? error : -EBADMSG;
	marks_restore(broker->marks, buffer->timeline);
	inquiry_watch(broker, buffer->timeline);
	DL_FOREACH(buffer->grants, grant)
		inquiry_join(grant->mapping->session);
	if (record->writer && !writer)
		marks_end_timeline(broker->marks, buffer->timeline, true);
	return 0;
}

static void load_timeline(struct load *load, const void *bytes)
{
	const struct timeline_record *record = bytes;
	struct buffer *buffer = buffer_of(load, record->buffer);
	int page, error;

	if (!buffer) {
		leave_out(load);
		return;
	}
	page = buffer->timeline ? -1 : take_kept(load, KEPT_PAGE, record->buffer);
	error = page < 0 ? error_set(-EBADMSG, "no page is kept for the timeline of '%s'", buffer->name) :
			   timeline_make(load, record, buffer, page);
	if (error && page >= 0)
		close(page);
	count(load, error);
}

static void load_ticket(struct load *load, const void *bytes)
{
	const struct ticket_record *record = bytes;
	struct buffer *buffer = buffer_of(load, record->buffer);

	if (buffer)
		count(load, delegation_restore(load->broker, record, buffer));
	else
		leave_out(load);
}

static void load_cleaning(struct load *load, const void *bytes)
{
	const struct cleaning_record *record = bytes;
	struct allocation *allocation = known_find(&load->allocations, record->allocation);
	int error;

	if (!allocation || allocation->state == ALLOCATION_FREEING) {
		leave_out(load);
		return;
	}
	error = memory_restore_range(allocation, record->range);
	if (!error)
		memory_order_clean(load->broker->memory, allocation, record->range, record->serial);
	count(load, error);
}

static void load_pending(struct load *load, const void *bytes)
{
	const struct pending_record *record = bytes;
	struct session *session = session_find(load->broker, record->session);

	if (session)
		count(load, pending_restore(&load->broker->sessions->pendings, &session->pending, record));
	else
		leave_out(load);
}

/* ---- answers that were not sent ---- */

/* The descriptor of the part of an allocation that begins at byte `offset`; -1: there is none. */
static int part_of(const struct allocation *allocation, uint64_t offset)
{
	const struct allocation *chunk;
	uint64_t at = allocation->span;

	if (!offset)
		return allocation->descriptor;
	DL_FOREACH2(allocation->chunks, chunk, chunk_next) {
		if (at == offset)
			return chunk->descriptor;
		at += chunk->span;
	}
	return -1;
}

/* The descriptor that goes with an answer; -1: none. */
static int descriptor_of(struct broker *broker, struct session *session, const struct wire_message *message)
{
	const struct mapping *mapping;
	const struct buffer *buffer;

	switch (message->type) {
	case WIRE_WELCOME:
		return broker->board->fd;
	case WIRE_MEMORY:
		mapping = mappings_find(&session->mappings, message->memory.mapping);
		return mapping ? part_of(mapping->allocation, message->memory.offset) : -1;
	case WIRE_GRANT:
		buffer = registry_find_any(broker->registry, message->grant.serial);
		return buffer && buffer->timeline ? buffer->timeline->readable : -1;
	default:
		return -1;
	}
}

static void load_owed(struct load *load, const void *bytes)
{
	const struct owed_record *record = bytes;
	struct session *session = session_find(load->broker, record->session);
	struct wire_message message = record->message;

	if (!session) {
		leave_out(load);
		return;
	}
	if (message.type == WIRE_WELCOME)
		memcpy(message.welcome.key, session->key, sizeof message.welcome.key);
	session_send(session, &message, descriptor_of(load->broker, session, &message));
	explicit_bzero(&message, sizeof message);
	count(load, 0);
}

/* ---- all objects ---- */

/* In this order, because a later type names objects of earlier ones. */
static const struct loader {
	unsigned type;
	void (*load)(struct load *load, const void *record);
} loaders[] = {
	{ NOTE_NUMBERS, load_numbers },
	{ NOTE_COUNTERS, load_counters },
	{ TRACKED_SESSION, load_session },
	{ TRACKED_ALLOCATION, load_allocation },
	{ TRACKED_ALLOCATION, load_chunk },
	{ TRACKED_BUFFER, load_buffer },
	{ TRACKED_MAPPING, load_mapping },
	{ TRACKED_GRANT, load_grant },
	{ TRACKED_TIMELINE, load_timeline },
	{ TRACKED_TICKET, load_ticket },
	{ TRACKED_CLEANING, load_cleaning },
	{ TRACKED_PENDING, load_pending },
	{ TRACKED_OWED, load_owed },
};

/* The largest record of this program, as a buffer for one. */
union any_record {
	uint64_t words[LEDGER_VERSION / sizeof(uint64_t)];
};

static void load_type(struct load *load, const struct loader *loader)
{
	const struct records *records = &load->records[loader->type];
	union any_record record;

	for (size_t i = 0; i < records->count && !load->error; i++) {
		ledger_copy(&records->at[i], record.words, note_size(loader->type));
		loader->load(load, record.words);
	}
}

static void collect(const struct ledger_record *record, void *context)
{
	struct load *load = context;
	struct records *records = &load->records[record->type];
	struct ledger_record *more;

	if (records->count == records->room) {
		records->room = records->room ? 2 * records->room : 64;
		more = reallocarray(records->at, records->room, sizeof *more);
		if (!more) {
			load->error = error_set(-ENOMEM, "the broker is out of memory");
			records->room = records->count;
			return;
		}
		records->at = more;
	}
	records->at[records->count++] = *record;
}

static int by_order(const void *one, const void *other)
{
	struct owed_record a, b;

	ledger_copy(one, &a, sizeof a);
	ledger_copy(other, &b, sizeof b);
	return a.order < b.order ? -1 : a.order > b.order;
}

/* Chunks in the order of their addresses, and spare memory in the order of its age. */
static int by_place_and_age(const void *one, const void *other)
{
	struct allocation_record a, b;

	ledger_copy(one, &a, sizeof a);
	ledger_copy(other, &b, sizeof b);
	if (a.chunk != b.chunk)
		return a.chunk < b.chunk ? -1 : 1;
	return a.spare < b.spare ? -1 : a.spare > b.spare;
}

static void unlink_orphans(struct broker *broker)
{
	struct buffer *buffer, *next;

	HASH_ITER(hh, broker->registry->names, buffer, next)
		if (is_orphan(buffer))
			manage_unlink(broker, buffer);
}

/* Begins what the allocations were doing, in their order, and ends what nothing keeps any more. */
static void go_on(struct load *load)
{
	struct memory *memory = load->broker->memory;
	struct known *known, *next;

	HASH_ITER(hh, load->allocations, known, next) {
		struct allocation *allocation = known->object;

		if (!allocation->usage)
			pool_restore(load->broker, allocation);
		else if (allocation->state == ALLOCATION_FREEING)
			memory_release_again(memory, allocation);
		else
			memory_restored(memory, allocation);
	}
	registry_restored(load->broker->registry);
	if (load->orphans)
		unlink_orphans(load->broker);
}

static void sort(struct records *records, int (*compare)(const void *one, const void *other))
{
	if (records->count)
		qsort(records->at, records->count, sizeof *records->at, compare);
}

/* ---- damage ---- */

/* The pid of a pidfd's process as /proc says; 0: it is dead and reaped, so nobody knows. */
static uint32_t pid_of(int pidfd)
{
	char path[40], line[80];
	int pid = 0;
	FILE *info;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
	info = fopen(path, "re");
	while (info && !pid && fgets(line, sizeof line, info))
		if (sscanf(line, "Pid: %d", &pid) != 1)
			pid = 0;
	if (info)
		fclose(info);
	return pid > 0 ? (uint32_t)pid : 0;
}

/*
 * Makes a session of a process whose session's record is lost, as if it had hung up. The device is asked as for a
 * process under MPS, which nothing contradicts: where that cannot be told, its memory stays.
 */
static void load_lost_session(struct load *load, uint64_t id, int pidfd)
{
	const struct session_descriptors kept = { .sock = -1, .pidfd = pidfd };
	const struct session_record record = { .id = id,
					       .state = SESSION_OPEN,
					       .hung_up = 1,
					       .mps = 1,
					       .pid = pid_of(pidfd),
					       .uid = geteuid(),
					       .command = "?" };

	if (!session_resume(load->broker, &record, &kept))
		return;
	close(pidfd);
	load->error = -ENOMEM;
}

/* Makes sessions of the processes whose sessions' records are lost, so that their deaths are proven, too. */
static void load_lost_sessions(struct load *load)
{
	uint64_t id;
	int pidfd;

	while (load->lost_count)
		load_lost_session(load, ++load->broker->sessions->next_id, load->lost[--load->lost_count]);
	while (!load->error && (pidfd = load->kept->rest(load->kept->context, &id)) >= 0) {
		load_lost_session(load, id, pidfd);
		raise_number(&load->broker->sessions->next_id, id);
	}
}

/* Keeps memory that is being freed by its record, and in reach by others. */
static void check_freeing(struct load *load)
{
	struct known *known;

	for (known = load->allocations; known; known = known->hh.next) {
		struct allocation *allocation = known->object;

		if (allocation->state != ALLOCATION_FREEING || (!allocation->open && !allocation->named))
			continue;
		error_set(-EBADMSG, "the ledger says that allocation %llu is freed, and that it is used",
			  (unsigned long long)allocation->serial);
		damage(load);
		memory_keep(load->broker->memory, allocation);
	}
}

static void doubt(struct load *load)
{
	load->broker->memory->doubted = true;
	event_happened(load->broker, &(struct broker_event){ .kind = EVENT_LEDGER_DAMAGED,
							     .detail = load->loaded->damaged,
							     .text = load->text });
	load_lost_sessions(load);
}

/* Without the record of the numbers, one that was given could be given again. */
static void check_numbers(struct load *load)
{
	if (load->records[NOTE_NUMBERS].count == 1)
		return;
	error_set(-EBADMSG, "the ledger has no record of the next numbers");
	damage(load);
}

/* Makes room for all objects and some more: to grow step by step takes longer. */
static int make_room(const struct load *load)
{
	size_t count = 0;

	for (unsigned type = 0; type < LEDGER_TYPES; type++)
		count += load->records[type].count;
	return tracking_expect(load->broker->tracking, (uint32_t)(count + count / 8));
}

static void load_all(struct load *load)
{
	check_numbers(load);
	sort(&load->records[TRACKED_ALLOCATION], by_place_and_age);
	sort(&load->records[TRACKED_OWED], by_order);
	for (size_t i = 0; i < sizeof loaders / sizeof *loaders && !load->error; i++)
		load_type(load, &loaders[i]);
	if (!load->error)
		check_freeing(load);
	if (!load->error && load->loaded->damaged)
		doubt(load);
	if (!load->error)
		go_on(load);
	if (!load->error && load->broker->memory->doubted && !load->broker->sessions->before)
		registry_trust(load->broker->registry);
}

/* The next broker has to find the packet in this broker's ledger, should this one die before it has handled it. */
static void copy_hand(struct load *load, const struct ledger_view *view)
{
	const struct records *records = &load->records[NOTE_HAND];
	struct sessions *sessions = load->broker->sessions;
	struct hand_record record = { 0 };

	memcpy(sessions->hand, ledger_view_hand(view), sizeof *sessions->hand);
	if (records->count)
		ledger_copy(&records->at[0], &record, sizeof record);
	sessions->done = record.number == sessions->hand->number ? (unsigned)record.done : 0;
}

int load_resume(struct broker *broker, bool crashed)
{
	int error;

	if (crashed)
		sessions_blame(broker);
	broker_publish(broker);
	sessions_send(broker);
	CRASH_POINT(takeover_owed);
	error = sessions_resume_pending(broker);
	if (error)
		return error;
	sessions_send(broker);
	CRASH_POINT(takeover_waits);
	sessions_resume_hand(broker);
	CRASH_POINT(takeover_done);
	sessions_resume_ends(broker);
	return 0;
}

int load_ledger(struct broker *broker, int fd, const struct kept_descriptors *kept, struct loaded *loaded)
{
	struct load load = {
		.broker = broker, .kept = kept, .loaded = loaded, .text = "a record is not as it was written"
	};
	struct ledger_view view;
	int error = ledger_open(&view, fd);

	if (error)
		return error;
	*loaded = (struct loaded){ 0 };
	loaded->damaged = ledger_each(&view, collect, &load);
	if (!load.error)
		load.error = make_room(&load);
	if (!load.error)
		load_all(&load);
	copy_hand(&load, &view);
	ledger_close(&view);
	for (unsigned type = 0; type < LEDGER_TYPES; type++)
		free(load.records[type].at);
	while (load.lost_count)
		close(load.lost[--load.lost_count]);
	free(load.lost);
	known_forget(&load.allocations);
	known_forget(&load.memories);
	known_forget(&load.renewed);
	known_forget(&load.mappings);
	return load.error;
}
