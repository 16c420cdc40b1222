/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - see lookup.h */
#include "lookup.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "broker/base/context.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/session/walk.h"
#include "broker/users/identity.h"
#include "common/error.h"
#include "name-waits.h"

static struct wire_info info_of(const struct buffer *buffer)
{
	return (struct wire_info){ .size = buffer->size,
				   .generation = buffer->serial,
				   .device = buffer->allocation->device,
				   .mode = buffer->mode,
				   .owner = buffer->owner,
				   .group = buffer->group,
				   .state = GPUB_LIVE,
				   .grants = buffer->grant_count - buffer->orphaned,
				   .orphaned = buffer->orphaned,
				   .flags = buffer->flags,
				   .layout = buffer_layout(buffer),
				   .reserve = buffer->reserve };
}

static void info_send(struct session *session, uint64_t request, const struct buffer *buffer)
{
	struct wire_message answer;

	wire_init(&answer, WIRE_INFO, request);
	answer.info = info_of(buffer);
	session_send(session, &answer, -1);
}

int lookup_stat(struct session *session, const struct wire_message *message)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, message->name.name, &buffer);

	if (!error)
		info_send(session, message->request, buffer);
	return error;
}

/*
 * Accepts a generation that no buffer has had yet: a refusal would tell the session how many buffers there have been,
 * which its user may not be allowed to see.
 */
int lookup_newer(struct session *session, const struct wire_message *message)
{
	const struct wire_newer *newer = &message->newer;
	struct buffer *buffer;
	int error = name_check(newer->name);

	if (error)
		return error;
	error = registry_find_live(session->broker->registry, newer->name, &buffer);
	if (!error && buffer->serial > newer->generation) {
		info_send(session, message->request, buffer);
		return 0;
	}
	if (!newer->timeout_ms || session->broker->stopping)
		return error ? error :
			       error_set(-ETIMEDOUT, "'%s' has generation %llu and no newer one", buffer->name,
					 (unsigned long long)buffer->serial);
	return name_wait_newer(session->broker, session->id, message->request, newer);
}

void lookup_tell_newer(struct session *session, uint64_t request, const struct wire_newer *newer)
{
	struct buffer *buffer;
	int error = registry_find_live(session->broker->registry, newer->name, &buffer);

	if (error)
		session_refuse(session, request, error, error_text());
	else
		info_send(session, request, buffer);
}

/* ---- lists ---- */

struct list {
	struct walk walk; /* must be the first member, because list_visit() casts its address */
	char        prefix[NAME_SIZE];
};

/*
 * Returns true if the list shows the buffer: it is LIVE, its name has the prefix, and the session's user is its owner,
 * an admin, or a user who may acquire it.
 */
static bool is_listed(const struct list *list, const struct buffer *buffer)
{
	const struct identity *who = &list->walk.session->who;

	return buffer->state == BUFFER_LIVE && !strncmp(buffer->name, list->prefix, strlen(list->prefix)) &&
	       (buffer->owner == who->uid || identity_is_admin(who) || buffer_rights(buffer, who));
}

static unsigned list_visit(struct walk *walk, const struct tracked *tracked)
{
	const struct buffer *buffer = (const struct buffer *)((const char *)tracked - offsetof(struct buffer, tracked));
	struct wire_listed listed;

	if (tracked->type != TRACKED_BUFFER || !is_listed((const struct list *)walk, buffer))
		return 0;
	memset(&listed, 0, sizeof listed);
	strcpy(listed.name, buffer->name);
	listed.info = info_of(buffer);
	walk_send(walk, walk->count * sizeof listed, &listed, sizeof listed);
	walk->count++;
	return 1;
}

static void list_end(struct walk *walk, struct wire_view *view)
{
	view->size = walk->count * sizeof(struct wire_listed);
}

int lookup_list(struct session *session, const struct wire_message *message)
{
	static const struct walk_kind kind = { list_visit, list_end };
	int error;
	struct list *list = (struct list *)walk_begin(session, message->request, sizeof *list, &kind, &error);

	if (list)
		strcpy(list->prefix, message->name.name);
	return error;
}
