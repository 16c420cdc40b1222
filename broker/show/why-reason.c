/* SPDX-License-Identifier: Apache-2.0 */
/* why-reason.c - see why-reason.h */
#include "why-reason.h"

#include <string.h>

#include "common/size.h"

/* ---- what a process does that another one waits for ---- */

/* Adds that something waits for the next owner of the device memory, if there is none now. Returns true if so. */
static bool tell_wait_for_owner(struct telling *telling, const char *before)
{
	const char *what = telling_no_owner(telling);

	if (what)
		tell(telling, "%s%s", before, what);
	return what;
}

static bool tell_stopped(struct telling *telling, const struct status_session *session)
{
	struct process_seen seen = telling_look(telling, session);

	if (!seen.state || !strchr("TtZX", seen.state) || seen.headless)
		return false;
	if (seen.state == 'T')
		tell(telling, "is stopped by a signal: kill -CONT %llu", NUMBER(session->pid));
	else if (seen.state == 't')
		tell(telling, "is stopped by a debugger: let it go on there");
	else
		tell(telling, "is dead, and its parent has not waited for it yet");
	return true;
}

/*
 * If the session's process is dead, stopped or cut off, or has closed its connection, adds that and what to do, and
 * returns true: the process's own waits do not matter then. For a dead process the broker's record is used before
 * /proc, because the broker knows more.
 */
static bool tell_end(struct telling *telling, const struct status_session *session)
{
	static const struct {
		const char *text;
		bool        dead;
	} ends[STATUS_SESSION_STATES] = {
		[STATUS_CUT] = { "was cut off by the broker, which waits for its end", false },
		[STATUS_LOST] = { "has closed its connection and still runs", false },
		[STATUS_ORPHANED] = { "is dead, and a process that it started has its connection: end that one", true },
		[STATUS_DYING] = { "is dead, and the driver has not ended its work yet", true },
		[STATUS_UNPROVEN] = { "is dead, and nobody can tell whether its work has ended: restart the broker",
				      true },
	};

	if (!ends[session->state].dead && tell_stopped(telling, session))
		return true;
	if (!ends[session->state].text)
		return false;
	tell(telling, "%s", ends[session->state].text);
	if (!ends[session->state].dead)
		tell_command(telling, ": kill ", session->pid, "");
	if (session->state == STATUS_DYING)
		tell_wait_for_owner(telling, ", and the question whether it has waits for ");
	return true;
}

static const char *runs(struct telling *telling, const struct status_session *session)
{
	return telling_look(telling, session).headless ? "runs, without its main thread, which has ended," : "runs";
}

/* Returns true if the line has followed the session with the id already. */
static bool is_followed(const struct telling *telling, uint64_t session)
{
	for (unsigned i = 0; i < telling->hops; i++)
		if (telling->followed[i] == session)
			return true;
	return false;
}

/* Returns a wait of the session, preferably for a writer that the line has not followed yet; NULL: none is known. */
static const union status_record *first_wait(struct telling *telling, uint64_t session)
{
	const struct view *waits = &telling->views.view[WAITS], *requests = &telling->views.view[REQUESTS];
	const union status_record *first = NULL;
	const struct status_timeline *timeline;
	size_t i;

	for (i = view_find(waits, session); view_has(waits, i, session) && telling->steps; i++, telling->steps--) {
		timeline = why_awaited(&telling->views, &waits->at[i]->wait);
		if (timeline && !is_followed(telling, timeline->writer))
			return waits->at[i];
		first = timeline && !first ? waits->at[i] : first;
	}
	i = view_find(requests, session);
	return !first && view_has(requests, i, session) ? requests->at[i] : first;
}

static void tell_idle(struct telling *telling, const struct status_session *session)
{
	if (!telling->why->live) {
		tell(telling, "waited for nothing that the broker knew of");
	} else if (session->answer == STATUS_OWES_ANSWER) {
		tell(telling, "does not answer the broker");
		tell_command(telling, ": gdb -p ", session->pid, " shows what it does");
	} else if (session->answer == STATUS_CANNOT_ANSWER) {
		tell(telling, "has an older library, which does not say what it waits for");
		tell_command(telling, ": gdb -p ", session->pid, " shows it");
	} else if (telling_no_owner(telling)) {
		tell(telling, "%s", runs(telling, session));
		tell_wait_for_owner(telling, "; what it creates or drains waits for ");
	} else {
		tell(telling, "%s and waits for nothing that the broker knows of", runs(telling, session));
		tell_command(telling, ": gdb -p ", session->pid, " shows what it does");
	}
}

void tell_silent(struct telling *telling, const struct status_session *session)
{
	tell(telling, " has not said what it waits for, and ");
	if (!tell_end(telling, session))
		tell_idle(telling, session);
}

void tell_state(struct telling *telling, const struct status_session *session)
{
	const union status_record *wait;
	uint32_t node;

	if (tell_end(telling, session))
		return;
	wait = first_wait(telling, session->id);
	if (why_node(&telling->views, session->id, &node) && telling->graph.circle_of[node]) {
		tell(telling, "is in deadlock %u", telling->graph.circle_of[node]);
	} else if (wait && is_followed(telling, session->id)) {
		tell(telling, "waits in turn, and may go on");
	} else if (wait && telling->hops < TELL_HOPS_MAX && telling->steps) {
		telling->steps--;
		telling->followed[telling->hops++] = session->id;
		tell_wait(telling, wait);
		tell_reason(telling, wait);
	} else if (wait || !telling->steps) {
		tell(telling, "waits, too: broker-status --why %llu says for what", NUMBER(session->pid));
	} else {
		tell_idle(telling, session);
	}
}

/* ---- why a wait does not end ---- */

static void tell_writer(struct telling *telling, const struct status_timeline *timeline, uint64_t waiter)
{
	const struct status_session *writer = telling_session(telling, timeline->writer);

	if (!timeline->writer) {
		tell(telling, "; nobody has signalled it yet: start the process that is to");
	} else if (timeline->writer == waiter) {
		tell(telling, "; it is its own writer, and has to signal it from another stream");
		tell_command(telling, ": gdb -p ", timeline->pid, " shows what it does");
	} else if (!writer) {
		tell(telling, "; its writer is gone");
	} else {
		tell(telling, "; its writer, ");
		tell_process(telling, writer);
		tell(telling, ", ");
		tell_state(telling, writer);
	}
}

static void tell_orphaned(struct telling *telling, const struct status_session *session)
{
	if (tell_end(telling, session))
		return;
	tell(telling, "has closed it, and has to end because it is another user's");
	tell_command(telling, ": kill ", session->pid, "");
}

static void tell_holder(struct telling *telling, const struct status_session *session,
			const struct status_mapping *mapping, uint64_t waiter)
{
	tell_process(telling, session);
	tell(telling, ", which ");
	if (mapping->orphaned)
		tell_orphaned(telling, session);
	else if (session->id == waiter)
		tell(telling, "waits for itself: it has to return its own lease first");
	else if (session->answer == STATUS_OWES_ANSWER || !telling->why->live || first_wait(telling, session->id))
		tell_state(telling, session);
	else if (!tell_end(telling, session))
		tell(telling, "%s and has not closed it: broker-ctl evict %llu --kill ends it", runs(telling, session),
		     NUMBER(session->id));
}

void tell_holders(struct telling *telling, const struct status_buffer *buffer, uint64_t waiter)
{
	struct holders holders = why_holders(&telling->views, buffer);
	size_t count = holders.range.end - holders.range.begin;
	const struct status_session *session;
	const struct status_mapping *mapping;

	for (size_t i = 0; i < count && i < TELL_LEAVING; i++) {
		tell(telling, i ? ", and by " : "used by ");
		mapping = why_holder(&holders, holders.range.begin + i, &session);
		tell_holder(telling, session, mapping, waiter);
	}
	if (count > TELL_LEAVING)
		tell(telling, ", and by %zu more", count - TELL_LEAVING);
	if (!count) {
		tell(telling, "used by nobody: its memory is about to be freed");
		tell_wait_for_owner(telling, ", and that waits for ");
	} else if ((buffer->flags & STATUS_ENDED)) {
		tell(telling, "; its memory ended with the process that owned it, and whoever maps it reads on");
	}
}

static void tell_drain(struct telling *telling, const struct status_request *drain)
{
	const struct status_buffer *buffer = telling_buffer(telling, drain->generation);

	if (!buffer)
		return;
	tell(telling, "; it is ");
	tell_holders(telling, buffer, drain->session);
}

static void tell_taken(struct telling *telling, uint64_t device, const struct taken *taken)
{
	const union status_record *record = view_one(&telling->views.view[DEVICES], device);
	char size[SIZE_TEXT_MAX], all[SIZE_TEXT_MAX], largest[SIZE_TEXT_MAX];

	if (!taken->largest) {
		tell(telling, "; no buffer of this broker has it: look for other programs on the device");
		return;
	}
	tell(telling, "; %zu buffer%s %s %s of its %s, the largest is %s (%s): broker-ctl drain %s", taken->count,
	    taken->count == 1 ? "" : "s", taken->count == 1 ? "takes" : "take", size_format(taken->bytes, size),
	    record ? size_format(record->device.bytes, all) : "memory", taken->largest->name,
	    size_format(taken->largest->allocated, largest), taken->largest->name);
}

/*
 * Adds the draining buffers of the create's device, whose memory will come back; if there are none, adds the live
 * buffers.
 */
static void tell_memory(struct telling *telling, const struct status_request *create)
{
	static const struct taken none;
	const struct taken *taken = create->device < DEVICE_MAX ? &telling->taken[create->device] : &none;
	char size[SIZE_TEXT_MAX];

	tell_wait_for_owner(telling, "; any of it waits for ");
	for (size_t i = 0; i < taken->leaving_count && i < TELL_LEAVING; i++) {
		tell(telling, "; %s of it is unlinked as %s and ", size_format(taken->leaving[i]->allocated, size),
		     taken->leaving[i]->name);
		tell_holders(telling, taken->leaving[i], create->session);
	}
	if (!taken->leaving_count)
		tell_taken(telling, create->device, taken);
}

static void tell_creator(struct telling *telling, const char *name)
{
	const union status_record *create = why_creator(&telling->graph, name);
	const struct status_session *session = create ? telling_session(telling, create->request.session) : NULL;

	if (session) {
		tell(telling, "; its creator, ");
		tell_process(telling, session);
		tell(telling, ", ");
		tell_state(telling, session);
	} else if (create) {
		tell(telling, "; the broker ");
		tell_wait(telling, create);
		tell_reason(telling, create);
	} else {
		tell(telling, "; nobody has created it: start the process that is to, or broker-ctl create %s SIZE",
		     name);
	}
}

void tell_reason(struct telling *telling, const union status_record *wait)
{
	const struct status_timeline *timeline;

	if (wait->type == TRACKED_WAIT) {
		timeline = why_awaited(&telling->views, &wait->wait);
		tell(telling, "; it is at %llu", NUMBER(timeline->value));
		tell_writer(telling, timeline, wait->wait.session);
	} else if (wait->request.kind == STATUS_DRAIN) {
		tell_drain(telling, &wait->request);
	} else if (wait->request.kind == STATUS_CREATE) {
		tell_memory(telling, &wait->request);
	} else if (wait->request.kind == STATUS_NEWER && !why_creator(&telling->graph, wait->request.name)) {
		tell(telling, "; nobody has published one: it comes with a rename to %s, a create, or a resize",
		     wait->request.name);
	} else {
		tell_creator(telling, wait->request.name);
	}
}
