/* SPDX-License-Identifier: Apache-2.0 */
/* records.c - see records.h */
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/uuid-text.h"
#include "common/export.h"
#include "common/layout.h"
#include "device/device.h"
#include "views.h"

/* largest number of listed holders of a buffer, and of listed buffers of a session; the counts include unlisted ones */
#define LISTED_MAX  1024
/* largest number of listed holders of an unused buffer's allocation: many may have equal lists */
#define WAITED_FOR_MAX 64

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
		return ENDS(record->session.command) && record->session.state < STATUS_SESSION_STATES &&
		       record->session.answer < STATUS_ANSWERS;
	case TRACKED_BUFFER:
		return ENDS(record->buffer.name) && !name_check(record->buffer.name) &&
		       record->buffer.state < STATUS_BUFFER_STATES;
	case TRACKED_TIMELINE:
		return record->timeline.ended < STATUS_ENDS;
	case TRACKED_REQUEST:
		return ENDS(record->request.name) && record->request.kind < STATUS_REQUESTS &&
		       (!record->request.name[0] || !name_check(record->request.name));
	case TRACKED_ADDRESS:
		return ENDS(record->address.address);
	case TRACKED_HISTOGRAM:
		return record->histogram.id < HISTOGRAMS;
	case TRACKED_JOB:
		return ENDS(record->job.launcher) && ENDS(record->job.id);
	case TRACKED_OWNER:
		return record->owner.state < STATUS_OWNER_STATES;
	case TRACKED_BROKER:
		return record->broker.how < STATUS_BROKER_HOWS;
	case TRACKED_PROGRAM:
		return ENDS(record->program.version);
	default:
		return true;
	}
}

/* ---- the JSON object ---- */

struct joined {
	struct views views;
	uint64_t     used[DEVICE_MAX]; /* bytes of memory that buffers take on each device, by the device's index */
	/* number of steps that are left for all lists; limited, because forged records might need very many */
	size_t       left;
};

/* Sets joined->used: adds up the memory that buffers take on each device. */
static void count_used(struct joined *joined)
{
	const struct view *buffers = &joined->views.view[BUFFERS];

	for (size_t i = 0; i < buffers->count; i++)
		if (buffers->at[i]->buffer.device < DEVICE_MAX)
			joined->used[buffers->at[i]->buffer.device] += buffers->at[i]->buffer.allocated;
}

static json_t *device_json(struct joined *joined, const union status_record *record)
{
	const struct status_device *device = &record->device;
	uint64_t used = device->index < DEVICE_MAX ? joined->used[device->index] : 0;
	uint64_t taken = used + device->idle + device->pooled;
	char uuid[UUID_TEXT_SIZE];

	return json_pack("{s:I,s:o*,s:s,s:I,s:I,s:I,s:I,s:I}", "index", NUMBER(device->index), "name",
			 json_string(device->name), "uuid", uuid_format(device->uuid, uuid), "bytes",
			 NUMBER(device->bytes), "used", NUMBER(used), "idle", NUMBER(device->idle), "pooled",
			 NUMBER(device->pooled), "free", NUMBER(device->bytes > taken ? device->bytes - taken : 0));
}

static json_t *holder_json(const struct joined *joined, const struct status_mapping *mapping)
{
	const struct status_session *session = &view_one(&joined->views.view[SESSIONS], mapping->session)->session;

	return json_pack("{s:I,s:I,s:I,s:o*,s:I,s:b}", "session", NUMBER(mapping->session), "pid", NUMBER(session->pid),
			 "uid", NUMBER(session->uid), "command", json_string(session->command), "device",
			 NUMBER(mapping->device), "held", mapping->orphaned != 0);
}

/* Takes one step for an element of a list. Returns false if no steps are left, or the list has `most` elements. */
static bool list_goes_on(struct joined *joined, const json_t *list, size_t most)
{
	if (!joined->left || json_array_size(list) >= most)
		return false;
	joined->left--;
	return true;
}

/*
 * Returns an array of the holders of a buffer, for which a drain waits: the mappings of its grants, or all mappings of
 * its allocation. range: the range of the view that has them.
 */
static json_t *holders_json(struct joined *joined, const struct view *view, struct range range)
{
	size_t most = view == &joined->views.view[GRANTS] ? LISTED_MAX : WAITED_FOR_MAX;
	json_t *list = json_array();

	for (size_t i = range.begin; i < range.end && list_goes_on(joined, list, most); i++) {
		const union status_record *record = view->at[i];

		if (record->type == TRACKED_GRANT)
			record = views_mapping_of(&joined->views, record);
		json_array_append_new(list, holder_json(joined, &record->mapping));
	}
	return list;
}

static json_t *buffer_json(struct joined *joined, const union status_record *record)
{
	static const char *const states[] = { "creating", "live", "draining", "freeing" };
	const struct status_buffer *buffer = &record->buffer;
	const struct view *view = &joined->views.view[GRANTS];
	struct range range = view_range(view, buffer->generation);
	char layout[GPUB_LAYOUT_TEXT_MAX];
	struct sums sums;

	if (range.begin == range.end && buffer->state >= STATUS_DRAINING) {
		view = &joined->views.view[OF_ALLOCATION];
		range = view_range(view, buffer->allocation);
	}
	sums = view_sums(view, range);
	return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:I,s:I,s:I,s:b,s:b,s:b,s:b,s:b,s:b,s:b,s:s,s:s*,s:I,s:I,s:o}",
			 "name", buffer->name, "generation", NUMBER(buffer->generation), "bytes", NUMBER(buffer->bytes),
			 "allocated", NUMBER(buffer->allocated), "created", NUMBER(buffer->created), "device",
			 NUMBER(buffer->device), "state", states[buffer->state], "owner", NUMBER(buffer->owner),
			 "group", NUMBER(buffer->group), "mode", NUMBER(buffer->mode), "ephemeral",
			 (buffer->flags & GPUB_EPHEMERAL) != 0, "timeline", (buffer->flags & GPUB_TIMELINE) != 0,
			 "alone", (buffer->flags & GPUB_DEDICATED) != 0, "sealed", (buffer->flags & GPUB_SEALED) != 0,
			 "same_address", (buffer->flags & GPUB_SAME_ADDRESS) != 0, "growable",
			 (buffer->flags & GPUB_GROWABLE) != 0, "ended", (buffer->flags & STATUS_ENDED) != 0, "export",
			 buffer->exported < export_count ? export_of(buffer->exported)->name : "unknown", "layout",
			 layout_is_none(&buffer->layout) ? NULL : layout_text(&buffer->layout, layout), "grants",
			 NUMBER(range.end - range.begin - sums.orphaned), "held", NUMBER(sums.orphaned), "holders",
			 holders_json(joined, view, range));
}

/* Returns an array of the indexes of the devices on which a session has mappings. mappings: as for holds_json(). */
static json_t *devices_json(struct joined *joined, struct range mappings)
{
	bool seen[DEVICE_MAX] = { false };
	json_t *list = json_array();

	for (size_t i = mappings.begin; i < mappings.end && joined->left; i++, joined->left--) {
		uint64_t device = joined->views.view[OF_SESSION].at[i]->mapping.device;

		if (device < DEVICE_MAX)
			seen[device] = true;
	}
	for (int device = 0; device < DEVICE_MAX; device++)
		if (seen[device])
			json_array_append_new(list, json_integer(device));
	return list;
}

/*
 * Returns an array of the names of the buffers that a session has grants of. mappings: the session's mappings, as a
 * range of the view OF_SESSION.
 */
static json_t *holds_json(struct joined *joined, struct range mappings)
{
	const struct view *grants = &joined->views.view[OF_MAPPING];
	json_t *list = json_array();

	for (size_t i = mappings.begin; i < mappings.end && list_goes_on(joined, list, LISTED_MAX); i++) {
		struct range range = view_range(grants, joined->views.view[OF_SESSION].at[i]->mapping.id);

		for (size_t grant = range.begin; grant < range.end && list_goes_on(joined, list, LISTED_MAX); grant++) {
			const union status_record *buffer =
				view_one(&joined->views.view[BUFFERS], grants->at[grant]->grant.generation);

			if (buffer)
				json_array_append_new(list, json_string(buffer->buffer.name));
		}
	}
	return list;
}

/* Returns a process's rank as a JSON number; NULL: the process reported none. rank: as in struct status_session. */
static json_t *rank_json(uint32_t rank)
{
	return rank ? json_integer((json_int_t)rank - 1) : NULL;
}

const char *session_state_name(enum status_session_state state)
{
	static const char *const names[] = { "open", "leaving", "cut off", "lost", "orphaned", "dying", "unproven" };

	return names[state];
}

static json_t *session_json(struct joined *joined, const union status_record *record)
{
	static const char *const answers[] = { "not asked", "given", "owed", "unable" };
	const struct status_session *session = &record->session;
	struct range mappings = view_range(&joined->views.view[OF_SESSION], session->id);
	struct sums sums = view_sums(&joined->views.view[OF_SESSION], mappings);
	json_t *devices = devices_json(joined, mappings);

	return json_pack("{s:I,s:I,s:I,s:o*,s:s,s:I,s:o*,s:s,s:I,s:I,s:I,s:I,s:o,s:I,s:o}", "session",
			 NUMBER(session->id), "pid", NUMBER(session->pid), "uid", NUMBER(session->uid), "command",
			 json_string(session->command), "state",
			 session_state_name((enum status_session_state)session->state), "since", NUMBER(session->since),
			 "rank", rank_json(session->rank), "answer", answers[session->answer], "answered",
			 NUMBER(session->answered / 1000), "mappings",
			 NUMBER(mappings.end - mappings.begin - sums.orphaned), "held", NUMBER(sums.orphaned), "bytes",
			 NUMBER(sums.bytes), "devices", devices, "grants", NUMBER(sums.grants), "holds",
			 holds_json(joined, mappings));
}

static const union status_record *buffer_of(const struct joined *joined, uint64_t generation)
{
	return view_one(&joined->views.view[BUFFERS], generation);
}

static json_t *timeline_json(struct joined *joined, const union status_record *record)
{
	static const char *const endings[] = { "no", "left", "died" };
	const struct status_timeline *timeline = &record->timeline;
	const union status_record *buffer = buffer_of(joined, timeline->generation);
	json_t *object = json_pack("{s:o*,s:I,s:I,s:I,s:s}", "name", buffer ? json_string(buffer->buffer.name) : NULL,
				   "generation", NUMBER(timeline->generation), "value", NUMBER(timeline->value), "read",
				   NUMBER(timeline->read / 1000), "ended", endings[timeline->ended]);

	if (timeline->writer) {
		json_object_set_new(object, "writer", json_integer(NUMBER(timeline->writer)));
		json_object_set_new(object, "pid", json_integer(NUMBER(timeline->pid)));
		json_object_set_new(object, "rank", rank_json(timeline->rank));
	}
	if (timeline->ended)
		json_object_set_new(object, "ended_at", json_integer(NUMBER(timeline->ended_at / 1000)));
	return object;
}

/* Sets "session" in the object of a wait to the id, and "pid" and "rank" if the record of the session exists. */
static void waiter_set(const struct joined *joined, json_t *object, uint64_t id)
{
	const union status_record *session = view_one(&joined->views.view[SESSIONS], id);

	json_object_set_new(object, "session", json_integer(NUMBER(id)));
	if (!session)
		return;
	json_object_set_new(object, "pid", json_integer(NUMBER(session->session.pid)));
	json_object_set_new(object, "rank", rank_json(session->session.rank));
}

static json_t *wait_json(struct joined *joined, const union status_record *record)
{
	const struct status_wait *wait = &record->wait;
	const union status_record *buffer = buffer_of(joined, wait->generation);
	json_t *object = json_pack("{s:s,s:o*,s:I,s:I,s:I,s:I}", "kind", "stream", "name",
				   buffer ? json_string(buffer->buffer.name) : NULL, "generation",
				   NUMBER(wait->generation), "value", NUMBER(wait->value), "device",
				   NUMBER(wait->device), "since", NUMBER(wait->since / 1000));

	waiter_set(joined, object, wait->session);
	return object;
}

static json_t *request_json(struct joined *joined, const union status_record *record)
{
	static const char *const kinds[] = { "acquire", "drain", "create", "newer" };
	const struct status_request *request = &record->request;
	json_t *object = json_pack("{s:s,s:s,s:I}", "kind", kinds[request->kind], "name", request->name, "since",
				   NUMBER(request->since / 1000));

	if (request->kind == STATUS_DRAIN || request->kind == STATUS_CREATE)
		json_object_set_new(object, "generation", json_integer(NUMBER(request->generation)));
	if (request->kind == STATUS_CREATE) {
		json_object_set_new(object, "bytes", json_integer(NUMBER(request->bytes)));
		json_object_set_new(object, "device", json_integer(NUMBER(request->device)));
	}
	waiter_set(joined, object, request->session);
	return object;
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

/* Returns an object with those buckets of a histogram that are not empty, with their bounds as keys. */
static json_t *buckets_json(const struct status_histogram *histogram)
{
	json_t *object = json_object();
	char bound[24];

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t us = histogram_bound((enum histogram_id)histogram->id, i);

		snprintf(bound, sizeof bound, "%llu", (unsigned long long)us);
		if (histogram->buckets[i])
			json_object_set_new(object, us ? bound : "more", json_integer(NUMBER(histogram->buckets[i])));
	}
	return object;
}

static json_t *histograms_json(const struct view *view)
{
	json_t *object = json_object();

	for (size_t i = 0; i < view->count; i++) {
		const struct status_histogram *histogram = &view->at[i]->histogram;
		uint64_t count = 0;

		for (unsigned j = 0; j < HISTOGRAM_BUCKETS; j++)
			count += histogram->buckets[j];
		json_object_set_new(object, histogram_key((enum histogram_id)histogram->id),
				    json_pack("{s:I,s:I,s:o}", "count", NUMBER(count), "nanoseconds",
					      NUMBER(histogram->nanoseconds), "microseconds", buckets_json(histogram)));
	}
	return object;
}

static json_t *list(struct joined *joined, int which, json_t *(*element)(struct joined *, const union status_record *))
{
	const struct view *view = &joined->views.view[which];
	json_t *array = json_array();

	for (size_t i = 0; i < view->count; i++)
		json_array_append_new(array, element(joined, view->at[i]));
	return array;
}

static json_t *waits_json(struct joined *joined)
{
	json_t *waits = list(joined, WAITS, wait_json), *requests = list(joined, REQUESTS, request_json);

	json_array_extend(waits, requests);
	json_decref(requests);
	return waits;
}

/* Returns an object with the broker's job; NULL: the broker has none. */
static json_t *job_json(const struct view *view)
{
	const struct status_job *job = view->count ? &view->at[0]->job : NULL;

	return job ? json_pack("{s:s,s:s}", "launcher", job->launcher, "id", job->id) : NULL;
}

const char *broker_end_name(unsigned how)
{
	static const char *const names[STATUS_BROKER_HOWS] = { "", "killed", "crashed", "hung", "upgraded" };

	return names[how];
}

const char *owner_state_name(enum status_owner_state state)
{
	static const char *const names[] = { "running", "starting", "failed" };

	return names[state];
}

static void hidden_set(json_t *object, const char *key, uint64_t number)
{
	if (number != STATUS_HIDDEN)
		json_object_set_new(object, key, json_integer(NUMBER(number)));
}

/* Returns an object with what is known of the owner of the device memory; NULL: an older broker does not tell. */
static json_t *owner_json(const struct view *view)
{
	const struct status_owner *owner = view->count ? &view->at[0]->owner : NULL;
	json_t *object;

	if (!owner)
		return NULL;
	object = json_pack("{s:s,s:I,s:I,s:I}", "state", owner_state_name((enum status_owner_state)owner->state),
			   "since", NUMBER(owner->since / 1000), "tries", NUMBER(owner->tries), "died",
			   NUMBER(owner->died));
	if (owner->state == STATUS_OWNER_RUNS)
		json_object_set_new(object, "pid", json_integer(NUMBER(owner->pid)));
	if (owner->died) {
		json_object_set_new(object, "died_pid", json_integer(NUMBER(owner->died_pid)));
		json_object_set_new(object, "died_at", json_integer(NUMBER(owner->died_at / 1000)));
		hidden_set(object, "lost", owner->lost);
		hidden_set(object, "lost_all", owner->lost_all);
	}
	return object;
}

/* Returns an object with what is known of the broker's process; NULL: the broker does not tell. */
static json_t *broker_json(const struct views *views)
{
	const struct view *brokers = &views->view[BROKERS], *programs = &views->view[PROGRAMS];
	const struct status_broker *broker = brokers->count ? &brokers->at[0]->broker : NULL;
	json_t *object;

	if (!broker)
		return NULL;
	object = json_pack("{s:I,s:I,s:I,s:I}", "pid", NUMBER(broker->pid), "since", NUMBER(broker->since / 1000),
			   "restarts", NUMBER(broker->restarts), "cold_starts", NUMBER(broker->cold_starts));
	if (programs->count)
		json_object_set_new(object, "version", json_string(programs->at[0]->program.version));
	if (broker->restarts) {
		json_object_set_new(object, "ended", json_string(broker_end_name(broker->how)));
		json_object_set_new(object, "pause_us", json_integer(NUMBER(broker->pause_us)));
		json_object_set_new(object, "objects", json_integer(NUMBER(broker->objects)));
	}
	return object;
}

/* Returns the broker's address; NULL: the broker listens at no path. */
static json_t *address_json(const struct view *view)
{
	const char *address = view->count ? view->at[0]->address.address : "";

	return *address ? json_string(address) : NULL;
}

static json_t *joined_json(struct joined *joined, const struct status_header *header, size_t count)
{
	json_t *buffers, *sessions;

	count_used(joined);
	joined->left = 3 * count + LISTED_MAX;
	buffers = list(joined, BUFFERS, buffer_json);
	joined->left = 4 * count + LISTED_MAX;
	sessions = list(joined, SESSIONS, session_json);
	return json_pack("{s:o*,s:I,s:o*,s:o*,s:o*,s:o*,s:o*,s:I,s:b,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "instance",
			 json_string(header->instance), "pid", NUMBER(header->pid), "address",
			 address_json(&joined->views.view[ADDRESSES]), "device_kind",
			 json_string(header->device_kind), "job", job_json(&joined->views.view[JOBS]),
			 "broker_process", broker_json(&joined->views), "memory_owner",
			 owner_json(&joined->views.view[OWNERS]), "updated", NUMBER(header->updated),
			 "stopping", header->stopping != 0, "waiting", NUMBER(header->waiting),
			 "devices", list(joined, DEVICES, device_json), "buffers", buffers, "sessions", sessions,
			 "timelines", list(joined, TIMELINES, timeline_json), "waits", waits_json(joined), "users",
			 list(joined, USERS, user_json), "counters", counters_json(&header->counters), "times",
			 histograms_json(&joined->views.view[TIMES]));
}

json_t *records_json(const struct status_header *header, const union status_record *records, size_t count)
{
	struct joined joined = { 0 };
	json_t *object = NULL;

	if (views_make(&joined.views, records, count))
		object = joined_json(&joined, header, count);
	views_free(&joined.views);
	return object;
}
