/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.c - the library's one thread: the only reader of the socket.
 *
 * GRANT, refusal and NOTICE are handled by one reader in the order in which the broker sent them; that order
 * is what the protocol rests on (tests/model). It opens handles, so that an application thread never waits
 * for another's open. All signals are blocked in it. It ends when the broker is gone or has said LEFT.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "common/socket.h"
#include "timeline-map.h"

/* ---- a grant ---- */

/* The message comes from the broker, and yet nothing in it is used before it makes sense. */
static int grant_check(const struct gpub_client *client, const struct wire_grant *grant)
{
	const struct board_header *board = client->board.header;

	if (grant->buffer >= board->buffers || grant->ticket >= board->tickets ||
	    grant->owner_device >= board->devices || !grant->size || grant->size > grant->span ||
	    grant->offset > grant->span - grant->size || !grant->grant || grant->grant >> 62)
		return error_set(-EPROTO, "the broker sent a grant that makes no sense");
	return 0;
}

static int grant_unseal(const struct gpub_client *client, const struct wire_grant *grant,
			struct device_handle *handle)
{
	const struct board_header *board = client->board.header;
	struct ticket ticket = client->board.tickets[grant->ticket]; /* a copy: what is checked is what is used */
	struct ticket_terms terms = { .session = client->session,
				      .grant = grant->grant,
				      .serial = grant->serial,
				      .size = grant->size,
				      .offset = grant->offset,
				      .rights = grant->rights,
				      .version = WIRE_VERSION };

	memcpy(terms.instance, board->instance_id, sizeof terms.instance);
	memcpy(terms.device_uuid, board->device[grant->owner_device].uuid, sizeof terms.device_uuid);
	return ticket_open(handle, &terms, &ticket, client->key);
}

static int grant_open(struct gpub_client *client, const struct wire_grant *grant, int ordinal, void **base)
{
	struct device_handle handle;
	int error = grant_check(client, grant);

	if (!error)
		error = grant_unseal(client, grant, &handle);
	if (error)
		return error;
	CRASH_POINT(ticket_opened);
	error = client->device->open(ordinal, &handle, grant->span, base);
	sodium_memzero(&handle, sizeof handle);
	return error;
}

/* Everything stands before the mapping word says OPEN. */
static void record_open(struct gpub_client *client, struct record *record, const struct wire_grant *grant,
			void *base, struct timeline_map *timeline)
{
	record->word = &client->board.words[grant->buffer];
	record->live = BOARD_WORD(grant->serial, BOARD_LIVE);
	record->base = base;
	record->ptr = (char *)base + grant->offset;
	record->size = grant->size;
	atomic_store(&record->serial, grant->serial);
	record->rights = grant->rights;
	record->flags = grant->flags;
	record->lease_device = client->device->kind == DEVICE_HOST ? GPUB_HOST : record->ordinal;
	record->timeline = timeline;
	atomic_store(&record->mapping, RECORD_MAPPING(grant->grant, RECORD_OPEN));
	CRASH_POINT(mapping_recorded);
	pthread_cond_broadcast(&client->changed);
}

static int grant_prepare(struct gpub_client *client, const struct wire_grant *grant, struct record *record, int fd,
			 struct timeline_map **timeline)
{
	int error = 0;

	pthread_mutex_lock(&client->lock);
	record->ordinal = client->ordinal_of[atomic_load(&record->index)];
	if (!atomic_load(&record->blocks))
		error = record_grow(client, record);
	if (!error && fd >= 0) {
		*timeline = timeline_map_get(client, grant->serial, fd);
		if (!*timeline)
			error = -ENOMEM;
	}
	pthread_mutex_unlock(&client->lock);
	return error;
}

/* A mapping that fails to close keeps its grant. */
static void grant_give_back(struct gpub_client *client, uint64_t grant, int ordinal, void *base)
{
	if (!client->device->close(ordinal, base))
		call_closed(client, grant);
}

/* The record that waits for it; NULL when disconnect is under way and nothing is opened any more. */
static struct record *grant_record(struct gpub_client *client, uint64_t request)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	record = client->leaving ? NULL : record_of_request(client, request);
	pthread_mutex_unlock(&client->lock);
	return record;
}

/* False: disconnect came between and has looked through the records already. */
static bool grant_settle(struct gpub_client *client, const struct wire_grant *grant, struct record *record,
			 void *base, struct timeline_map *timeline)
{
	bool leaving;

	pthread_mutex_lock(&client->lock);
	leaving = client->leaving;
	if (!leaving)
		record_open(client, record, grant, base, timeline);
	pthread_mutex_unlock(&client->lock);
	return !leaving;
}

static void grant_refuse(struct gpub_client *client, uint64_t grant, struct record *record, int error)
{
	char text[ERROR_TEXT_MAX];

	snprintf(text, sizeof text, "%s", error_text()); /* a send that fails has a sentence of its own */
	CRASH_POINT(open_failed);
	call_closed(client, grant);
	CRASH_POINT(open_refused);
	pthread_mutex_lock(&client->lock);
	record_release(client, record, error, text);
	pthread_mutex_unlock(&client->lock);
}

static void on_grant(struct gpub_client *client, const struct wire_message *message, int fd)
{
	const struct wire_grant *grant = &message->grant;
	struct record *record = grant_record(client, message->request);
	struct timeline_map *timeline = NULL;
	void *base;
	int error;

	CRASH_POINT(grant_received);
	if (!record) {
		call_closed(client, grant->grant);
		return;
	}
	error = fd == -EMFILE ? error_set(-EMFILE, "no descriptor is left in this process for a timeline: close "
						   "some, or raise ulimit -n") :
				grant_prepare(client, grant, record, fd, &timeline);
	CRASH_POINT(grant_prepared);
	if (!error)
		error = grant_open(client, grant, record->ordinal, &base);
	CRASH_POINT(mapping_opened);
	if (error)
		grant_refuse(client, grant->grant, record, error);
	else if (!grant_settle(client, grant, record, base, timeline))
		grant_give_back(client, grant->grant, record->ordinal, base);
}

/* ---- notices, replies ---- */

/* A notice for a grant that no record carries crossed our CLOSED: nothing is left to do. */
static void on_notice(struct gpub_client *client, uint64_t grant)
{
	struct record *record;

	CRASH_POINT(notice_received);
	pthread_mutex_lock(&client->lock);
	record = record_of_grant(client, grant);
	if (record) {
		record->noticed = true;
		CRASH_POINT(notice_marked);
		pthread_cond_broadcast(&client->changed);
	}
	pthread_mutex_unlock(&client->lock);
}

static bool answer_call(struct gpub_client *client, const struct wire_message *message, int *fd)
{
	struct call *call;

	for (call = client->calls; call; call = call->next)
		if (call->number == message->request && !call->done)
			break;
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

/* False: the conversation is over. */
static bool handle(struct gpub_client *client, const struct wire_message *message, int fd)
{
	switch (message->type) {
	case WIRE_GRANT:
		on_grant(client, message, fd);
		break;
	case WIRE_NOTICE:
		on_notice(client, message->grant_id.grant);
		break;
	default:
		on_reply(client, message, &fd);
	}
	if (fd >= 0)
		close(fd);
	return message->type != WIRE_LEFT;
}

/* ---- the thread ---- */

/* Who waits will never be answered, and requested records will never be granted. */
static void on_lost(struct gpub_client *client)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	atomic_store(&client->guard->state, CLIENT_LOST);
	for (record = client->records.all; record; record = record->next)
		if (RECORD_STATE(atomic_load(&record->mapping)) == RECORD_REQUESTED)
			record_release(client, record, -ECONNRESET,
				       "the broker went away before it answered: connect to a new one");
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
}

static void *service_main(void *argument)
{
	struct gpub_client *client = argument;
	struct wire_message message;
	struct socket_extra extra;

	do {
		if (socket_receive(client->sock, &message, &extra, true, 0))
			break;
	} while (handle(client, &message, extra.fd));
	/* also behind a LEFT: nobody reads on, so whoever waits still, or asks from now on, must not wait for ever */
	on_lost(client);
	return NULL;
}

int service_start(struct gpub_client *client)
{
	return thread_start(&client->service, service_main, client);
}
