/* SPDX-License-Identifier: Apache-2.0 */
/*
 * close.c - gives mappings back: gpub_trim, gpub_disconnect, and the background closer.
 *
 * A close is behind the device work of every lease of its record (invariant 2), and CLOSED is sent after the
 * mapping is gone and before the record can stand for anything else. Closing waits for the process's kernels
 * (gpubroker(7), "Close"), so it happens only in calls that say so. A mapping that fails to close is kept for ever, and
 * with it the grant. Owns nothing.
 */
#include <errno.h>
#include <sodium.h>
#include <unistd.h>

#include "client.h"
#include "common/socket.h"

#define LAND_POLL_US 50

/* OPEN to CLOSING, unless a slot is busy; *held: with a lease, not with a return that is yet to land. */
static bool close_begin(struct record *record, uint64_t mapping, bool *held)
{
	atomic_store(&record->mapping, RECORD_MAPPING(RECORD_GRANT(mapping), RECORD_CLOSING));
	CRASH_POINT(close_marked);
	/* an acquirer stores its hold, then looks for CLOSING; we the other way round: one of us sees */
	atomic_thread_fence(memory_order_seq_cst);
	if (record_idle(record, held))
		return true;
	atomic_store(&record->mapping, mapping); /* nobody can have waited for it: the lock was held throughout */
	CRASH_POINT(close_withdrawn);
	return false;
}

/* A moment for the device. A device that has failed will never write the word that is waited for. */
static int close_pause(struct gpub_client *client, int ordinal, unsigned looks)
{
	int error = 0;

	pthread_mutex_unlock(&client->lock);
	usleep(LAND_POLL_US);
	if (looks % 256 == 255)
		error = client->device->check(ordinal);
	pthread_mutex_lock(&client->lock);
	return error;
}

/* A live buffer that was taken again since the first look is in use: somebody who never rests would be waited for for ever. */
static bool in_use(const struct record *record, uint64_t takes)
{
	return record_takes(record) != takes && atomic_load(record->word) == record->live;
}

/* Waiting is done in OPEN, so that nobody's acquire has to wait for the device with us. */
static int close_wait(struct gpub_client *client, struct record *record, uint64_t mapping, bool wait)
{
	uint64_t takes = record_takes(record);
	bool held;
	int error = 0;

	for (unsigned looks = 0; !error; looks++) {
		if (atomic_load(&record->mapping) != mapping)
			return -EBUSY; /* another thread closes it */
		if (close_begin(record, mapping, &held))
			return 0;
		if (held || !wait || in_use(record, takes))
			return -EBUSY;
		error = close_pause(client, record->ordinal, looks);
	}
	return error;
}

int record_close(struct gpub_client *client, struct record *record, bool wait)
{
	uint64_t mapping = atomic_load(&record->mapping);
	int error = RECORD_STATE(mapping) == RECORD_OPEN ? close_wait(client, record, mapping, wait) : -EBUSY;

	if (error)
		return error;
	pthread_mutex_unlock(&client->lock);
	CRASH_POINT(close_decided);
	error = client->device->close(record->ordinal, record->base);
	CRASH_POINT(mapping_closed);
	if (!error)
		call_closed(client, RECORD_GRANT(mapping));
	CRASH_POINT(closed_sent);
	pthread_mutex_lock(&client->lock);
	if (error)
		record_strand(client, record, error, error_text());
	else
		record_release(client, record, 0, NULL);
	CRASH_POINT(record_released);
	return error;
}

int client_close_idle(struct gpub_client *client, bool wait)
{
	struct record *record;
	int first = 0, error;

	pthread_mutex_lock(&client->lock);
	for (record = client->records.all; record; record = record->next) {
		if (RECORD_STATE(atomic_load(&record->mapping)) != RECORD_OPEN)
			continue;
		/* somebody waited for it to open and has yet to take it: a ticket that was good once is spent by now */
		if (record->waiters && !client->leaving)
			continue;
		error = record_close(client, record, wait);
		if (error && error != -EBUSY && !first)
			first = error;
	}
	pthread_mutex_unlock(&client->lock);
	return first;
}

int gpub_trim(gpub_client *client)
{
	int error = client_check(client);

	return error ? error : client_close_idle(client, true);
}

/* ---- disconnect ---- */

static void drop_all_holds(struct gpub_client *client)
{
	struct record *record;

	pthread_mutex_lock(&client->lock);
	client->leaving = true;
	for (record = client->records.all; record; record = record->next)
		record_drop_holds(record);
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->lock);
}

/* Nothing of this client can be used in the child, and nothing in it is the child's to close. */
static bool client_inherited(const struct gpub_client *client)
{
	return atomic_load(&client->guard->state) == CLIENT_FORKED;
}

/*
 * Whoever connects next has the same structure, and perhaps another broker (invariant 8): nothing of this
 * connection may be found again. What could not be closed stays mapped, and granted until this process ends.
 */
static void forget_all(struct gpub_client *client)
{
	struct record *record;
	uint64_t mapping;

	pthread_mutex_lock(&client->lock);
	for (record = client->records.all; record; record = record->next) {
		mapping = atomic_load(&record->mapping);
		record_outdate(record);
		if (RECORD_STATE(mapping) == RECORD_REQUESTED) {
			record_release(client, record, -ESTALE, "the client was disconnected");
		} else if (RECORD_STATE(mapping) != RECORD_NONE) {
			record_strand(client, record, -ESTALE, "the client was disconnected");
		}
	}
	timeline_maps_forget(client);
	pthread_mutex_unlock(&client->lock);
}

static void say_leave(struct gpub_client *client)
{
	struct wire_message request, reply;

	wire_init(&request, WIRE_LEAVE, 0);
	call_broker(client, &request, &reply, NULL, NULL);
}

void gpub_disconnect(gpub_client *client)
{
	if (!client || client_inherited(client) || atomic_load(&client->guard->state) == CLIENT_ENDED)
		return;
	CRASH_POINT(disconnect_begin);
	drop_all_holds(client);
	CRASH_POINT(holds_dropped);
	closer_stop(client);
	CRASH_POINT(closer_stopped);
	client_close_idle(client, true);
	CRASH_POINT(leave_begin);
	if (atomic_load(&client->guard->state) == CLIENT_OPEN)
		say_leave(client);
	pthread_join(client->service, NULL);
	CRASH_POINT(left);
	atomic_store(&client->guard->state, CLIENT_ENDED);
	fork_unguard(client);
	CRASH_POINT(socket_closed);
	sodium_free(client->key);
	client->key = NULL;
	board_unmap(&client->board);
	forget_all(client);
	client_recycle(client);
	CRASH_POINT(disconnected);
}
