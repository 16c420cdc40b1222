/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c - see writer.h */
#include "writer.h"

#include <errno.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/registry/mappings.h"
#include "broker/registry/registry.h"
#include "broker/registry/timeline.h"
#include "broker/session/session.h"
#include "common/crash-point.h"
#include "common/error.h"

static void writer_show(const struct session *session, struct timeline *timeline)
{
	timeline->shown.pid = (uint32_t)session->pid;
	timeline->shown.rank = session->rank;
	timeline->shown.uid = session->who.uid;
	tracked_changed(session->broker->tracking, &timeline->shown.tracked);
}

int writer_claim(struct session *session, const struct wire_message *message)
{
	const struct mapping *mapping = mappings_find(&session->mappings, message->grant_id.mapping);
	const struct grant *grant = mapping ? mapping_find_grant(mapping, message->grant_id.serial) : NULL;
	const struct buffer *buffer = grant ? grant->buffer : NULL;
	int page, error;

	if (!buffer)
		return error_set(-EINVAL, "this session does not use the buffer of that timeline: acquire it");
	if (!buffer->timeline)
		return error_set(-EINVAL, "'%s' has no timeline: create it with GPUB_TIMELINE", buffer->name);
	if (!(grant->rights & GPUB_WRITE))
		return error_set(-EACCES, "to signal the timeline of '%s', acquire it with GPUB_WRITE", buffer->name);
	error = session_check_descriptors(session, 1);
	if (error)
		return error;
	page = timeline_open(buffer->timeline);
	if (page < 0)
		return page;
	error = timeline_claim(buffer->timeline, session->id, &session->timelines, buffer->name);
	CRASH_POINT(writer_claimed);
	if (!error)
		writer_show(session, buffer->timeline);
	if (!error)
		session_done(session, message->request, page);
	CRASH_POINT(writer_sent);
	close(page);
	return error;
}
