/* SPDX-License-Identifier: Apache-2.0 */
/* status-text.c - see status-text.h */
#include "status-text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "broker/base/context.h"
#include "broker/memory/allocation.h"
#include "broker/memory/usage.h"
#include "broker/registry/board-owner.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/request/waiting.h"
#include "broker/session/session.h"
#include "broker/users/accounting.h"

#define ITEM_MAX  16384 /* room that a step finds: a buffer with all its holders takes less */
#define STEPS_MAX 16384 /* a piece: of a large board with few buffers in it */

/* ---- JSON ---- */

static void put(struct status_text *text, const char *bytes, size_t length)
{
	assert(length <= sizeof text->piece - text->length);
	memcpy(text->piece + text->length, bytes, length);
	text->length += length;
}

static void put_char(struct status_text *text, char c)
{
	put(text, &c, 1);
}

/* What is in brackets has commas between, none before the first. */
static void put_comma(struct status_text *text)
{
	if (text->comma)
		put_char(text, ',');
	text->comma = true;
}

static void put_key(struct status_text *text, const char *key)
{
	put_comma(text);
	put_char(text, '"');
	put(text, key, strlen(key));
	put(text, "\":", 2);
}

/* An object in an array has no key: NULL. */
static void put_begin(struct status_text *text, const char *key, char bracket)
{
	if (key)
		put_key(text, key);
	else
		put_comma(text);
	put_char(text, bracket);
	text->comma = false;
}

static void put_end(struct status_text *text, char bracket)
{
	put_char(text, bracket);
	text->comma = true;
}

/* With a sign, as readers' integers have one. By hand: printf takes most of the time of a large text. */
static void put_number(struct status_text *text, const char *key, uint64_t value)
{
	uint64_t rest = (int64_t)value < 0 ? -value : value;
	char digits[21];
	size_t at = sizeof digits;

	do
		digits[--at] = (char)('0' + rest % 10);
	while (rest /= 10);
	if ((int64_t)value < 0)
		digits[--at] = '-';
	put_key(text, key);
	put(text, digits + at, sizeof digits - at);
}

static void put_truth(struct status_text *text, const char *key, bool value)
{
	put_key(text, key);
	put(text, value ? "true" : "false", value ? 4 : 5);
}

/* What needs no escapes: our own words, and what name_check() let pass. */
static void put_word(struct status_text *text, const char *key, const char *word)
{
	put_key(text, key);
	put_char(text, '"');
	put(text, word, strlen(word));
	put_char(text, '"');
}

/* What others made up. What is not UTF-8, as a process may call itself, is left out. */
static void put_string(struct status_text *text, const char *key, const char *value)
{
	char escaped[1024];
	json_t *string = json_string(value);
	size_t length = string ? json_dumpb(string, escaped, sizeof escaped, JSON_ENCODE_ANY) : 0;

	json_decref(string);
	if (!length || length > sizeof escaped)
		return;
	put_key(text, key);
	put(text, escaped, length);
}

/* ---- devices ---- */

static void put_device(struct status_text *text, const struct broker *broker, uint32_t index)
{
	const struct board_device *device = &broker->board->header->device[index];
	char uuid[37];

	snprintf(uuid, sizeof uuid, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 device->uuid[0], device->uuid[1], device->uuid[2], device->uuid[3], device->uuid[4],
		 device->uuid[5], device->uuid[6], device->uuid[7], device->uuid[8], device->uuid[9],
		 device->uuid[10], device->uuid[11], device->uuid[12], device->uuid[13], device->uuid[14],
		 device->uuid[15]);
	put_begin(text, NULL, '{');
	put_number(text, "index", index);
	put_string(text, "name", device->name);
	put_word(text, "uuid", uuid);
	put_number(text, "bytes", device->memory);
	put_number(text, "idle", broker->memory->usages.bytes[index][SPARE_IDLE]);
	put_number(text, "pooled", broker->memory->usages.bytes[index][SPARE_POOLED]);
	put_end(text, '}');
}

static bool next_device(struct status_text *text, const struct broker *broker)
{
	if (text->cursor == broker->board->header->devices)
		return false;
	put_device(text, broker, (uint32_t)text->cursor++);
	return true;
}

/* ---- buffers ---- */

#define HOLDERS_MAX 64 /* listed of each buffer; "grants" and "held" count all */

static void put_holder(struct status_text *text, const struct grant *grant)
{
	put_begin(text, NULL, '{');
	put_number(text, "session", grant->session->id);
	put_number(text, "pid", (uint64_t)grant->session->pid);
	put_string(text, "command", grant->session->command);
	put_number(text, "device", grant->device);
	put_truth(text, "held", grant->held);
	put_end(text, '}');
}

static void put_holders_of_uses(struct status_text *text, const struct buffer *buffer)
{
	unsigned count = 0;

	for (const struct use *use = buffer->uses; use && count < HOLDERS_MAX; use = use->next, count++)
		put_holder(text, use->grant);
}

static void put_holders_of_memory(struct status_text *text, const struct allocation *allocation)
{
	unsigned count = 0;

	for (const struct grant *grant = allocation->grants; grant && count < HOLDERS_MAX; grant = grant->next, count++)
		put_holder(text, grant);
}

/* Who holds it, and so whom a drain waits for. One that nobody uses any more waits until nobody maps its memory. */
static void put_holders(struct status_text *text, const struct buffer *buffer)
{
	const struct allocation *allocation = buffer->allocation;
	bool by_memory = buffer->state == BUFFER_DRAINING && !buffer->used;
	unsigned all = by_memory ? allocation->open : buffer->used, held = by_memory ? allocation->held : buffer->held;

	put_number(text, "grants", all - held);
	put_number(text, "held", held);
	put_begin(text, "holders", '[');
	if (by_memory)
		put_holders_of_memory(text, allocation);
	else
		put_holders_of_uses(text, buffer);
	put_end(text, ']');
}

static const char *buffer_state_name(const struct buffer *buffer)
{
	switch (buffer->state) {
	case BUFFER_CREATING:
		return "creating";
	case BUFFER_LIVE:
		return "live";
	default:
		return buffer->allocation->state == ALLOCATION_FREEING ? "freeing" : "draining";
	}
}

static void put_buffer(struct status_text *text, const struct buffer *buffer)
{
	put_begin(text, NULL, '{');
	put_word(text, "name", buffer->name);
	put_number(text, "generation", buffer->serial);
	put_number(text, "bytes", buffer->size);
	put_number(text, "allocated", buffer->allocation->slab.kind.range);
	put_number(text, "device", buffer->allocation->device);
	put_word(text, "state", buffer_state_name(buffer));
	put_number(text, "owner", buffer->owner);
	put_number(text, "group", buffer->group);
	put_number(text, "mode", buffer->mode);
	put_truth(text, "ephemeral", buffer->flags & GPUB_EPHEMERAL);
	put_truth(text, "timeline", buffer->timeline != NULL);
	put_truth(text, "alone", buffer->flags & GPUB_DEDICATED);
	put_holders(text, buffer);
	put_end(text, '}');
}

static bool next_buffer(struct status_text *text, const struct broker *broker)
{
	const struct registry *registry = broker->registry;

	if (text->cursor == registry->words.count)
		return false;
	if (registry->by_place[text->cursor])
		put_buffer(text, registry->by_place[text->cursor]);
	text->cursor++;
	return true;
}

/* ---- sessions ---- */

/*
 * "lost": its socket is gone, so it is waited for until the process is. "dying": the process is dead and the driver has not
 * torn down its work; "unproven": nobody can tell whether it has.
 */
static const char *session_state_name(const struct session *session)
{
	if (session->proof.state == PROOF_ASKING)
		return "dying";
	if (session->proof.state == PROOF_IMPOSSIBLE)
		return "unproven";
	if (session->fd < 0)
		return "lost";
	if (session->place.dead)
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

static void put_session(struct status_text *text, const struct session *session)
{
	const struct grants *grants = &session->grants;

	put_begin(text, NULL, '{');
	put_number(text, "session", session->id);
	put_number(text, "pid", (uint64_t)session->pid);
	put_number(text, "uid", session->who.uid);
	put_string(text, "command", session->command);
	put_word(text, "state", session_state_name(session));
	put_number(text, "grants", HASH_COUNT(grants->by_id) - grants->held);
	put_number(text, "held", grants->held);
	put_number(text, "bytes", grants->bytes);
	put_end(text, '}');
}

/* The table is in the order of ids, which only grow. The one that came last may be gone by now. */
static const struct session *session_after(const struct broker *broker, uint64_t id)
{
	const struct session *session;

	HASH_FIND(hh, broker->sessions->by_id, &id, sizeof id, session);
	if (session)
		return session->hh.next;
	for (session = broker->sessions->by_id; session && session->id <= id; session = session->hh.next)
		;
	return session;
}

static bool next_session(struct status_text *text, const struct broker *broker)
{
	const struct session *session = session_after(broker, text->cursor);

	if (!session)
		return false;
	if (session_is_welcome(session))
		put_session(text, session);
	text->cursor = session->id;
	return true;
}

/* ---- users ---- */

/* What each user is charged with, and its quotas where it has any. */
static void put_amounts(struct status_text *text, const uint64_t amounts[RESOURCES])
{
	for (int i = 0; i < RESOURCES; i++)
		if (amounts[i] != QUOTA_NONE)
			put_number(text, resource_key((enum resource)i), amounts[i]);
}

/* The smallest uid from there on that is charged with anything. */
struct user_search {
	uint64_t        from;
	bool            found;
	uid_t           uid;
	const uint64_t *used;
};

static void look_at_user(void *context, uid_t uid, const uint64_t used[RESOURCES])
{
	struct user_search *search = context;

	if (uid < search->from || (search->found && uid > search->uid))
		return;
	search->found = true;
	search->uid = uid;
	search->used = used;
}

static bool next_user(struct status_text *text, const struct broker *broker)
{
	struct user_search search = { .from = text->cursor };
	const struct quota *quota;

	accounting_each(broker->accounting, look_at_user, &search);
	if (!search.found)
		return false;
	quota = accounting_quota(broker->accounting, search.uid);
	put_begin(text, NULL, '{');
	put_number(text, "uid", search.uid);
	put_begin(text, "used", '{');
	put_amounts(text, search.used);
	put_end(text, '}');
	put_begin(text, "quota", '{');
	put_amounts(text, quota->limit);
	if (quota->requests != QUOTA_NONE)
		put_number(text, "requests", quota->requests);
	put_end(text, '}');
	put_end(text, '}');
	text->cursor = (uint64_t)search.uid + 1;
	return true;
}

/* ---- the text ---- */

static void put_head(struct status_text *text, const struct broker *broker)
{
	put_begin(text, NULL, '{');
	put_word(text, "instance", broker->board->header->instance);
	put_number(text, "pid", (uint64_t)getpid());
	put_word(text, "device_kind", broker->device->name);
	put_number(text, "updated", (uint64_t)time(NULL));
	put_truth(text, "stopping", broker->stopping);
	put_number(text, "waiting", broker->waiting->count);
}

static void put_tail(struct status_text *text, const struct broker *broker)
{
	put_begin(text, "counters", '{');
#define COUNTER_PUT(name, meaning) put_number(text, #name, broker->counters.name);
	COUNTERS(COUNTER_PUT)
#undef COUNTER_PUT
	put(text, "}}", 2);
}

/* Each adds one item, or passes over a place where none is. False: there is none from there on. */
static const struct {
	const char *key;
	bool (*next)(struct status_text *text, const struct broker *broker);
} arrays[] = {
	{ "devices", next_device },
	{ "buffers", next_buffer },
	{ "sessions", next_session },
	{ "users", next_user },
};

#define ARRAYS (sizeof arrays / sizeof *arrays)

static void array_begin(struct status_text *text)
{
	put_begin(text, arrays[text->array].key, '[');
	text->inside = true;
	text->cursor = 0;
}

static void array_end(struct status_text *text)
{
	put_end(text, ']');
	text->inside = false;
	text->array++;
}

static void step(struct status_text *text, const struct broker *broker)
{
	if (text->array == ARRAYS) {
		put_tail(text, broker);
		text->whole = true;
		return;
	}
	if (!text->array && !text->inside)
		put_head(text, broker);
	if (!text->inside)
		array_begin(text);
	if (!arrays[text->array].next(text, broker))
		array_end(text);
}

void status_text_begin(struct status_text *text)
{
	memset(text, 0, offsetof(struct status_text, piece));
}

void status_text_next(struct status_text *text, const struct broker *broker)
{
	text->length = 0;
	for (unsigned steps = 0; !text->whole && steps < STEPS_MAX && text->length + ITEM_MAX <= STATUS_PIECE; steps++)
		step(text, broker);
}
