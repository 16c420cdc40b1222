/* SPDX-License-Identifier: Apache-2.0 */
/*
 * publish.c - gpub_seal, gpub_rename: from a buffer that one process writes to a version that all may read.
 *
 * The broker decides on seals and renames. gpub_seal() also takes GPUB_WRITE from this client's records of the buffer,
 * so that neither an acquire of a mapped buffer nor a renewal gets GPUB_WRITE. Owns nothing.
 */
#include <errno.h>
#include <string.h>

#include "call.h"
#include "client.h"
#include "common/crash-point.h"
#include "common/error.h"
#include "common/name.h"
#include "common/thread.h"
#include "records.h"
#include "table.h"

/*
 * Calls record_seal() for the records with the buffer's name, of all devices. A GRANT that came before the answer to
 * SEAL is in its record already, because messages are handled in the order in which they were sent.
 */
static void records_seal(struct gpub_client *client, const char *name)
{
	struct record *record;
	struct table_key key;
	uint64_t version;

	pthread_mutex_lock(&client->lock);
	for (unsigned i = 0; i < client->board.header->devices; i++)
		if (!table_key_make(&client->table, &key, name, i) &&
		    (record = table_find(&client->table, &key, &version)))
			record_seal(record);
	pthread_mutex_unlock(&client->lock);
}

int gpub_seal(gpub_client *client, const char *name)
{
	struct wire_message reply;
	int error;

	CRASH_POINT(seal_begin);
	error = call_named(client, WIRE_SEAL, name, &reply);
	CRASH_POINT(seal_answered);
	if (!error)
		records_seal(client, name);
	return error;
}

int gpub_rename(gpub_client *client, const char *name, const char *to, unsigned flags)
{
	struct wire_message request, reply;
	int error = client_check(client);
	HOLD_CANCELLATION();

	if (!error)
		error = name_check(name);
	if (!error)
		error = name_check(to);
	if (!error && flags & ~(GPUB_REPLACE | GPUB_PERSIST))
		error = error_set(-EINVAL, "unknown flags: use GPUB_REPLACE, GPUB_PERSIST, or 0");
	if (error)
		return error;
	CRASH_POINT(rename_begin);
	wire_init(&request, WIRE_RENAME, 0);
	strcpy(request.rename.name, name);
	strcpy(request.rename.to, to);
	request.rename.flags = flags;
	error = call_broker(client, &request, &reply, NULL, NULL);
	CRASH_POINT(rename_answered);
	return error;
}
