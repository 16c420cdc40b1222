/* SPDX-License-Identifier: Apache-2.0 */
/* status-text.c - see status-text.h */
#include "status-text.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "broker.h"
#include "timeline.h"

/* jansson frees what it is given also when it fails, so a NULL anywhere only leaves a key out. */
static void set_number(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static void set_text(json_t *object, const char *key, const char *value)
{
	json_object_set_new(object, key, json_string(value));
}

static json_t *device_json(const struct broker *broker, uint32_t index)
{
	const struct board_device *device = &broker->board.header->device[index];
	json_t *object = json_object();
	char uuid[37];

	snprintf(uuid, sizeof uuid, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 device->uuid[0], device->uuid[1], device->uuid[2], device->uuid[3], device->uuid[4],
		 device->uuid[5], device->uuid[6], device->uuid[7], device->uuid[8], device->uuid[9],
		 device->uuid[10], device->uuid[11], device->uuid[12], device->uuid[13], device->uuid[14],
		 device->uuid[15]);
	set_number(object, "index", index);
	set_text(object, "name", device->name);
	set_text(object, "uuid", uuid);
	set_number(object, "bytes", device->memory);
	return object;
}

#define HOLDERS_MAX 64 /* listed of each buffer; "grants" and "held" count all */

/* Sessions that hold grants on the buffer: whom a drain waits for. */
static json_t *holders_json(const struct allocation *allocation)
{
	json_t *array = json_array();
	unsigned count = 0;

	for (const struct grant *grant = allocation->grants; grant && count < HOLDERS_MAX; grant = grant->next, count++) {
		json_t *holder = json_object();

		set_number(holder, "session", grant->session->id);
		set_number(holder, "pid", (uint64_t)grant->session->pid);
		set_text(holder, "command", grant->session->command);
		set_number(holder, "device", grant->device);
		json_object_set_new(holder, "held", json_boolean(grant->held));
		json_array_append_new(array, holder);
	}
	return array;
}

static const char *buffer_state_name(const struct buffer *buffer)
{
	switch (buffer->state) {
	case BUFFER_CREATING:
		return "creating";
	case BUFFER_LIVE:
		return "live";
	default:
		return buffer->allocation->freeing ? "freeing" : "draining";
	}
}

static json_t *buffer_json(const struct buffer *buffer)
{
	json_t *object = json_object();

	set_text(object, "name", buffer->name);
	set_number(object, "generation", buffer->serial);
	set_number(object, "bytes", buffer->size);
	set_number(object, "allocated", buffer->allocation->span);
	set_number(object, "device", buffer->allocation->device);
	set_text(object, "state", buffer_state_name(buffer));
	set_number(object, "owner", buffer->owner);
	set_number(object, "group", buffer->group);
	set_number(object, "mode", buffer->mode);
	json_object_set_new(object, "ephemeral", json_boolean(buffer->flags & GPUB_EPHEMERAL));
	json_object_set_new(object, "timeline", json_boolean(buffer->timeline != NULL));
	set_number(object, "grants", buffer->allocation->open - buffer->allocation->held);
	set_number(object, "held", buffer->allocation->held);
	json_object_set_new(object, "holders", holders_json(buffer->allocation));
	return object;
}

static json_t *buffers_json(const struct broker *broker)
{
	json_t *array = json_array();
	const struct allocation *allocation;
	const struct buffer *buffer;

	for (allocation = broker->registry.allocations; allocation; allocation = allocation->next)
		for (buffer = allocation->buffers; buffer; buffer = buffer->next)
			json_array_append_new(array, buffer_json(buffer));
	return array;
}

/*
 * "lost": its socket is gone, so it is waited for until the process is. "dying": the process is dead and the driver has not
 * torn down its work; "unproven": nobody can tell whether it has.
 */
static const char *session_state_name(const struct session *session)
{
	if (session->proof == PROOF_ASKING)
		return "dying";
	if (session->proof == PROOF_LACKING)
		return "unproven";
	if (session->fd < 0)
		return "lost";
	if (session->dead)
		return "orphaned";
	switch (session->state) {
	case SESSION_OPEN:
		return "open";
	case SESSION_LEAVING:
		return "leaving";
	default:
		return "cut off";
	}
}

static json_t *session_json(const struct session *session)
{
	json_t *object = json_object();
	uint64_t bytes = 0, held = 0;

	for (const struct grant *grant = session->grants; grant; grant = grant->hh.next) {
		bytes += grant->allocation->span;
		held += grant->held;
	}
	set_number(object, "session", session->id);
	set_number(object, "pid", (uint64_t)session->pid);
	set_number(object, "uid", session->who.uid);
	set_text(object, "command", session->command);
	set_text(object, "state", session_state_name(session));
	set_number(object, "grants", HASH_COUNT(session->grants) - held);
	set_number(object, "held", held);
	set_number(object, "bytes", bytes);
	return object;
}

static json_t *sessions_json(const struct broker *broker)
{
	json_t *array = json_array();
	const struct session *session;

	for (session = broker->sessions.by_id; session; session = session->hh.next)
		if (session->state != SESSION_GREETING)
			json_array_append_new(array, session_json(session));
	return array;
}

/* What each user is charged with, and its quotas where it has any. */
static json_t *amounts_json(const uint64_t amounts[RESOURCES])
{
	json_t *object = json_object();

	for (int i = 0; i < RESOURCES; i++)
		if (amounts[i] != QUOTA_NONE)
			set_number(object, resource_key((enum resource)i), amounts[i]);
	return object;
}

struct users_json {
	const struct broker *broker;
	json_t              *array;
};

static void user_json(void *context, uid_t uid, const uint64_t used[RESOURCES])
{
	struct users_json *users = context;
	const struct quota *quota = accounting_quota(&users->broker->accounting, uid);
	json_t *object = json_object(), *limits = amounts_json(quota->limit);

	if (quota->requests != QUOTA_NONE)
		set_number(limits, "requests", quota->requests);
	set_number(object, "uid", uid);
	json_object_set_new(object, "used", amounts_json(used));
	json_object_set_new(object, "quota", limits);
	json_array_append_new(users->array, object);
}

static json_t *users_json(const struct broker *broker)
{
	struct users_json users = { broker, json_array() };

	accounting_each(&broker->accounting, user_json, &users);
	return users.array;
}

static json_t *counters_json(const struct counters *counters)
{
	json_t *object = json_object();

#define COUNTER_SET(name, text) set_number(object, #name, counters->name);
	COUNTERS(COUNTER_SET)
#undef COUNTER_SET
	return object;
}

char *status_text(const struct broker *broker)
{
	json_t *root = json_object(), *devices = json_array();
	char *text;

	for (uint32_t i = 0; i < broker->board.header->devices; i++)
		json_array_append_new(devices, device_json(broker, i));
	set_text(root, "instance", broker->config.instance);
	set_number(root, "pid", (uint64_t)getpid());
	set_text(root, "device_kind", broker->device->name);
	set_number(root, "updated", (uint64_t)time(NULL));
	json_object_set_new(root, "stopping", json_boolean(broker->stopping));
	set_number(root, "waiting", broker->waiting.count);
	json_object_set_new(root, "devices", devices);
	json_object_set_new(root, "buffers", buffers_json(broker));
	json_object_set_new(root, "sessions", sessions_json(broker));
	json_object_set_new(root, "users", users_json(broker));
	json_object_set_new(root, "counters", counters_json(&broker->counters));
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	return text;
}
