/* SPDX-License-Identifier: Apache-2.0 */
/* notices.c - see notices.h */
#include "notices.h"

#include <utlist.h>

#include "objects.h"

/* largest number of notices that one call of notices_send(), and notices_more() in a pass, sends (invariant 5) */
#define NOTICES 16

void notices_send_later(struct registry *registry, struct notices *notices)
{
	notices->queued = notices->grant || notices->mapping;
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
 * Tells the session of a grant that its buffer has lost the name that the session knows, or has got another serial.
 * Tells each grant once, and of a LIVE buffer none that began under the present serial: a session that does not read
 * must not be flooded. Sends nothing for a grant under an orphaned mapping.
 */
static void grant_tell(struct registry *registry, struct grant *grant)
{
	/* the status file shows the buffer's present serial with the grant */
	if (grant->key.serial != grant->buffer->serial)
		tracked_changed(registry->tracking, &grant->tracked);
	if (grant->told || (grant->buffer->state == BUFFER_LIVE && grant->key.serial == grant->buffer->serial))
		return;
	grant->told = true;
	if (!grant->mapping->orphaned)
		registry->hooks.notice(registry->context, grant->mapping, grant->key.serial);
}

void notices_pass(const struct grant *grant)
{
	struct notices *notices = &grant->buffer->notices;

	notices->grant = grant->next;
	if (notices->grant || !notices->again)
		return;
	notices->again = false;
	notices->grant = grant->buffer->grants;
}

static void notice_next(struct registry *registry, struct notices *notices)
{
	struct grant *grant = notices->grant;
	struct mapping *mapping = notices->mapping;

	if (grant) {
		notices_pass(grant);
		grant_tell(registry, grant);
		return;
	}
	notices->mapping = mapping->next;
	if (!mapping->orphaned)
		registry->hooks.notice(registry->context, mapping, 0);
}

/* Sends at most `most` of the notices, and keeps the others in registry->notices. Returns the unused part of `most`. */
static unsigned send_some(struct registry *registry, struct notices *notices, unsigned most)
{
	notices_cancel(registry, notices);
	for (; most && (notices->grant || notices->mapping); most--)
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
		allocation->notices.mapping = allocation->mappings;
		notices_send_later(registry, &allocation->notices);
	}
	while (most && registry->notices)
		most = send_some(registry, registry->notices, most);
	return registry->notices;
}
