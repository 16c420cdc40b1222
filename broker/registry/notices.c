/* SPDX-License-Identifier: Apache-2.0 */
/* notices.c - see notices.h */
#include "notices.h"

#include <utlist.h>

#include "objects.h"

#define NOTICES 16 /* most notices in one pass of the loop (invariant 5) */

void notices_send_later(struct registry *registry, struct notices *notices)
{
	notices->queued = notices->use || notices->grant;
	if (notices->queued)
		DL_APPEND(registry->notices, notices);
}

void notices_cancel(struct registry *registry, struct notices *notices)
{
	if (notices->queued)
		DL_DELETE(registry->notices, notices);
	notices->queued = false;
}

/*
 * Tells the session of a use once that its buffer has lost the name that the session knows. A use that was told, or
 * began under the present name, is not told again: the session may not read its messages, and must not be flooded.
 */
static void use_tell(struct registry *registry, struct use *use)
{
	if (use->key.serial != use->buffer->serial) /* the status file shows the buffer's present serial with the use */
		tracked_changed(registry->tracking, &use->tracked);
	if (use->told || (use->buffer->state == BUFFER_LIVE && use->key.serial == use->buffer->serial))
		return;
	use->told = true;
	if (!use->grant->orphaned)
		registry->hooks.notice(registry->context, use->grant, use->key.serial);
}

void notices_pass(const struct use *use)
{
	struct notices *notices = &use->buffer->notices;

	notices->use = use->next;
	if (notices->use || !notices->again)
		return;
	notices->again = false;
	notices->use = use->buffer->uses;
}

static void notice_next(struct registry *registry, struct notices *notices)
{
	struct use *use = notices->use;
	struct grant *grant = notices->grant;

	if (use) {
		notices_pass(use);
		use_tell(registry, use);
		return;
	}
	notices->grant = grant->next;
	if (!grant->orphaned)
		registry->hooks.notice(registry->context, grant, 0);
}

/* Sends notices, at most `most`. Returns the unused part of `most`. Keeps the rest in registry->notices. */
static unsigned send_some(struct registry *registry, struct notices *notices, unsigned most)
{
	notices_cancel(registry, notices);
	for (; most && (notices->use || notices->grant); most--)
		notice_next(registry, notices);
	notices_send_later(registry, notices);
	return most;
}

void notices_send(struct registry *registry, struct notices *notices)
{
	send_some(registry, notices, NOTICES);
}

bool notices_more(struct registry *registry)
{
	struct allocation *allocation;
	unsigned most = NOTICES;

	while ((allocation = memory_take_evicted(registry->memory))) {
		allocation->notices.grant = allocation->grants;
		notices_send_later(registry, &allocation->notices);
	}
	while (most && registry->notices)
		most = send_some(registry, registry->notices, most);
	return registry->notices;
}
