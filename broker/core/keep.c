/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - see keep.h */
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "broker/base/tracked.h"
#include "broker/keeper/line.h"
#include "broker/memory/allocation.h"
#include "broker/memory/jobs.h"
#include "broker/registry/timeline.h"
#include "broker/session/discard.h"
#include "broker/session/session.h"
#include "common/error.h"

#define KIND_SHIFT  56
#define NUMBER_MASK ((UINT64_C(1) << KIND_SHIFT) - 1)

uint64_t keep_key(enum kept_kind kind, uint64_t number)
{
	return number && number <= NUMBER_MASK ? (uint64_t)kind << KIND_SHIFT | number : 0;
}

enum kept_kind keep_kind_of(uint64_t key)
{
	return (enum kept_kind)(key >> KIND_SHIFT);
}

uint64_t keep_number_of(uint64_t key)
{
	return key & NUMBER_MASK;
}

/* ---- what an object needs ---- */

/* The descriptors that an object's record implies; 0: none. */
struct wanted {
	uint64_t key[KEEP_OF_SLOT];
	int      fd[KEEP_OF_SLOT];
};

static void want(struct wanted *wanted, unsigned place, enum kept_kind kind, uint64_t number, int fd)
{
	wanted->key[place] = fd < 0 ? 0 : keep_key(kind, number);
	wanted->fd[place] = fd;
}

static void want_session(struct wanted *wanted, const struct session *session)
{
	want(wanted, 0, KEPT_SOCKET, session->id, session->fd);
	want(wanted, 1, KEPT_PIDFD, session->id, session->pidfd);
}

/* Returns whether records of the object's type may imply descriptors, and which those of this one do. */
static bool wanted_of(const struct tracked *tracked, struct wanted *wanted)
{
	const char *at = (const char *)tracked;
	const struct allocation *allocation;
	const struct timeline *timeline;

	*wanted = (struct wanted){ .fd = { -1, -1 } };
	switch (tracked ? (enum tracked_type)tracked->type : TRACKED_NONE) {
	case TRACKED_SESSION:
		want_session(wanted, (const struct session *)(at - offsetof(struct session, tracked)));
		break;
	case TRACKED_ALLOCATION:
		allocation = (const struct allocation *)(at - offsetof(struct allocation, tracked));
		want(wanted, 0, KEPT_MEMORY, allocation->memory, allocation->descriptor);
		break;
	case TRACKED_TIMELINE:
		timeline = (const struct timeline *)(at - offsetof(struct timeline, shown.tracked));
		want(wanted, 0, KEPT_PAGE, timeline->buffer, timeline->writable);
		break;
	default:
		return false;
	}
	return true;
}

static bool has(const uint64_t *keys, uint64_t key)
{
	for (unsigned i = 0; i < KEEP_OF_SLOT; i++)
		if (keys[i] == key)
			return true;
	return false;
}

/* ---- before the commit ---- */

/* What the keeper does not get is not noted as kept, so it is sent with the object's next change. */
static bool put(struct keep *keep, uint64_t key, int fd)
{
	if (!line_put(keep->line, key, fd))
		return true;
	if (!keep->lost++)
		log_say("a descriptor is not kept, so the next broker will lack it: %s", error_text());
	return false;
}

static void drop_later(struct keep *keep, uint64_t key)
{
	keep->drops[keep->count++] = key;
}

static void slot_changed(struct keep *keep, uint32_t number)
{
	struct keep_slot *slot = &keep->slot[number];
	struct wanted wanted;

	if (!wanted_of(keep->broker->tracking->at[number], &wanted) && !slot->key[0] && !slot->key[1])
		return;
	for (unsigned i = 0; i < KEEP_OF_SLOT; i++)
		if (slot->key[i] && !has(wanted.key, slot->key[i]))
			drop_later(keep, slot->key[i]);
	for (unsigned i = 0; i < KEEP_OF_SLOT; i++)
		if (wanted.key[i] && !has(slot->key, wanted.key[i]) && !put(keep, wanted.key[i], wanted.fd[i]))
			wanted.key[i] = 0;
	memcpy(slot->key, wanted.key, sizeof slot->key);
}

void keep_put(struct keep *keep)
{
	const struct tracking *tracking = keep->broker->tracking;
	const struct tracking_changes *changes = &tracking->changes[SINK_LEDGER];

	for (uint32_t i = 0; i < changes->count; i++)
		slot_changed(keep, changes->slot[i]);
	/* what is queued would not outlive this broker; a keeper that has ended ends this broker, too */
	if (keep->line->queue)
		(void)line_flush_wait(keep->line);
}

/* ---- after the commit ---- */

static void fence_send(struct keep *keep);

/* The RELEASEs and closes that wait now go on when let_go_on() is called. */
static void mark(struct keep *keep)
{
	keep->frees = false;
	jobs_mark_releases(keep->broker->jobs);
	discard_mark(keep->broker->discard);
}

/* The RELEASEs are sent when the broker publishes next. */
static void let_go_on(struct keep *keep)
{
	jobs_let_release(keep->broker->jobs);
	discard_let_close(keep->broker->discard);
}

static void fence_end(struct keep *keep)
{
	if (keep->passed)
		event_free(keep->passed);
	if (keep->fence >= 0)
		close(keep->fence);
	keep->passed = NULL;
	keep->fence = -1;
}

static void on_passed(evutil_socket_t fd, short what, void *argument)
{
	struct keep *keep = argument;

	(void)fd;
	(void)what;
	fence_end(keep);
	let_go_on(keep);
	if (keep->frees)
		fence_send(keep);
}

int keep_fence(struct line *line, uint64_t number)
{
	const uint64_t key = keep_key(KEPT_FENCE, number);
	int ends[2], error;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return error_set(-errno, "no pipe to the keeper: %m");
	error = line_put(line, key, ends[1]);
	close(ends[1]);
	if (!error)
		error = line_drop(line, key);
	if (error)
		close(ends[0]);
	return error ? error : ends[0];
}

/* Returns whether the fence is under way. */
static bool fence_begin(struct keep *keep)
{
	keep->fence = keep_fence(keep->line, 1);
	if (keep->fence < 0)
		return false;
	keep->passed = event_new(keep->broker->base, keep->fence, EV_READ, on_passed, keep);
	return keep->passed && !event_add(keep->passed, NULL);
}

/* Without descriptors or memory for a fence nothing waits: the keeper may then make a last close. */
static void fence_send(struct keep *keep)
{
	mark(keep);
	if (fence_begin(keep))
		return;
	fence_end(keep);
	let_go_on(keep);
}

void keep_drop(struct keep *keep)
{
	for (uint32_t i = 0; i < keep->count; i++) {
		enum kept_kind kind = keep_kind_of(keep->drops[i]);

		(void)line_drop(keep->line, keep->drops[i]);
		keep->frees |= kind == KEPT_SOCKET || kind == KEPT_MEMORY;
	}
	keep->count = 0;
	if (keep->fence >= 0)
		return;
	if (keep->frees) {
		fence_send(keep);
	} else {
		mark(keep); /* what waits was never kept */
		let_go_on(keep);
	}
}

/* ---- begin and end ---- */

int keep_reserve(struct keep *keep, uint32_t slots)
{
	struct keep_slot *slot;
	uint64_t *drops;

	if (slots <= keep->room)
		return 0;
	slot = reallocarray(keep->slot, slots, sizeof *slot);
	if (slot)
		keep->slot = slot;
	drops = slot ? reallocarray(keep->drops, slots, KEEP_OF_SLOT * sizeof *drops) : NULL;
	if (!drops)
		return error_set(-ENOMEM, "the broker is out of memory");
	keep->drops = drops;
	memset(keep->slot + keep->room, 0, (slots - keep->room) * sizeof *slot);
	keep->room = slots;
	return 0;
}

void keep_loaded(struct keep *keep, bool (*had)(void *context, uint64_t key), void *context)
{
	const struct tracking *tracking = keep->broker->tracking;

	for (uint32_t number = 0; number < tracking->slots; number++) {
		struct wanted wanted;

		(void)wanted_of(tracking->at[number], &wanted);
		for (unsigned i = 0; i < KEEP_OF_SLOT; i++)
			keep->slot[number].key[i] =
				wanted.key[i] && had(context, wanted.key[i]) ? wanted.key[i] : 0;
	}
}

int keep_begin(struct broker *broker, struct keep *keep, struct line *line)
{
	int error;

	*keep = (struct keep){ .broker = broker, .line = line, .fence = -1 };
	error = keep_reserve(keep, broker->tracking->room);
	if (error) {
		free(keep->slot);
		keep->broker = NULL;
		return error;
	}
	jobs_hold_releases(broker->jobs, true);
	discard_hold(broker->discard, true);
	return 0;
}

void keep_end(struct keep *keep)
{
	if (!keep->broker)
		return;
	fence_end(keep);
	jobs_hold_releases(keep->broker->jobs, false);
	discard_hold(keep->broker->discard, false);
	free(keep->slot);
	free(keep->drops);
	*keep = (struct keep){ .fence = -1 };
}
