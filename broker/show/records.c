/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - see records.h */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

#define LISTED_MAX  1024 /* holders of a buffer, and buffers of a session; all are counted */
#define WAITED_FOR_MAX 64 /* holders of memory that nobody uses: many buffers in it wait for the same ones */

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

/*
 * ---- views: the records of one type, in the order of a key ----
 *
 * Among those with one key, in the order of a second one. A view has sums, too: what the records in front of each one add up to.
 * So whatever the records of a key come to, and however many have it, takes two searches.
 */

struct sums {
	uint64_t orphaned, bytes, uses;
};

struct view {
	const union status_record **at;
	struct sums                *before; /* one more than there are records */
	size_t                      count, key; /* key: where it stands in the record */
};

enum { DEVICES, USERS, SESSIONS, BUFFERS, GRANTS, USES, OF_GRANT, OF_SESSION, OF_ALLOCATION, VIEWS };

struct joined {
	struct view view[VIEWS];
	uint64_t    used[DEVICE_MAX]; /* bytes of each device in buffers */
	size_t      left; /* steps that lists may take: a broker's records need few each, and others' files are no larger */
};

static uint64_t key_of(const struct view *view, const union status_record *record)
{
	uint64_t key;

	memcpy(&key, record->bytes + view->key, sizeof key);
	return key;
}

static uint64_t second_key(const struct view *view, const union status_record *record)
{
	if (record->type == TRACKED_USE)
		return view->key == offsetof(struct status_use, grant) ? record->use.generation : record->use.grant;
	return record->type == TRACKED_GRANT ? record->grant.id : 0;
}

static int compare(const void *a, const void *b, void *context)
{
	const struct view *view = context;
	const union status_record *one = *(const union status_record *const *)a;
	const union status_record *other = *(const union status_record *const *)b;
	uint64_t key = key_of(view, one), key_other = key_of(view, other);

	if (key == key_other) {
		key = second_key(view, one);
		key_other = second_key(view, other);
	}
	return (key > key_other) - (key < key_other);
}

/* Where those with that key begin, or with a greater one. */
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

/* Those with one key. */
struct range {
	size_t begin, end;
};

static struct range view_range(const struct view *view, uint64_t key)
{
	return (struct range){ view_find(view, key), key == UINT64_MAX ? view->count : view_find(view, key + 1) };
}

static struct sums range_sums(const struct view *view, struct range range)
{
	const struct sums *from = &view->before[range.begin], *to = &view->before[range.end];

	return (struct sums){ to->orphaned - from->orphaned, to->bytes - from->bytes, to->uses - from->uses };
}

/* The first one with that key, or NULL. */
static const union status_record *view_one(const struct view *view, uint64_t key)
{
	size_t i = view_find(view, key);

	return i < view->count && key_of(view, view->at[i]) == key ? view->at[i] : NULL;
}

static const union status_record *grant_of(const struct joined *joined, const union status_record *use)
{
	return view_one(&joined->view[GRANTS], use->use.grant);
}

static bool any(const struct joined *joined, const union status_record *record)
{
	(void)joined;
	(void)record;
	return true;
}

static bool grant_has_session(const struct joined *joined, const union status_record *grant)
{
	return view_one(&joined->view[SESSIONS], grant->grant.session);
}

static bool use_has_grant(const struct joined *joined, const union status_record *use)
{
	return grant_of(joined, use);
}

static struct sums sums_of(const struct joined *joined, const union status_record *record)
{
	const union status_record *grant = record->type == TRACKED_USE ? grant_of(joined, record) : record;
	const struct view *uses = &joined->view[OF_GRANT];
	struct range range;

	if (record->type != TRACKED_USE && record->type != TRACKED_GRANT)
		return (struct sums){ 0 };
	range = view_range(uses, grant->grant.id);
	return (struct sums){ grant->grant.orphaned != 0, grant->grant.bytes, range.end - range.begin };
}

/* In this order: each looks at those above it. A record that names what is not there is in no view. */
static const struct {
	enum tracked_type type;
	size_t            key;
	bool            (*takes)(const struct joined *joined, const union status_record *record);
} views_known[VIEWS] = {
	[DEVICES] = { TRACKED_DEVICE, offsetof(struct status_device, index), any },
	[USERS] = { TRACKED_USER, offsetof(struct status_user, uid), any },
	[SESSIONS] = { TRACKED_SESSION, offsetof(struct status_session, id), any },
	[BUFFERS] = { TRACKED_BUFFER, offsetof(struct status_buffer, generation), any },
	[GRANTS] = { TRACKED_GRANT, offsetof(struct status_grant, id), grant_has_session },
	[USES] = { TRACKED_USE, offsetof(struct status_use, generation), use_has_grant },
	[OF_GRANT] = { TRACKED_USE, offsetof(struct status_use, grant), use_has_grant },
	[OF_SESSION] = { TRACKED_GRANT, offsetof(struct status_grant, session), grant_has_session },
	[OF_ALLOCATION] = { TRACKED_GRANT, offsetof(struct status_grant, allocation), grant_has_session },
};

static size_t count_of(int which, const union status_record *records, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++)
		found += records[i].type == (uint32_t)views_known[which].type;
	return found;
}

static void view_add_up(const struct joined *joined, struct view *view)
{
	struct sums sums = { 0 };

	for (size_t i = 0; i < view->count; i++) {
		struct sums one = sums_of(joined, view->at[i]);

		view->before[i] = sums;
		sums = (struct sums){ sums.orphaned + one.orphaned, sums.bytes + one.bytes, sums.uses + one.uses };
	}
	view->before[view->count] = sums;
}

/* The view has no records for others until it is whole. */
static bool view_make(struct joined *joined, int which, const union status_record *records, size_t count)
{
	size_t most = count_of(which, records, count);
	struct view view = { .at = malloc((most + 1) * sizeof *view.at),
			     .before = malloc((most + 1) * sizeof *view.before),
			     .key = views_known[which].key };

	joined->view[which] = view;
	if (!view.at || !view.before)
		return false;
	for (size_t i = 0; i < count; i++)
		if (records[i].type == (uint32_t)views_known[which].type && views_known[which].takes(joined, &records[i]))
			view.at[view.count++] = &records[i];
	if (view.count)
		qsort_r(view.at, view.count, sizeof *view.at, compare, &view);
	view_add_up(joined, &view);
	joined->view[which] = view;
	return true;
}

/* ---- what stands in the object ---- */

/* Each buffer takes its own granules, or its range of shared ones. */
static void count_used(struct joined *joined)
{
	const struct view *buffers = &joined->view[BUFFERS];

	for (size_t i = 0; i < buffers->count; i++)
		if (buffers->at[i]->buffer.device < DEVICE_MAX)
			joined->used[buffers->at[i]->buffer.device] += buffers->at[i]->buffer.allocated;
}

static json_t *device_json(struct joined *joined, const union status_record *record)
{
	const struct status_device *device = &record->device;
	uint64_t used = device->index < DEVICE_MAX ? joined->used[device->index] : 0;
	uint64_t taken = used + device->idle + device->pooled;
	char uuid[37], *at = uuid;

	for (int i = 0; i < 16; i++)
		at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", device->uuid[i]);
	return json_pack("{s:I,s:o*,s:s,s:I,s:I,s:I,s:I,s:I}", "index", NUMBER(device->index), "name", json_string(device->name),
			 "uuid", uuid, "bytes", NUMBER(device->bytes), "used", NUMBER(used), "idle", NUMBER(device->idle), "pooled",
			 NUMBER(device->pooled), "free", NUMBER(device->bytes > taken ? device->bytes - taken : 0));
}

static json_t *holder_json(const struct joined *joined, const struct status_grant *grant)
{
	const struct status_session *session = &view_one(&joined->view[SESSIONS], grant->session)->session;

	return json_pack("{s:I,s:I,s:o*,s:I,s:b}", "session", NUMBER(grant->session), "pid", NUMBER(session->pid), "command",
			 json_string(session->command), "device", NUMBER(grant->device), "held", grant->orphaned != 0);
}

/* Takes one step: false where the list has as many as it may have. */
static bool list_goes_on(struct joined *joined, const json_t *list, size_t most)
{
	if (!joined->left || json_array_size(list) >= most)
		return false;
	joined->left--;
	return true;
}

/* Who holds it, and so whom a drain waits for. One that nobody uses any more waits until nobody maps its memory. */
static json_t *holders_json(struct joined *joined, const struct view *view, struct range range)
{
	size_t most = view == &joined->view[USES] ? LISTED_MAX : WAITED_FOR_MAX;
	json_t *list = json_array();

	for (size_t i = range.begin; i < range.end && list_goes_on(joined, list, most); i++) {
		const union status_record *record = view->at[i];

		if (record->type == TRACKED_USE)
			record = grant_of(joined, record);
		json_array_append_new(list, holder_json(joined, &record->grant));
	}
	return list;
}

static json_t *buffer_json(struct joined *joined, const union status_record *record)
{
	static const char *const states[] = { "creating", "live", "draining", "freeing" };
	const struct status_buffer *buffer = &record->buffer;
	const struct view *view = &joined->view[USES];
	struct range range = view_range(view, buffer->generation);
	struct sums sums;

	if (range.begin == range.end && buffer->state >= STATUS_DRAINING) {
		view = &joined->view[OF_ALLOCATION];
		range = view_range(view, buffer->allocation);
	}
	sums = range_sums(view, range);
	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:I,s:I,s:I,s:b,s:b,s:b,s:I,s:I,s:o}", "name", buffer->name, "generation",
			 NUMBER(buffer->generation), "bytes", NUMBER(buffer->bytes), "allocated", NUMBER(buffer->allocated),
			 "created", NUMBER(buffer->created), "device", NUMBER(buffer->device), "state", states[buffer->state],
			 "owner", NUMBER(buffer->owner), "group", NUMBER(buffer->group), "mode", NUMBER(buffer->mode),
			 "ephemeral", buffer->ephemeral != 0, "timeline", buffer->timeline != 0, "alone", buffer->alone != 0,
			 "grants", NUMBER(range.end - range.begin - sums.orphaned), "held", NUMBER(sums.orphaned), "holders",
			 holders_json(joined, view, range));
}

/* Where it maps memory. */
static json_t *devices_json(struct joined *joined, struct range grants)
{
	bool seen[DEVICE_MAX] = { false };
	json_t *list = json_array();

	for (size_t i = grants.begin; i < grants.end && joined->left; i++, joined->left--) {
		uint64_t device = joined->view[OF_SESSION].at[i]->grant.device;

		if (device < DEVICE_MAX)
			seen[device] = true;
	}
	for (int device = 0; device < DEVICE_MAX; device++)
		if (seen[device])
			json_array_append_new(list, json_integer(device));
	return list;
}

/* The names of the buffers that it may have leases of. */
static json_t *holds_json(struct joined *joined, struct range grants)
{
	const struct view *uses = &joined->view[OF_GRANT];
	json_t *list = json_array();

	for (size_t i = grants.begin; i < grants.end && list_goes_on(joined, list, LISTED_MAX); i++) {
		struct range range = view_range(uses, joined->view[OF_SESSION].at[i]->grant.id);

		for (size_t use = range.begin; use < range.end && list_goes_on(joined, list, LISTED_MAX); use++) {
			const union status_record *buffer = view_one(&joined->view[BUFFERS], uses->at[use]->use.generation);

			if (buffer)
				json_array_append_new(list, json_string(buffer->buffer.name));
		}
	}
	return list;
}

static json_t *session_json(struct joined *joined, const union status_record *record)
{
	static const char *const states[] = { "open", "leaving", "cut off", "lost", "orphaned", "dying", "unproven" };
	const struct status_session *session = &record->session;
	struct range grants = view_range(&joined->view[OF_SESSION], session->id);
	struct sums sums = range_sums(&joined->view[OF_SESSION], grants);
	json_t *devices = devices_json(joined, grants);

	return json_pack("{s:I,s:I,s:I,s:o*,s:s,s:I,s:I,s:I,s:I,s:o,s:I,s:o}", "session", NUMBER(session->id), "pid",
			 NUMBER(session->pid), "uid", NUMBER(session->uid), "command", json_string(session->command), "state",
			 states[session->state], "since", NUMBER(session->since), "grants",
			 NUMBER(grants.end - grants.begin - sums.orphaned), "held", NUMBER(sums.orphaned), "bytes",
			 NUMBER(sums.bytes), "devices", devices, "uses", NUMBER(sums.uses), "holds", holds_json(joined, grants));
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
	const struct view *view = &joined->view[which];
	json_t *array = json_array();

	for (size_t i = 0; i < view->count; i++)
		json_array_append_new(array, element(joined, view->at[i]));
	return array;
}

static json_t *joined_json(struct joined *joined, const struct status_header *header, size_t count)
{
	json_t *buffers, *sessions;

	count_used(joined);
	joined->left = 4 * count + LISTED_MAX;
	buffers = list(joined, BUFFERS, buffer_json);
	joined->left = 4 * count + LISTED_MAX;
	sessions = list(joined, SESSIONS, session_json);
	return json_pack("{s:o*,s:I,s:o*,s:I,s:b,s:I,s:o,s:o,s:o,s:o,s:o}", "instance", json_string(header->instance), "pid",
			 NUMBER(header->pid), "device_kind", json_string(header->device_kind), "updated",
			 NUMBER(header->updated), "stopping", header->stopping != 0, "waiting", NUMBER(header->waiting),
			 "devices", list(joined, DEVICES, device_json), "buffers", buffers, "sessions", sessions, "users",
			 list(joined, USERS, user_json), "counters", counters_json(&header->counters));
}

json_t *records_json(const struct status_header *header, const union status_record *records, size_t count)
{
	struct joined joined = { 0 };
	json_t *object = NULL;
	bool made = true;

	for (int i = 0; i < VIEWS; i++)
		made = made && view_make(&joined, i, records, count);
	if (made)
		object = joined_json(&joined, header, count);
	for (int i = 0; i < VIEWS; i++) {
		free(joined.view[i].at);
		free(joined.view[i].before);
	}
	return object;
}
