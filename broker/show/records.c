/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - see records.h */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOLDERS_MAX 64 /* listed of each buffer; "grants" and "held" count all */

#define NUMBER(value) ((json_int_t)(value))
#define ENDS(text)    (memchr(text, 0, sizeof(text)) != NULL)

bool record_is_good(const union status_record *record)
{
	size_t size = status_size(record->type);

	if (!size || !status_is_whole(&record->seal, size))
		return false;
	switch (record->type) {
	case TRACKED_DEVICE:
		return ENDS(record->device.name);
	case TRACKED_SESSION:
		return ENDS(record->session.command) && record->session.state < STATUS_SESSION_STATES;
	case TRACKED_BUFFER:
		return ENDS(record->buffer.name) && !name_check(record->buffer.name) &&
		       record->buffer.state < STATUS_BUFFER_STATES;
	default:
		return true;
	}
}

/* ---- views: the records of one type, in the order of a key ---- */

struct view {
	const union status_record **at;
	size_t                      count, key; /* key: where it stands in the record */
};

enum { DEVICES, USERS, SESSIONS, BUFFERS, GRANTS, OF_SESSION, OF_ALLOCATION, USES, VIEWS };

static const struct {
	enum tracked_type type;
	size_t            key;
} views_known[VIEWS] = {
	[DEVICES] = { TRACKED_DEVICE, offsetof(struct status_device, index) },
	[USERS] = { TRACKED_USER, offsetof(struct status_user, uid) },
	[SESSIONS] = { TRACKED_SESSION, offsetof(struct status_session, id) },
	[BUFFERS] = { TRACKED_BUFFER, offsetof(struct status_buffer, generation) },
	[GRANTS] = { TRACKED_GRANT, offsetof(struct status_grant, id) },
	[OF_SESSION] = { TRACKED_GRANT, offsetof(struct status_grant, session) },
	[OF_ALLOCATION] = { TRACKED_GRANT, offsetof(struct status_grant, allocation) },
	[USES] = { TRACKED_USE, offsetof(struct status_use, generation) },
};

static uint64_t key_of(const struct view *view, const union status_record *record)
{
	uint64_t key;

	memcpy(&key, record->bytes + view->key, sizeof key);
	return key;
}

/* Among those with one key: in the order of their grants. */
static uint64_t second_key(const union status_record *record)
{
	return record->type == TRACKED_USE ? record->use.grant : record->type == TRACKED_GRANT ? record->grant.id : 0;
}

static int compare(const void *a, const void *b, void *context)
{
	const struct view *view = context;
	const union status_record *one = *(const union status_record *const *)a;
	const union status_record *other = *(const union status_record *const *)b;
	uint64_t key = key_of(view, one), key_other = key_of(view, other);

	if (key == key_other) {
		key = second_key(one);
		key_other = second_key(other);
	}
	return (key > key_other) - (key < key_other);
}

static bool view_make(struct view *view, int which, const union status_record *records, size_t count)
{
	view->key = views_known[which].key;
	view->at = malloc((count + 1) * sizeof *view->at);
	if (!view->at)
		return false;
	for (size_t i = 0; i < count; i++)
		if (records[i].type == (uint32_t)views_known[which].type)
			view->at[view->count++] = &records[i];
	if (view->count)
		qsort_r(view->at, view->count, sizeof *view->at, compare, view);
	return true;
}

/* Where those with that key begin. */
static size_t view_find(const struct view *view, uint64_t key)
{
	size_t low = 0, high = view->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (key_of(view, view->at[middle]) < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool view_has(const struct view *view, size_t i, uint64_t key)
{
	return i < view->count && key_of(view, view->at[i]) == key;
}

/* The one with that key, or NULL. */
static const union status_record *view_one(const struct view *view, uint64_t key)
{
	size_t i = view_find(view, key);

	return view_has(view, i, key) ? view->at[i] : NULL;
}

/* ---- what stands in the object ---- */

struct joined {
	struct view view[VIEWS];
	size_t      holders_left; /* that may be listed: a broker lists a record a few times, and others' files are no larger */
};

static json_t *device_json(struct joined *joined, const union status_record *record)
{
	const struct status_device *device = &record->device;
	char uuid[37], *at = uuid;

	(void)joined;
	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", device->uuid[i]);
	return json_pack("{s:I,s:o*,s:s,s:I,s:I,s:I}", "index", NUMBER(device->index), "name", json_string(device->name),
			 "uuid", uuid, "bytes", NUMBER(device->bytes), "idle", NUMBER(device->idle), "pooled",
			 NUMBER(device->pooled));
}

static json_t *holder_json(const union status_record *session, const struct status_grant *grant)
{
	return json_pack("{s:I,s:I,s:o*,s:I,s:b}", "session", NUMBER(grant->session), "pid", NUMBER(session->session.pid),
			 "command", json_string(session->session.command), "device", NUMBER(grant->device), "held",
			 grant->orphaned != 0);
}

struct holders {
	json_t  *list;
	uint64_t open, orphaned;
};

static void holders_add(struct joined *joined, struct holders *holders, const union status_record *grant)
{
	const union status_record *session = grant ? view_one(&joined->view[SESSIONS], grant->grant.session) : NULL;

	if (!session)
		return;
	holders->orphaned += grant->grant.orphaned != 0;
	holders->open += !grant->grant.orphaned;
	if (holders->open + holders->orphaned > HOLDERS_MAX || !joined->holders_left)
		return;
	joined->holders_left--;
	json_array_append_new(holders->list, holder_json(session, &grant->grant));
}

/* Who holds it, and so whom a drain waits for. One that nobody uses any more waits until nobody maps its memory. */
static struct holders holders_of(struct joined *joined, const struct status_buffer *buffer)
{
	const struct view *uses = &joined->view[USES], *grants = &joined->view[OF_ALLOCATION];
	struct holders holders = { .list = json_array() };
	size_t i = view_find(uses, buffer->generation);

	if (!view_has(uses, i, buffer->generation) && buffer->state >= STATUS_DRAINING)
		for (i = view_find(grants, buffer->allocation); view_has(grants, i, buffer->allocation); i++)
			holders_add(joined, &holders, grants->at[i]);
	else
		for (; view_has(uses, i, buffer->generation); i++)
			holders_add(joined, &holders, view_one(&joined->view[GRANTS], uses->at[i]->use.grant));
	return holders;
}

static json_t *buffer_json(struct joined *joined, const union status_record *record)
{
	static const char *const states[] = { "creating", "live", "draining", "freeing" };
	const struct status_buffer *buffer = &record->buffer;
	struct holders holders = holders_of(joined, buffer);

	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:s,s:I,s:I,s:I,s:b,s:b,s:b,s:I,s:I,s:o}", "name", buffer->name, "generation",
			 NUMBER(buffer->generation), "bytes", NUMBER(buffer->bytes), "allocated", NUMBER(buffer->allocated),
			 "device", NUMBER(buffer->device), "state", states[buffer->state], "owner", NUMBER(buffer->owner),
			 "group", NUMBER(buffer->group), "mode", NUMBER(buffer->mode), "ephemeral", buffer->ephemeral != 0,
			 "timeline", buffer->timeline != 0, "alone", buffer->alone != 0, "grants", NUMBER(holders.open), "held",
			 NUMBER(holders.orphaned), "holders", holders.list);
}

static json_t *session_json(struct joined *joined, const union status_record *record)
{
	static const char *const states[] = { "open", "leaving", "cut off", "lost", "orphaned", "dying", "unproven" };
	const struct status_session *session = &record->session;
	const struct view *grants = &joined->view[OF_SESSION];
	uint64_t orphaned = 0, open = 0, bytes = 0;

	for (size_t i = view_find(grants, session->id); view_has(grants, i, session->id); i++) {
		orphaned += grants->at[i]->grant.orphaned != 0;
		open += !grants->at[i]->grant.orphaned;
		bytes += grants->at[i]->grant.bytes;
	}
	return json_pack("{s:I,s:I,s:I,s:o*,s:s,s:I,s:I,s:I}", "session", NUMBER(session->id), "pid", NUMBER(session->pid), "uid",
			 NUMBER(session->uid), "command", json_string(session->command), "state", states[session->state],
			 "grants", NUMBER(open), "held", NUMBER(orphaned), "bytes", NUMBER(bytes));
}

static json_t *amounts_json(const uint64_t amounts[RESOURCES])
{
	json_t *object = json_object();

	for (int i = 0; i < RESOURCES; i++)
		if (amounts[i] != QUOTA_NONE)
			json_object_set_new(object, resource_key((enum resource)i), json_integer(NUMBER(amounts[i])));
	return object;
}

static json_t *user_json(struct joined *joined, const union status_record *record)
{
	const struct status_user *user = &record->user;
	json_t *quota = amounts_json(user->limit);

	(void)joined;
	if (user->requests != QUOTA_NONE)
		json_object_set_new(quota, "requests", json_integer(NUMBER(user->requests)));
	return json_pack("{s:I,s:o,s:o}", "uid", NUMBER(user->uid), "used", amounts_json(user->used), "quota", quota);
}

static json_t *counters_json(const struct counters *counters)
{
	json_t *object = json_object();

#define COUNTER_SET(name, meaning) json_object_set_new(object, #name, json_integer(NUMBER(counters->name)));
	COUNTERS(COUNTER_SET)
#undef COUNTER_SET
	return object;
}

static json_t *list(struct joined *joined, int which, json_t *(*element)(struct joined *, const union status_record *))
{
	json_t *array = json_array();

	for (size_t i = 0; i < joined->view[which].count; i++)
		json_array_append_new(array, element(joined, joined->view[which].at[i]));
	return array;
}

json_t *records_json(const struct status_header *header, const union status_record *records, size_t count)
{
	struct joined joined = { .holders_left = 4 * count + HOLDERS_MAX };
	json_t *object = NULL;
	bool made = true;

	for (int i = 0; i < VIEWS; i++)
		made = made && view_make(&joined.view[i], i, records, count);
	if (made)
		object = json_pack("{s:o*,s:I,s:o*,s:I,s:b,s:I,s:o,s:o,s:o,s:o,s:o}", "instance", json_string(header->instance), "pid",
				   NUMBER(header->pid), "device_kind", json_string(header->device_kind), "updated",
				   NUMBER(header->updated), "stopping", header->stopping != 0, "waiting",
				   NUMBER(header->waiting), "devices", list(&joined, DEVICES, device_json), "buffers",
				   list(&joined, BUFFERS, buffer_json), "sessions", list(&joined, SESSIONS, session_json),
				   "users", list(&joined, USERS, user_json), "counters", counters_json(&header->counters));
	for (int i = 0; i < VIEWS; i++)
		free(joined.view[i].at);
	return object;
}
