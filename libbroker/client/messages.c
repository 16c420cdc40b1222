/* SPDX-License-Identifier: Apache-2.0 */
/* messages.c - see messages.h */
#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/export.h"
#include "common/layout.h"
#include "hold.h"
#include "mapping.h"
#include "records.h"
#include "send.h"
#include "timeline-maps.h"
#include "waits.h"

/* ---- GRANT ---- */

/* Checks the members of a GRANT before they are used, because the broker is not trusted blindly. -EPROTO: invalid. */
static int grant_check(const struct gpub_client *client, const struct wire_grant *grant)
{
	const struct board_header *board = client->board.header;

	if (grant->buffer >= board->buffers || (grant->place >= board->handles && grant->place != WIRE_NO_HANDLE) ||
	    grant->owner_device >= board->devices || !grant->size || grant->size > grant->span ||
	    grant->offset > grant->span - grant->size || grant->room > grant->span - grant->offset || !grant->mapping ||
	    grant->mapping >> 62 || grant->exported >= export_count ||
	    (grant->address && !export_of(grant->exported)->growable) ||
	    grant->reserve < grant->span || layout_check(&grant->layout) || layout_bytes(&grant->layout) > grant->size)
		return error_set(-EPROTO, "the broker sent an invalid grant");
	return 0;
}

/* Whether leases with GPUB_MINE may be of a buffer with this owner: `owner` is this user, root or the broker's user. */
static bool is_mine(const struct gpub_client *client, uint32_t owner)
{
	return owner == client->user || !owner || owner == client->broker;
}

/*
 * Fills in the record from the GRANT, adds it to the mapping, then sets its state to OPEN. Call it under client->lock.
 */
static void record_open(struct gpub_client *client, struct record *record, const struct wire_grant *grant,
			struct mapping *mapping, struct timeline_map *timeline)
{
	mapping_attach(mapping, record);
	record->generation = &client->board.words[grant->buffer];
	record->live = BOARD_WORD(grant->serial, BOARD_LIVE);
	record->size = grant->size;
	record->offset = grant->offset;
	record->room = grant->room;
	atomic_store(&record->serial, grant->serial);
	atomic_store_explicit(&record->rights, grant->rights | (is_mine(client, grant->owner) ? GPUB_MINE : 0),
			      memory_order_relaxed);
	record->sealed = grant->flags & GPUB_SEALED;
	record->owner = grant->owner;
	record->layout = grant->layout;
	record->flags = grant->flags;
	record->lease_device = client->device->on_host ? GPUB_HOST : record->ordinal;
	record->timeline = timeline_map_share(timeline);
	for (int view = 0; view < VIEWS; view++)
		record_view(client, record, view);
	atomic_store(&record->state, RECORD_WORD(grant->mapping, RECORD_OPEN));
	CRASH_POINT(mapping_recorded);
	pthread_cond_broadcast(&client->changed);
}

/*
 * Checks the GRANT, and gives the record its first slots if it has none. fd: the descriptor of the timeline's page that
 * came with the GRANT; -1: none came; -EMFILE: this process had no descriptor left. *timeline: the timeline's map with
 * a reference; unchanged if none came. Call it under client->lock.
 */
static int grant_prepare(struct gpub_client *client, const struct wire_grant *grant, struct record *record, int fd,
			 struct timeline_map **timeline)
{
	int error = grant_check(client, grant);

	if (error)
		return error;
	if (fd == -EMFILE)
		return error_set(-EMFILE, "no descriptor is left in this process for a timeline: close some, or raise "
					  "ulimit -n");
	record->ordinal = client->ordinal_of[atomic_load(&record->index)];
	if (!atomic_load(&record->blocks))
		error = record_grow(client, record);
	if (error || fd < 0)
		return error;
	*timeline = timeline_map_get(client, grant, fd);
	return *timeline ? 0 : -ENOMEM;
}

/*
 * Adds a mapping that cannot be closed to the client, as leaked. The broker still has the mapping, and names it again
 * in answers for buffers of the same memory. If mapping_find() did not find it then, this client would assume that its
 * CLOSED is on the way, and request the buffer again without end. So if the mapping cannot be added, the connection is
 * shut down.
 */
static void mapping_keep(struct gpub_client *client, struct mapping *mapping)
{
	int error;

	pthread_mutex_lock(&client->lock);
	error = mapping_add(client, mapping);
	if (!error)
		mapping_leak(client, mapping);
	pthread_mutex_unlock(&client->lock);
	if (!error)
		return;
	link_shutdown(&client->link, SHUT_RDWR);
	free(mapping);
}

/* Closes and frees a mapping that is not added to the client, and tells the broker; or keeps it, if the close fails. */
static void mapping_give_back(struct gpub_client *client, struct mapping *mapping)
{
	SAVE_ERROR();

	if (mapping_unmap(client, mapping)) {
		mapping_keep(client, mapping);
		return;
	}
	call_closed(client, mapping->id);
	free(mapping);
}

static void record_refuse(struct gpub_client *client, struct record *record, int error)
{
	CRASH_POINT(open_refused);
	pthread_mutex_lock(&client->lock);
	record_release(client, record, error, error_text());
	pthread_mutex_unlock(&client->lock);
}

/*
 * Adds the mapping to the client, and sets the record OPEN. -ESTALE: a disconnect has begun, and may have closed the
 * client's mappings already. -EAGAIN: the device was reset, which may have closed the handle. Or the error of
 * mapping_add(). The client has no mapping with this id yet: on_grant() has looked.
 */
static int mapping_publish(struct gpub_client *client, const struct wire_grant *grant, struct record *record,
			   struct mapping *mapping, struct timeline_map *timeline)
{
	int error;

	pthread_mutex_lock(&client->lock);
	if (mapping_is_lost(client, mapping))
		error = -EAGAIN;
	else
		error = client->leaving ? error_set(-ESTALE, "the client was disconnected") :
					  mapping_add(client, mapping);
	if (!error)
		record_open(client, record, grant, mapping, timeline);
	pthread_mutex_unlock(&client->lock);
	return error;
}

/*
 * Opens the memory of the GRANT and publishes the mapping (mapping_publish()). After an error *mapping is NULL, or is
 * open but not added to the client.
 */
static int mapping_make(struct gpub_client *client, const struct wire_grant *grant, struct record *record,
			struct timeline_map *timeline, struct mapping **mapping)
{
	int error = export_of(grant->exported)->by_descriptor ? chunks_check(&client->chunks, grant, 0) : 0;

	if (error)
		return error;
	do {
		if (*mapping && !mapping_export(*mapping)->ends_at_reset)
			(void)mapping_unmap(client, *mapping);
		free(*mapping);
		*mapping = NULL;
		error = mapping_open(client, grant, record->ordinal, mapping);
		CRASH_POINT(mapping_opened);
		if (!error)
			error = mapping_publish(client, grant, record, *mapping, timeline);
	} while (error == -EAGAIN && *mapping);
	return error;
}

/*
 * Whether the memory of the GRANT, which the handle alone opens, may have ended with its owner before it was opened:
 * the buffer has lost its name. Then the acquirer asks again. grant: one that grant_check() found good.
 */
static bool has_ended(const struct gpub_client *client, const struct wire_grant *grant)
{
	return !export_of(grant->exported)->by_descriptor &&
	       atomic_load(&client->board.words[grant->buffer]) != BOARD_WORD(grant->serial, BOARD_LIVE);
}

static void on_new_mapping(struct gpub_client *client, const struct wire_grant *grant, struct record *record, int error,
			   struct timeline_map *timeline)
{
	struct mapping *mapping = NULL;
	bool prepared = !error;

	if (!error)
		error = mapping_make(client, grant, record, timeline, &mapping);
	if (!error)
		return;
	CRASH_POINT(open_failed);
	if (mapping)
		mapping_give_back(client, mapping);
	else
		call_closed(client, grant->mapping);
	record_refuse(client, record, prepared && has_ended(client, grant) ? -EAGAIN : error);
}

/*
 * Adds the record to a mapping that a thread is closing. The record is released when the mapping is closed, and the
 * acquirer then asks the broker again.
 */
static void record_join_closing(struct gpub_client *client, const struct wire_grant *grant, struct record *record,
				struct mapping *mapping)
{
	mapping_attach(mapping, record);
	record->generation = &client->board.words[grant->buffer];
	record->live = BOARD_WORD(grant->serial, BOARD_LIVE);
	atomic_store(&record->serial, grant->serial);
	atomic_store(&record->state, RECORD_WORD(grant->mapping, RECORD_CLOSING));
	pthread_cond_broadcast(&client->changed);
}

/*
 * For a GRANT of a mapping that the session has already: adds the record to this mapping or, if the mapping was closed
 * meanwhile, releases the record. -EIO: the mapping has leaked. -ENOMEM: it lacks what the buffer grew by. Call it
 * under client->lock.
 */
static int share(struct gpub_client *client, const struct wire_grant *grant, struct record *record,
		 struct timeline_map *timeline)
{
	struct mapping *mapping = mapping_find(client, grant->mapping);

	CRASH_POINT(mapping_shared);
	if (client->leaving)
		return 0; /* a disconnect is about to close all mappings, and no acquirer waits */
	/* CLOSED was sent before the GRANT came, and ends the mapping in the broker: acquirers ask again */
	if (!mapping)
		record_release(client, record, -EAGAIN, "the mapping was just closed");
	else if (mapping->leaked)
		return error_set(-EIO, "the mapping of '%s' failed to close before: only a new process can map its "
				       "memory again",
				 record_title(record));
	else if (!mapping->closing && mapping->size < grant->span)
		return error_set(-ENOMEM, "what '%s' grew by could not be mapped: return its leases, call gpub_trim, "
					  "acquire it again",
				 record_title(record));
	else if (mapping->closing)
		record_join_closing(client, grant, record, mapping);
	else
		record_open(client, record, grant, mapping, timeline);
	return 0;
}

/*
 * If chunks have come with the GRANT, because the buffer grew, maps them behind the mapped bytes of the mapping. Drops
 * chunks that are mapped already: a broker's successor sends all of them with an answer that it gives again.
 */
static int extend(struct gpub_client *client, const struct wire_grant *grant)
{
	struct mapping *mapping;
	int error = 0;

	if (!client->chunks.count)
		return 0;
	pthread_mutex_lock(&client->lock);
	mapping = client->leaving ? NULL : mapping_find(client, grant->mapping);
	if (mapping)
		chunks_drop_before(&client->chunks, mapping->size);
	if (mapping && !mapping->closing && !mapping->leaked && client->chunks.count)
		error = mapping_extend(client, mapping, grant);
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(mapping_extended);
	return error;
}

/*
 * If chunks have come and were not mapped, marks the mapping as wanted, so that it is closed as soon as possible. The
 * broker sends the chunks again only for a new mapping.
 */
static void lacks_chunks(struct gpub_client *client, const struct wire_grant *grant)
{
	struct mapping *mapping;

	pthread_mutex_lock(&client->lock);
	mapping = client->chunks.count ? mapping_find(client, grant->mapping) : NULL;
	if (mapping && mapping->size < grant->span)
		mapping_want(client, mapping);
	pthread_mutex_unlock(&client->lock);
}

static void on_known_mapping(struct gpub_client *client, const struct wire_grant *grant, struct record *record,
			     int error, struct timeline_map *timeline)
{
	if (!error)
		error = extend(client, grant);
	if (!error) {
		pthread_mutex_lock(&client->lock);
		error = share(client, grant, record, timeline);
		pthread_mutex_unlock(&client->lock);
	}
	if (!error)
		return;
	lacks_chunks(client, grant);
	call_quiesced(client, grant->mapping, grant->serial);
	record_refuse(client, record, error);
}

/*
 * Handles a GRANT. With a handle place it opens a new mapping, unless this process has a mapping with the id already:
 * then an earlier GRANT, of a broker that has ended since, opened the mapping, and the broker's successor answers the
 * request again. A second open, or a CLOSED, would have the broker free memory that is mapped. A GRANT of a new mapping
 * for which no acquirer waits any more is answered with CLOSED.
 */
static void on_grant(struct gpub_client *client, const struct wire_message *message, int fd)
{
	const struct wire_grant *grant = &message->grant;
	struct timeline_map *timeline = NULL;
	struct record *record;
	bool known;
	int error = 0;

	CRASH_POINT(grant_received);
	pthread_mutex_lock(&client->lock);
	known = grant->place == WIRE_NO_HANDLE || mapping_find(client, grant->mapping);
	record = client->leaving ? NULL : record_of_request(client, message->request);
	if (record)
		error = grant_prepare(client, grant, record, fd, &timeline);
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(grant_prepared);
	if (!record && !known)
		call_closed(client, grant->mapping);
	if (!record)
		return;
	if (known)
		on_known_mapping(client, grant, record, error, timeline);
	else
		on_new_mapping(client, grant, record, error, timeline);
	if (!timeline)
		return;
	pthread_mutex_lock(&client->lock);
	timeline_map_put(client, timeline); /* drops grant_prepare()'s reference; the record has its own */
	pthread_mutex_unlock(&client->lock);
}

/* ---- notices, replies ---- */

/*
 * Handles a NOTICE: marks the record of the buffer as unlinked or, if id->serial is 0, the mapping as wanted. Does
 * nothing if there is no mapping with the id, because this process has sent CLOSED for it meanwhile.
 */
static void on_notice(struct gpub_client *client, const struct wire_grant_id *id)
{
	struct mapping *mapping;
	struct record *record;

	CRASH_POINT(notice_received);
	pthread_mutex_lock(&client->lock);
	mapping = mapping_find(client, id->mapping);
	record = mapping && id->serial ? mapping_record(mapping, id->serial) : NULL;
	if (record)
		record_unlinked(client, record);
	else if (mapping && !id->serial)
		mapping_want(client, mapping);
	CRASH_POINT(notice_marked);
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
}

/* Returns the call that waits for the answer to the request with this number, or NULL. Call it under client->lock. */
static struct call *call_find(const struct gpub_client *client, uint64_t request)
{
	struct call *call;

	for (call = client->calls; call; call = call->next)
		if (call->number == request && !call->done)
			break;
	return call;
}

/*
 * Writes the bytes of a PART to the file of the call that waits for the answer. Drops them without such a call or file.
 */
static void on_part(struct gpub_client *client, const struct wire_message *message)
{
	const struct wire_part *part = &message->part;
	struct call *call;
	ssize_t wrote;

	pthread_mutex_lock(&client->lock);
	call = call_find(client, message->request);
	if (call && call->file >= 0 && !call->error) {
		wrote = pwrite(call->file, part->bytes, part->length, part->offset);
		call->error = wrote < 0 ? -errno : wrote < (ssize_t)part->length ? -ENOSPC : 0;
	}
	pthread_mutex_unlock(&client->lock);
}

static bool answer_call(struct gpub_client *client, const struct wire_message *message, int *fd)
{
	struct call *call = call_find(client, message->request);

	if (!call)
		return false;
	call->reply = *message;
	call->fd = *fd;
	call->done = true;
	*fd = -1;
	pthread_cond_broadcast(&client->changed);
	return true;
}

static void on_reply(struct gpub_client *client, const struct wire_message *message, int *fd)
{
	struct record *record;

	CRASH_POINT(reply_received);
	pthread_mutex_lock(&client->lock);
	if (!answer_call(client, message, fd) && message->type == WIRE_REFUSED) {
		record = record_of_request(client, message->request);
		CRASH_POINT(refusal_received);
		if (record)
			record_release(client, record, message->refused.error, message->refused.text);
	}
	pthread_mutex_unlock(&client->lock);
}

bool messages_handle(struct gpub_client *client, const struct wire_message *message, int fd)
{
	switch (message->type) {
	case WIRE_MEMORY:
		chunks_keep(&client->chunks, &message->memory, &fd);
		break;
	case WIRE_GRANT:
		on_grant(client, message, fd);
		chunks_drop(&client->chunks);
		break;
	case WIRE_NOTICE:
		on_notice(client, &message->grant_id);
		break;
	case WIRE_INQUIRE:
		waits_report(client);
		break;
	case WIRE_PART:
		on_part(client, message);
		break;
	default:
		on_reply(client, message, &fd);
	}
	if (fd >= 0)
		close(fd);
	return message->type != WIRE_LEFT;
}

/* ---- the end ---- */

void messages_ended(struct gpub_client *client)
{
	const char *why = link_lost_text(&client->link);
	struct record *record;

	chunks_drop(&client->chunks);
	pthread_mutex_lock(&client->lock);
	atomic_store(&client->guard->state, CLIENT_LOST);
	for (record = client->records.all; record; record = record->next)
		if (RECORD_STATE(atomic_load(&record->state)) == RECORD_REQUESTED)
			record_release(client, record, -ECONNRESET, why);
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
}
