/* SPDX-License-Identifier: Apache-2.0 */
/* telling.c - see telling.h */
#include "telling.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/size.h"

struct telling_node {
	struct process_seen seen;
	bool                looked, named; /* looked: the member `seen` is set; named: a line has named the process */
};

/* ---- the line ---- */

void tell(struct telling *telling, const char *format, ...)
{
	size_t room = sizeof telling->text - telling->length;
	va_list args;
	int wrote;

	va_start(args, format);
	wrote = vsnprintf(telling->text + telling->length, room, format, args);
	va_end(args);
	if (wrote > 0)
		telling->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

void tell_line(struct telling *telling)
{
	for (char *at = telling->text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	telling->why->say(telling->why->context, telling->text);
	telling->found.lines++;
	telling->length = 0;
	telling->hops = 0;
}

void tell_age(struct telling *telling, uint64_t since)
{
	static const struct {
		uint64_t    seconds;
		const char *unit;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" } };
	uint64_t now = telling->why->now_ms, age = now > since ? (now - since) / 1000 : 0;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (age >= 2 * units[i].seconds) {
			tell(telling, "%llu %s: ", NUMBER(age / units[i].seconds), units[i].unit);
			return;
		}
	tell(telling, "%llu s: ", NUMBER(age));
}

/* ---- processes ---- */

const struct status_session *telling_session(const struct telling *telling, uint64_t id)
{
	const union status_record *session = view_one(&telling->views.view[SESSIONS], id);

	return session ? &session->session : NULL;
}

static bool numbers_are_known(const struct telling *telling)
{
	return telling->why->live && telling->why->look;
}

/* Looks at each process only once, so that all lines agree. */
struct process_seen telling_look(struct telling *telling, const struct status_session *session)
{
	struct telling_node *node;
	uint32_t place;

	if (!numbers_are_known(telling) || !why_node(&telling->views, session->id, &place))
		return (struct process_seen){ 0 };
	node = &telling->nodes[place];
	if (!node->looked)
		telling->why->look(session->pid, &node->seen);
	node->looked = true;
	return node->seen;
}

bool telling_named(const struct telling *telling, size_t node)
{
	return telling->nodes[node].named;
}

void tell_process(struct telling *telling, const struct status_session *session)
{
	struct process_seen seen = telling_look(telling, session);
	uint32_t node;

	if (session->rank)
		tell(telling, "rank %u", session->rank - 1);
	else
		tell(telling, "%s", session->command[0] ? session->command : "a process");
	tell(telling, " (pid %llu%s)", NUMBER(session->pid), seen.contained ? ", in a container" : "");
	if (why_node(&telling->views, session->id, &node))
		telling->nodes[node].named = true;
}

/* For session 0 names the broker itself, which creates the buffers that were declared at its start. */
void tell_waiter(struct telling *telling, uint64_t id)
{
	const struct status_session *session = telling_session(telling, id);

	if (session)
		tell_process(telling, session);
	else
		tell(telling, id ? "a process that is gone" : "the broker");
}

void tell_command(struct telling *telling, const char *before, uint64_t pid, const char *after)
{
	if (numbers_are_known(telling))
		tell(telling, "%s%llu%s", before, NUMBER(pid), after);
}

/* ---- waits ---- */

const struct status_buffer *telling_buffer(const struct telling *telling, uint64_t generation)
{
	const union status_record *buffer = view_one(&telling->views.view[BUFFERS], generation);

	return buffer ? &buffer->buffer : NULL;
}

const char *telling_no_owner(const struct telling *telling)
{
	const struct view *view = &telling->views.view[OWNERS];

	if (!telling->why->live || !view->count || view->at[0]->owner.state == STATUS_OWNER_RUNS)
		return NULL;
	return view->at[0]->owner.state == STATUS_OWNER_STARTS ?
		       "the next owner of the device memory, which the broker starts" :
		       "another owner of the device memory, and none starts any more: the broker ends";
}

uint64_t wait_session_of(const union status_record *wait)
{
	return wait->type == TRACKED_WAIT ? wait->wait.session : wait->request.session;
}

uint64_t wait_since_of(const union status_record *wait)
{
	return wait->type == TRACKED_WAIT ? wait->wait.since : wait->request.since;
}

/* Returns true if a request for memory is to enlarge an existing buffer, false if it is to create a buffer. */
static bool grows(const struct telling *telling, const struct status_request *request)
{
	const struct status_buffer *buffer = telling_buffer(telling, request->generation);

	return buffer && buffer->state == STATUS_LIVE;
}

void tell_wait(struct telling *telling, const union status_record *wait)
{
	const struct status_request *request = &wait->request;
	char size[SIZE_TEXT_MAX];

	if (wait->type == TRACKED_WAIT)
		tell(telling, "waits for %s to reach %llu", telling_buffer(telling, wait->wait.generation)->name,
		     NUMBER(wait->wait.value));
	else if (request->kind == STATUS_DRAIN)
		tell(telling, "waits for %s to be freed", request->name);
	else if (request->kind == STATUS_ACQUIRE)
		tell(telling, "waits for a buffer %s", request->name);
	else if (request->kind == STATUS_NEWER)
		tell(telling, "waits for a newer buffer %s", request->name);
	else
		tell(telling, "waits for %s of device %llu to %s %s", size_format(request->bytes, size),
		     NUMBER(request->device), grows(telling, request) ? "enlarge" : "create", request->name);
}

/* ---- all of it ---- */

static void taken_add(struct taken *taken, const struct status_buffer *buffer)
{
	if (buffer->state == STATUS_LIVE) {
		taken->count++;
		taken->bytes += buffer->allocated;
		if (!taken->largest || buffer->allocated > taken->largest->allocated)
			taken->largest = buffer;
	} else if (buffer->state >= STATUS_DRAINING) {
		if (taken->leaving_count < TELL_LEAVING)
			taken->leaving[taken->leaving_count] = buffer;
		taken->leaving_count++;
	}
}

static void taken_make(struct telling *telling)
{
	const struct view *buffers = &telling->views.view[BUFFERS];

	for (size_t i = 0; i < buffers->count; i++)
		if (buffers->at[i]->buffer.device < DEVICE_MAX)
			taken_add(&telling->taken[buffers->at[i]->buffer.device], &buffers->at[i]->buffer);
}

bool telling_begin(struct telling *telling, const struct why *why)
{
	*telling = (struct telling){ .why = why, .steps = 16 * why->count + 4096 };
	if (!views_make(&telling->views, why->records, why->count))
		return false;
	telling->nodes = calloc(telling->views.view[SESSIONS].count + 1, sizeof *telling->nodes);
	taken_make(telling);
	return telling->nodes && why_graph_make(&telling->graph, &telling->views, why->count);
}

void telling_end(struct telling *telling)
{
	why_graph_free(&telling->graph);
	views_free(&telling->views);
	free(telling->nodes);
}
