/* SPDX-License-Identifier: Apache-2.0 */
/* why.c - see why.h */
#include "why.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/size.h"
#include "telling.h"
#include "why-reason.h"

/* ---- deadlocks ---- */

static void tell_link(struct telling *telling, const struct why_edge *edge)
{
	const struct view *sessions = &telling->views.view[SESSIONS];
	const struct status_timeline *timeline;

	tell_process(telling, &sessions->at[edge->from]->session);
	tell(telling, " ");
	tell_wait(telling, edge->wait);
	if (edge->wait->type == TRACKED_WAIT) {
		timeline = why_awaited(&telling->views, &edge->wait->wait);
		tell(telling, " (it is at %llu), which ", NUMBER(timeline->value));
	} else {
		tell(telling, ", which ");
	}
	tell_process(telling, &sessions->at[edge->to]->session);
	tell(telling, edge->wait->type == TRACKED_WAIT ? " writes" : " uses");
}

/*
 * Returns the time at which a deadlock was complete, when its latest wait began. first, end: range of its edges in
 * graph->circle.
 */
static uint64_t circle_since(const struct why_graph *graph, size_t first, size_t end)
{
	uint64_t since = 0;

	for (size_t i = first; i < end; i++)
		if (wait_since_of(graph->edges[graph->circle[i]].wait) > since)
			since = wait_since_of(graph->edges[graph->circle[i]].wait);
	return since;
}

static void say_circle(struct telling *telling, unsigned number, size_t first, size_t end)
{
	const struct why_graph *graph = &telling->graph;
	const struct view *sessions = &telling->views.view[SESSIONS];
	uint64_t pid;

	tell_age(telling, circle_since(graph, first, end));
	tell(telling, "deadlock %u: ", number);
	for (size_t i = first; i < end; i++) {
		tell(telling, i > first ? "; " : "");
		tell_link(telling, &graph->edges[graph->circle[i]]);
	}
	tell(telling,
	     ": nothing of it has moved for %d s, so none of them goes on unless one still runs a kernel or has yet to "
	     "signal from another stream",
	     WHY_STILL_S);
	pid = sessions->at[graph->edges[graph->circle[end - 1]].from]->session.pid;
	tell_command(telling, ": gdb -p ", pid, " shows what it does");
	tell_command(telling, "; to end it, end one: kill ", pid, "");
	tell_line(telling);
	telling->found.deadlocks++;
}

/* ---- what is asked about ---- */

/* Parses a pid; 0: the text is no pid. */
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
	session = telling_session(telling, wait_session_of(wait));
	if (session && pid_of(about) && session->pid == pid_of(about))
		return true;
	if (wait->type == TRACKED_REQUEST)
		return !strcmp(wait->request.name, about);
	buffer = telling_buffer(telling, wait->wait.generation);
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
	const struct why_graph *graph = &telling->graph;
	uint32_t node;

	return why_node(&telling->views, wait_session_of(wait), &node) && graph->circle_of[node] &&
	       graph->edges[graph->on[node]].wait == wait;
}

static void say_wait(struct telling *telling, const union status_record *wait)
{
	if ((wait->type == TRACKED_WAIT && !why_awaited(&telling->views, &wait->wait)) ||
	    !wait_concerns(telling, wait) || is_in_circle(telling, wait))
		return;
	tell_age(telling, wait_since_of(wait));
	tell_waiter(telling, wait_session_of(wait));
	tell(telling, " ");
	telling->followed[telling->hops++] = wait_session_of(wait);
	tell_wait(telling, wait);
	tell_reason(telling, wait);
	tell_line(telling);
}

/* Explains all waits, in the order of the sessions: for each session first its streams' waits, then its requests. */
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

/*
 * Explains the buffers that are being created and wait for no memory: their creates wait for the next owner of the
 * device memory, if there is none now.
 */
static void say_creating(struct telling *telling)
{
	const struct view *buffers = &telling->views.view[BUFFERS];
	const char *about = telling->why->about, *what = telling_no_owner(telling);

	for (size_t i = 0; i < buffers->count && what; i++) {
		const struct status_buffer *buffer = &buffers->at[i]->buffer;

		if (buffer->state != STATUS_CREATING || (about && strcmp(buffer->name, about)) ||
		    why_creator(&telling->graph, buffer->name))
			continue;
		tell_age(telling, 1000 * buffer->created);
		tell(telling, "the create of %s waits for %s", buffer->name, what);
		tell_line(telling);
	}
}

/* Says that no process owns the device memory, and what became of the last one that did. */
static void say_owner(struct telling *telling)
{
	const struct view *owners = &telling->views.view[OWNERS];
	const char *what = telling_no_owner(telling);

	if (!what || telling->why->about)
		return;
	tell_age(telling, owners->at[0]->owner.since);
	tell(telling, "no process owns the device memory, because the last one (pid %llu) has ended: ",
	     NUMBER(owners->at[0]->owner.died_pid));
	tell(telling, "creates and drains wait for %s", what);
	tell_line(telling);
}

/* Explains the draining buffers with the name why->about, if no request waits for one of them. */
static void say_draining(struct telling *telling)
{
	const struct view *buffers = &telling->views.view[BUFFERS];

	for (size_t i = 0; i < buffers->count && telling->why->about; i++) {
		const struct status_buffer *buffer = &buffers->at[i]->buffer;

		if (buffer->state < STATUS_DRAINING || strcmp(buffer->name, telling->why->about))
			continue;
		tell(telling, "%s is unlinked and ", buffer->name);
		tell_holders(telling, buffer, 0);
		tell_line(telling);
	}
}

/* Says what the process with the pid why->about does, if it waits for nothing. */
static void say_process(struct telling *telling)
{
	const struct view *sessions = &telling->views.view[SESSIONS];
	uint64_t pid = telling->why->about ? pid_of(telling->why->about) : 0;

	for (size_t i = 0; i < sessions->count && pid; i++)
		if (sessions->at[i]->session.pid == pid) {
			tell_process(telling, &sessions->at[i]->session);
			tell(telling, " ");
			tell_state(telling, &sessions->at[i]->session);
			tell_line(telling);
		}
}

/* Lists the sessions that have not answered INQUIRE, because their unknown waits may be the cause of other waits. */
static void say_silent(struct telling *telling)
{
	const struct view *sessions = &telling->views.view[SESSIONS];

	for (size_t i = 0; i < sessions->count && !telling->why->about; i++) {
		const struct status_session *session = &sessions->at[i]->session;

		if (session->answer != STATUS_OWES_ANSWER || telling_named(telling, i))
			continue;
		tell_process(telling, session);
		tell_silent(telling, session);
		tell_line(telling);
	}
}

/*
 * Returns true if a quota is nearly used up: it has nothing left, or at most 1/16 for bytes. A create over its
 * quota is refused and does not wait, so only the quota shows it.
 */
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
		tell(telling, "user %llu holds %s of the %s of its quota", NUMBER(user->uid),
		    size_format(user->used[resource], used), size_format(user->limit[resource], limit));
	else
		tell(telling, "user %llu holds %llu of the %llu %s of its quota", NUMBER(user->uid),
		    NUMBER(user->used[resource]), NUMBER(user->limit[resource]), resource_key((enum resource)resource));
	tell(telling, ": what needs more is refused at once; end some, or raise the quota in brokerd.conf");
	tell_line(telling);
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
		tell(telling, "Nothing waits for %s.", telling->why->about);
	else
		tell(telling, "Nothing waits.");
	tell_line(telling);
	telling->found.lines = 0;
}

static void say_all(struct telling *telling)
{
	say_owner(telling);
	say_circles(telling);
	say_waits(telling);
	say_creating(telling);
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
	struct telling *telling = malloc(sizeof *telling);
	int error = 0;

	if (!telling)
		return error_set(-ENOMEM, "out of memory");
	if (!telling_begin(telling, why))
		error = error_set(-ENOMEM, "out of memory");
	else if (!about_is_known(telling))
		error = error_set(-ENOENT,
				  "there is neither a buffer nor a process '%s' here: broker-status lists them",
				  why->about);
	if (!error)
		say_all(telling);
	*found = telling->found;
	telling_end(telling);
	free(telling);
	return error;
}
