/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c - see walk.h */
#include "walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/context.h"
#include "broker/users/accounting.h"
#include "common/error.h"
#include "fair-queue.h"

/* The work of one step, in units of the work of looking at one slot. Two steps use up a user's share of a pass. */
#define STEP          256
#define SLOTS_OF_COST 32 /* number of slots that take as much processor time as a message (COST_MESSAGE) */
#define SLOTS_OF_SEND 8  /* work of sending one record, in the same units as STEP */

void walk_send(const struct walk *walk, uint64_t offset, const void *bytes, size_t size)
{
	struct wire_message message;

	while (size && !((const uint8_t *)bytes)[size - 1])
		size--;
	for (size_t at = 0; at < size; at += message.part.length) {
		wire_init(&message, WIRE_PART, walk->request);
		message.part.offset = (uint32_t)(offset + at);
		message.part.length = size - at < WIRE_PART_SIZE ? (uint32_t)(size - at) : WIRE_PART_SIZE;
		memcpy(message.part.bytes, (const char *)bytes + at, message.part.length);
		session_send(walk->session, &message, -1);
	}
}

static void walk_end(struct walk *walk)
{
	struct wire_message message;

	wire_init(&message, WIRE_VIEW, walk->request);
	walk->kind->end(walk, &message.view);
	session_send(walk->session, &message, -1);
}

static bool step(struct session *session)
{
	struct walk *walk = (struct walk *)session->task;
	const struct tracking *tracking = session->broker->tracking;
	unsigned work = 0;

	for (; work < STEP && walk->slot < tracking->slots; walk->slot++) {
		const struct tracked *tracked = tracking->at[walk->slot];

		work += 1 + (tracked ? SLOTS_OF_SEND * walk->kind->visit(walk, tracked) : 0);
	}
	fair_count(&session->place, (work + SLOTS_OF_COST - 1) / SLOTS_OF_COST);
	if (walk->slot < tracking->slots)
		return false;
	walk_end(walk);
	return true;
}

static void drop(struct session_task *task)
{
	struct walk *walk = (struct walk *)task;

	charge_release(&walk->charge, walk->session->broker->accounting);
	free(walk);
}

struct walk *walk_begin(struct session *session, uint64_t request, size_t size, const struct walk_kind *kind,
			int *error)
{
	struct walk *walk;

	if (session->task) {
		*error = error_set(-EBUSY, "this session is being sent a list or a snapshot already: wait for its end");
		return NULL;
	}
	walk = calloc(1, size);
	if (!walk) {
		*error = error_set(-ENOMEM, "the broker is out of memory");
		return NULL;
	}
	*error = charge_take(&walk->charge, session->broker->accounting, session->who.uid, RESOURCE_QUEUED, size);
	if (*error) {
		free(walk);
		return NULL;
	}
	walk->task = (struct session_task){ .step = step, .drop = drop };
	walk->kind = kind;
	walk->session = session;
	walk->request = request;
	session->task = &walk->task;
	outbox_pack(&session->outbox);
	return walk;
}
