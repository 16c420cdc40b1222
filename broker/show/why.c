/* SPDX-License-Identifier: Apache-2.0 */
/* why.c - see why.h */
#include "why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "broker/status/status.h"
#include "common/error.h"
#include "common/size.h"
#include "why-graph.h"

#define TEXT_MAX 4096 /* what does not fit is left out */
#define HOPS_MAX     32   /* from process to process in one line */
#define HOLDERS_SAID 4    /* of one buffer in one line */

#define NUMBER(value) ((unsigned long long)(value))

struct line {
	char   text[TEXT_MAX];
	size_t length;
};

struct telling {
	const struct why *why;
	struct views      views;
	struct why_graph  graph;
	bool             *named; /* of each session: some line names it */
	struct line       line;
	struct why_found  found;
	unsigned          hops;
	uint64_t          followed[HOPS_MAX]; /* sessions */
};

/* ---- words ---- */

static void add(struct telling *telling, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct telling *telling, const char *format, ...)
{
	struct line *line = &telling->line;
	size_t room = sizeof line->text - line->length;
	va_list args;
	int wrote;

	va_start(args, format);
	wrote = vsnprintf(line->text + line->length, room, format, args);
	va_end(args);
	if (wrote > 0)
		line->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

static void say(struct telling *telling)
{
	for (char *at = telling->line.text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	telling->why->say(telling->why->context, telling->line.text);
	telling->found.lines++;
	telling->line.length = 0;
	telling->hops = 0;
}

static void add_age(struct telling *telling, uint64_t since)
{
	static const struct {
		uint64_t    seconds;
		const char *unit;
	} units[] = { { 86400, "d" }, { 3600, "h" }, { 60, "min" } };
	uint64_t now = telling->why->now_ms, age = now > since ? (now - since) / 1000 : 0;

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (age >= 2 * units[i].seconds) {
			add(telling, "%llu %s: ", NUMBER(age / units[i].seconds), units[i].unit);
			return;
		}
	add(telling, "%llu s: ", NUMBER(age));
}

static struct why_process look(const struct telling *telling, const struct status_session *session)
{
	struct why_process process = { 0 };

	if (telling->why->live && telling->why->look)
		telling->why->look(session->pid, &process);
	return process;
}

static void add_process(struct telling *telling, const struct status_session *session)
{
	struct why_process process = look(telling, session);
	uint32_t node;

	if (session->rank)
		add(telling, "rank %u", session->rank - 1);
	else
		add(telling, "%s", session->command[0] ? session->command : "a process");
	add(telling, " (pid %llu%s)", NUMBER(session->pid), process.contained ? ", in a container" : "");
	if (why_node(&telling->views, session->id, &node))
		telling->named[node] = true;
}

static const struct status_session *session_of(const struct telling *telling, uint64_t id)
{
	const union status_record *session = view_one(&telling->views.view[SESSIONS], id);

	return session ? &session->session : NULL;
}

/* Session 0 is the broker itself, which creates what was declared. */
static void add_waiter(struct telling *telling, uint64_t id)
{
	const struct status_session *session = session_of(telling, id);

	if (session)
		add_process(telling, session);
	else
		add(telling, id ? "a process that is gone" : "the broker");
}

static const struct status_buffer *buffer_of(const struct telling *telling, uint64_t generation)
{
	const union status_record *buffer = view_one(&telling->views.view[BUFFERS], generation);

	return buffer ? &buffer->buffer : NULL;
}

static uint64_t wait_session_of(const union status_record *wait)
{
	return wait->type == TRACKED_WAIT ? wait->wait.session : wait->request.session;
}

static uint64_t since_of(const union status_record *wait)
{
	return wait->type == TRACKED_WAIT ? wait->wait.since : wait->request.since;
}

static void add_wait(struct telling *telling, const union status_record *wait)
{
	const struct status_request *request = &wait->request;
	char size[SIZE_TEXT_MAX];

	if (wait->type == TRACKED_WAIT)
		add(telling, "waits for %s to reach %llu", buffer_of(telling, wait->wait.generation)->name,
		    NUMBER(wait->wait.value));
	else if (request->kind == STATUS_DRAIN)
		add(telling, "waits for %s to be freed", request->name);
	else if (request->kind == STATUS_ACQUIRE)
		add(telling, "waits for a buffer %s", request->name);
	else
		add(telling, "waits for %s of device %llu to create %s", size_format(request->bytes, size),
		    NUMBER(request->device), request->name);
}

/* ---- what a process does that another one waits for ---- */

/* Its end is all that the broker waits for. */
static const char *const ends[STATUS_SESSION_STATES] = {
	[STATUS_CUT] = "was cut off by the broker, which waits for its end: kill %llu",
	[STATUS_LOST] = "has closed its connection and still runs: kill %llu",
	[STATUS_ORPHANED] = "is dead, and a process that it started has its connection: end that one",
	[STATUS_DYING] = "is dead, and the driver has not ended its work yet",
	[STATUS_UNPROVEN] = "is dead, and nobody can tell whether its work has ended: restart the broker",
};

static bool add_stopped(struct telling *telling, const struct status_session *session)
{
	struct why_process process = look(telling, session);

	if (process.state == 'T')
		add(telling, "is stopped by a signal: kill -CONT %llu", NUMBER(session->pid));
	else if (process.state == 't')
		add(telling, "is stopped by a debugger: let it go on there");
	else if (process.state == 'Z' || process.state == 'X')
		add(telling, "is dead, and its parent has not waited for it yet");
	return strchr("TtZX", process.state) && process.state;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
/* True: it is clear what to do, and what it waits for itself does not matter. */
static bool add_end(struct telling *telling, const struct status_session *session)
{
	if (add_stopped(telling, session))
		return true;
	if (ends[session->state])
		add(telling, ends[session->state], NUMBER(session->pid));
	return ends[session->state];
}
#pragma GCC diagnostic pop

/* It is in this line already. */
static bool is_followed(const struct telling *telling, uint64_t session)
{
	for (unsigned i = 0; i < telling->hops; i++)
		if (telling->followed[i] == session)
			return true;
	return false;
}

/* The first thing that it waits for, of another process than those in this line if there is one; NULL: nothing that is known. */
static const union status_record *first_wait(const struct telling *telling, uint64_t session)
{
	const struct view *waits = &telling->views.view[WAITS], *requests = &telling->views.view[REQUESTS];
	const union status_record *first = NULL;
	const struct status_timeline *timeline;
	size_t i;

	for (i = view_find(waits, session); view_has(waits, i, session); i++) {
		timeline = why_awaited(&telling->views, &waits->at[i]->wait);
		if (timeline && !is_followed(telling, timeline->writer))
			return waits->at[i];
		first = timeline && !first ? waits->at[i] : first;
	}
	i = view_find(requests, session);
	return !first && view_has(requests, i, session) ? requests->at[i] : first;
}

static void add_idle(struct telling *telling, const struct status_session *session)
{
	unsigned long long pid = NUMBER(session->pid);

	if (!telling->why->live)
		add(telling, "waited for nothing that the broker knew of");
	else if (session->answer == STATUS_OWES_ANSWER)
		add(telling, "does not answer the broker: gdb -p %llu shows what it does", pid);
	else if (session->answer == STATUS_CANNOT_ANSWER)
		add(telling, "has an older library, which does not say what it waits for: gdb -p %llu shows it", pid);
	else
		add(telling, "runs and waits for nothing that the broker knows of: gdb -p %llu shows what it does", pid);
}

static void add_reason(struct telling *telling, const union status_record *wait);

/* Behind its name: why it does not do what is awaited. */
static void add_state(struct telling *telling, const struct status_session *session)
{
	const union status_record *wait = first_wait(telling, session->id);
	uint32_t node;

	if (add_end(telling, session))
		return;
	if (why_node(&telling->views, session->id, &node) && telling->graph.circle_of[node]) {
		add(telling, "is in deadlock %u", telling->graph.circle_of[node]);
	} else if (wait && is_followed(telling, session->id)) {
		add(telling, "waits in turn, behind work of its own that may go on");
	} else if (wait && telling->hops < HOPS_MAX) {
		telling->followed[telling->hops++] = session->id;
		add_wait(telling, wait);
		add_reason(telling, wait);
	} else if (wait) {
		add(telling, "waits, too: broker-status --why %llu says for what", NUMBER(session->pid));
	} else {
		add_idle(telling, session);
	}
}

/* ---- why a wait does not end ---- */

static void add_writer(struct telling *telling, const struct status_timeline *timeline, uint64_t waiter)
{
	const struct status_session *writer = session_of(telling, timeline->writer);

	if (!timeline->writer) {
		add(telling, "; nobody has signalled it yet: start the process that is to");
	} else if (timeline->writer == waiter) {
		add(telling, "; it is its own writer, and has to signal it from another stream: gdb -p %llu shows what it does",
		    NUMBER(timeline->pid));
	} else if (!writer) {
		add(telling, "; its writer is gone");
	} else {
		add(telling, "; its writer, ");
		add_process(telling, writer);
		add(telling, ", ");
		add_state(telling, writer);
	}
}

struct holding {
	struct telling *telling;
	unsigned        said, more;
};

static void add_orphaned(struct telling *telling, const struct status_session *session)
{
	if (!add_end(telling, session))
		add(telling, "has closed it, and has to end because it is another user's: kill %llu", NUMBER(session->pid));
}

static bool add_holder(void *context, const struct status_session *session, const struct status_grant *grant)
{
	struct holding *holding = context;
	struct telling *telling = holding->telling;

	if (holding->said == HOLDERS_SAID) {
		holding->more++;
		return true;
	}
	add(telling, holding->said++ ? ", and by " : "used by ");
	add_process(telling, session);
	add(telling, ", which ");
	if (grant->orphaned)
		add_orphaned(telling, session);
	else if (first_wait(telling, session->id) || session->answer == STATUS_OWES_ANSWER || !telling->why->live)
		add_state(telling, session);
	else if (!add_end(telling, session))
		add(telling, "runs and has not closed it: broker-ctl evict %llu --kill ends it", NUMBER(session->id));
	return true;
}

static void add_holders(struct telling *telling, const struct status_buffer *buffer)
{
	struct holding holding = { .telling = telling };
	size_t before = telling->line.length;

	why_holders(&telling->views, buffer, add_holder, &holding);
	if (holding.more)
		add(telling, ", and by %u more", holding.more);
	if (telling->line.length == before)
		add(telling, "used by nobody: its memory is about to be freed");
}

static void add_drain(struct telling *telling, uint64_t generation)
{
	const struct status_buffer *buffer = buffer_of(telling, generation);

	if (!buffer)
		return;
	add(telling, "; it is ");
	add_holders(telling, buffer);
}

/* What a device's memory is taken by. */
struct taken {
	uint64_t                    bytes;
	size_t                      count;
	const struct status_buffer *largest;
	size_t                      leaving; /* draining */
};

static struct taken taken_by(const struct telling *telling, uint64_t device)
{
	const struct view *buffers = &telling->views.view[BUFFERS];
	struct taken taken = { 0 };

	for (size_t i = 0; i < buffers->count; i++) {
		const struct status_buffer *buffer = &buffers->at[i]->buffer;

		if (buffer->device != device || buffer->state == STATUS_CREATING)
			continue;
		taken.leaving += buffer->state >= STATUS_DRAINING;
		taken.count += buffer->state == STATUS_LIVE;
		taken.bytes += buffer->state == STATUS_LIVE ? buffer->allocated : 0;
		if (buffer->state == STATUS_LIVE && (!taken.largest || buffer->allocated > taken.largest->allocated))
			taken.largest = buffer;
	}
	return taken;
}

/* The memory on its way back first: it needs no decision. */
static void add_leaving(struct telling *telling, uint64_t device)
{
	const struct view *buffers = &telling->views.view[BUFFERS];
	char size[SIZE_TEXT_MAX];
	unsigned said = 0;

	for (size_t i = 0; i < buffers->count && said < HOLDERS_SAID; i++) {
		const struct status_buffer *buffer = &buffers->at[i]->buffer;

		if (buffer->device != device || buffer->state < STATUS_DRAINING)
			continue;
		said++;
		add(telling, "; %s of it is unlinked as %s and ", size_format(buffer->allocated, size), buffer->name);
		add_holders(telling, buffer);
	}
}

static void add_taken(struct telling *telling, uint64_t device, const struct taken *taken)
{
	const union status_record *record = view_one(&telling->views.view[DEVICES], device);
	char size[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX], largest[SIZE_TEXT_MAX];

	if (!taken->largest) {
		add(telling, "; no buffer of this broker has it: look for other programs on the device");
		return;
	}
	add(telling, "; %zu buffer%s %s %s of its %s, the largest is %s (%s): broker-ctl drain %s", taken->count,
	    taken->count == 1 ? "" : "s", taken->count == 1 ? "takes" : "take", size_format(taken->bytes, size),
	    record ? size_format(record->device.bytes, all) : "memory", taken->largest->name,
	    size_format(taken->largest->allocated, largest), taken->largest->name);
}

static void add_memory(struct telling *telling, const struct status_request *create)
{
	struct taken taken = taken_by(telling, create->device);

	if (taken.leaving)
		add_leaving(telling, create->device);
	else
		add_taken(telling, create->device, &taken);
}

static void add_creator(struct telling *telling, const char *name)
{
	const union status_record *create = why_creator(&telling->graph, name);
	const struct status_session *session = create ? session_of(telling, create->request.session) : NULL;

	if (session) {
		add(telling, "; its creator, ");
		add_process(telling, session);
		add(telling, ", ");
		add_state(telling, session);
	} else if (create) {
		add(telling, "; the broker ");
		add_wait(telling, create);
		add_reason(telling, create);
	} else {
		add(telling, "; nobody has created it: start the process that is to, or broker-ctl create %s SIZE", name);
	}
}

static void add_reason(struct telling *telling, const union status_record *wait)
{
	const struct status_timeline *timeline;

	if (wait->type == TRACKED_WAIT) {
		timeline = why_awaited(&telling->views, &wait->wait);
		add(telling, "; it is at %llu", NUMBER(timeline->value));
		add_writer(telling, timeline, wait->wait.session);
	} else if (wait->request.kind == STATUS_DRAIN) {
		add_drain(telling, wait->request.generation);
	} else if (wait->request.kind == STATUS_CREATE) {
		add_memory(telling, &wait->request);
	} else {
		add_creator(telling, wait->request.name);
	}
}

/* ---- deadlocks ---- */

static void add_link(struct telling *telling, const struct why_edge *edge)
{
	const struct view *sessions = &telling->views.view[SESSIONS];
	const struct status_timeline *timeline;

	add_process(telling, &sessions->at[edge->from]->session);
	add(telling, " ");
	add_wait(telling, edge->wait);
	if (edge->wait->type == TRACKED_WAIT) {
		timeline = why_awaited(&telling->views, &edge->wait->wait);
		add(telling, " (it is at %llu), which ", NUMBER(timeline->value));
	} else {
		add(telling, ", which ");
	}
	add_process(telling, &sessions->at[edge->to]->session);
	add(telling, edge->wait->type == TRACKED_WAIT		    ? " writes" :
		     edge->wait->request.kind == STATUS_ACQUIRE ? " creates" :
		     edge->wait->request.kind == STATUS_DRAIN   ? " uses" :
								  " keeps");
}

/* From when on none of them could go on. */
static uint64_t circle_since(const struct why_graph *graph, size_t first, size_t end)
{
	uint64_t since = 0;

	for (size_t i = first; i < end; i++)
		if (since_of(graph->edges[graph->circle[i]].wait) > since)
			since = since_of(graph->edges[graph->circle[i]].wait);
	return since;
}

static void say_circle(struct telling *telling, unsigned number, size_t first, size_t end)
{
	const struct why_graph *graph = &telling->graph;
	const struct view *sessions = &telling->views.view[SESSIONS];

	add_age(telling, circle_since(graph, first, end));
	add(telling, "deadlock %u: ", number);
	for (size_t i = first; i < end; i++) {
		add(telling, i > first ? "; " : "");
		add_link(telling, &graph->edges[graph->circle[i]]);
	}
	add(telling, ": none of them can go on, end one: kill %llu",
	    NUMBER(sessions->at[graph->edges[graph->circle[end - 1]].from]->session.pid));
	say(telling);
	telling->found.deadlocks++;
}

/* ---- what is asked about ---- */

/* The number that it is; 0: it is none. */
static uint64_t pid_of(const char *about)
{
	size_t digits = strspn(about, "0123456789");

	return digits && digits < 10 && !about[digits] ? strtoull(about, NULL, 10) : 0;
}

static bool wait_concerns(const struct telling *telling, const union status_record *wait)
{
	const char *about = telling->why->about;
	const struct status_session *session;
	const struct status_buffer *buffer;

	if (!about)
		return true;
	session = session_of(telling, wait_session_of(wait));
	if (session && pid_of(about) && session->pid == pid_of(about))
		return true;
	if (wait->type == TRACKED_REQUEST)
		return !strcmp(wait->request.name, about);
	buffer = buffer_of(telling, wait->wait.generation);
	return buffer && !strcmp(buffer->name, about);
}

static bool about_is_known(const struct telling *telling)
{
	const struct view *buffers = &telling->views.view[BUFFERS], *sessions = &telling->views.view[SESSIONS];
	const struct view *requests = &telling->views.view[REQUESTS];
	const char *about = telling->why->about;
	bool known = !about;

	for (size_t i = 0; i < buffers->count && !known; i++)
		known = !strcmp(buffers->at[i]->buffer.name, about);
	for (size_t i = 0; i < requests->count && !known; i++)
		known = !strcmp(requests->at[i]->request.name, about);
	for (size_t i = 0; i < sessions->count && !known; i++)
		known = pid_of(about) && sessions->at[i]->session.pid == pid_of(about);
	return known;
}

/* ---- all of it ---- */

static void say_circles(struct telling *telling)
{
	const struct why_graph *graph = &telling->graph;
	unsigned number = 0;
	bool concerns;

	for (size_t first = 0, end; first < graph->circle_edges; first = end) {
		number++;
		concerns = false;
		for (end = first; end < graph->circle_edges &&
				  graph->circle_of[graph->edges[graph->circle[end]].from] == number;
		     end++)
			concerns |= wait_concerns(telling, graph->edges[graph->circle[end]].wait);
		if (concerns)
			say_circle(telling, number, first, end);
	}
}

static bool is_in_circle(const struct telling *telling, const union status_record *wait)
{
	for (size_t i = 0; i < telling->graph.circle_edges; i++)
		if (telling->graph.edges[telling->graph.circle[i]].wait == wait)
			return true;
	return false;
}

static void say_wait(struct telling *telling, const union status_record *wait)
{
	uint32_t node;

	if ((wait->type == TRACKED_WAIT && !why_awaited(&telling->views, &wait->wait)) || !wait_concerns(telling, wait) ||
	    (why_node(&telling->views, wait_session_of(wait), &node) && telling->graph.circle_of[node] &&
	     is_in_circle(telling, wait)))
		return;
	add_age(telling, since_of(wait));
	add_waiter(telling, wait_session_of(wait));
	add(telling, " ");
	telling->followed[telling->hops++] = wait_session_of(wait);
	add_wait(telling, wait);
	add_reason(telling, wait);
	say(telling);
}

/* In the order of the sessions; of each first its streams, then its requests. */
static void say_waits(struct telling *telling)
{
	const struct view *waits = &telling->views.view[WAITS], *requests = &telling->views.view[REQUESTS];
	size_t i = 0, j = 0;

	while (i < waits->count || j < requests->count) {
		if (j < requests->count &&
		    (i == waits->count || waits->at[i]->wait.session > requests->at[j]->request.session)) {
			say_wait(telling, requests->at[j++]);
			continue;
		}
		if (!why_repeats(&telling->views, i))
			say_wait(telling, waits->at[i]);
		i++;
	}
}

/* An unlinked buffer that is asked about, for which nobody waits. */
static void say_draining(struct telling *telling)
{
	const struct view *buffers = &telling->views.view[BUFFERS];

	for (size_t i = 0; i < buffers->count && telling->why->about; i++) {
		const struct status_buffer *buffer = &buffers->at[i]->buffer;

		if (buffer->state < STATUS_DRAINING || strcmp(buffer->name, telling->why->about))
			continue;
		add(telling, "%s is unlinked and ", buffer->name);
		add_holders(telling, buffer);
		say(telling);
	}
}

/* A process that is asked about, and waits for nothing. */
static void say_process(struct telling *telling)
{
	const struct view *sessions = &telling->views.view[SESSIONS];
	uint64_t pid = telling->why->about ? pid_of(telling->why->about) : 0;

	for (size_t i = 0; i < sessions->count && pid; i++)
		if (sessions->at[i]->session.pid == pid) {
			add_process(telling, &sessions->at[i]->session);
			add(telling, " ");
			add_state(telling, &sessions->at[i]->session);
			say(telling);
		}
}

/* Waits that are not known may be the very ones. */
static void say_silent(struct telling *telling)
{
	const struct view *sessions = &telling->views.view[SESSIONS];

	for (size_t i = 0; i < sessions->count && !telling->why->about; i++) {
		const struct status_session *session = &sessions->at[i]->session;

		if (session->answer != STATUS_OWES_ANSWER || telling->named[i])
			continue;
		add_process(telling, session);
		add(telling, " has not said what it waits for, and ");
		if (!add_end(telling, session))
			add_idle(telling, session);
		say(telling);
	}
}

/* A create over its quota does not wait, so nothing of it is left to be seen but the quota. */
static bool quota_is_full(const struct status_user *user, int resource)
{
	uint64_t used = user->used[resource], limit = user->limit[resource];
	uint64_t least = resource == RESOURCE_BYTES ? limit / 16 + 1 : 1;

	return limit != QUOTA_NONE && used && (used > limit || limit - used < least);
}

static void say_quota(struct telling *telling, const struct status_user *user, int resource)
{
	char used[SIZE_TEXT_MAX], limit[SIZE_TEXT_MAX];

	if (resource == RESOURCE_BYTES)
		add(telling, "user %llu holds %s of the %s of its quota", NUMBER(user->uid),
		    size_format(user->used[resource], used), size_format(user->limit[resource], limit));
	else
		add(telling, "user %llu holds %llu of the %llu %s of its quota", NUMBER(user->uid),
		    NUMBER(user->used[resource]), NUMBER(user->limit[resource]), resource_key((enum resource)resource));
	add(telling, ": what needs more is refused at once; end some, or raise the quota in brokerd.conf");
	say(telling);
}

static void say_quotas(struct telling *telling)
{
	const struct view *users = &telling->views.view[USERS];

	for (size_t i = 0; i < users->count && !telling->why->about; i++)
		for (int resource = 0; resource < RESOURCES; resource++)
			if (quota_is_full(&users->at[i]->user, resource))
				say_quota(telling, &users->at[i]->user, resource);
}

static void say_nothing(struct telling *telling)
{
	if (telling->why->about)
		add(telling, "Nothing waits for %s.", telling->why->about);
	else
		add(telling, "Nothing waits.");
	say(telling);
	telling->found.lines = 0;
}

static void tell(struct telling *telling)
{
	say_circles(telling);
	say_waits(telling);
	if (!telling->found.lines)
		say_draining(telling);
	if (!telling->found.lines)
		say_process(telling);
	say_silent(telling);
	if (!telling->found.lines)
		say_nothing(telling);
	say_quotas(telling);
}

int why_explain(const struct why *why, struct why_found *found)
{
	struct telling *telling = calloc(1, sizeof *telling);
	int error = 0;

	if (!telling)
		return error_set(-ENOMEM, "out of memory");
	telling->why = why;
	if (!views_make(&telling->views, why->records, why->count) ||
	    !(telling->named = calloc(telling->views.view[SESSIONS].count + 1, sizeof *telling->named)) ||
	    !why_graph_make(&telling->graph, &telling->views, why->count))
		error = error_set(-ENOMEM, "out of memory");
	else if (!about_is_known(telling))
		error = error_set(-ENOENT, "there is neither a buffer nor a process '%s' here: broker-status lists them",
				  why->about);
	if (!error)
		tell(telling);
	*found = telling->found;
	why_graph_free(&telling->graph);
	views_free(&telling->views);
	free(telling->named);
	free(telling);
	return error;
}

/* ---- the system ---- */

/* A namespace that may not be looked at counts as the own one. */
static bool is_contained(uint64_t pid)
{
	char path[40], own[64] = "", its[64] = "";

	snprintf(path, sizeof path, "/proc/%llu/ns/mnt", NUMBER(pid));
	return readlink(path, its, sizeof its - 1) > 0 && readlink("/proc/self/ns/mnt", own, sizeof own - 1) > 0 &&
	       strcmp(own, its) != 0;
}

void why_look(uint64_t pid, struct why_process *process)
{
	*process = (struct why_process){ 0 };
	if (!status_process_start(pid, &process->state))
		return;
	process->contained = is_contained(pid);
}
