/* SPDX-License-Identifier: Apache-2.0 */
/* drains.c - see drains.h */
#include "drains.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "common/error.h"
#include "waiting.h"

struct drain_wait {
	struct wait    wait;   /* must be the first member, because drain_end() casts its address */
	uint64_t       serial; /* serial of the buffer that is drained */
	char           name[NAME_SIZE];
	UT_hash_handle hh; /* handle in the hash table waiting->drains */
};

/* Takes the drain out of all tables and frees it. Returns the session to answer. NULL: the session gets no answer. */
static struct session *drain_leave(struct drain_wait *drain)
{
	struct broker *broker = drain->wait.broker;
	struct session *session = wait_listener(&drain->wait);

	HASH_DEL(broker->waiting->drains, drain);
	wait_leave(&drain->wait);
	free(drain);
	return session;
}

static void tell(struct session *session, enum event_kind kind, const char *name)
{
	event_happened(session->broker,
		       &(struct broker_event){ .kind = kind, .actor = SESSION_PARTY(session), .name = name });
}

/*
 * Ends a drain, and refuses its request if the time of the wait is over or the request is cancelled. The buffer stays
 * unlinked.
 */
static void drain_end(struct wait *wait, bool expired)
{
	struct drain_wait drain = *(struct drain_wait *)wait;
	struct session *session = drain_leave((struct drain_wait *)wait);

	if (!expired || !session)
		return;
	tell(session, EVENT_DRAIN_LATE, drain.name);
	error_set(-ETIMEDOUT, "'%s' is not freed yet: its name is gone, and broker-ctl stat says who holds it",
		  drain.name);
	session_refuse(session, drain.wait.key.request, -ETIMEDOUT, error_text());
}

static void drain_show(const struct wait *wait, struct wait_shown *shown)
{
	const struct drain_wait *drain = (const struct drain_wait *)wait;

	*shown = (struct wait_shown){ .what = WAIT_DRAIN, .name = drain->name, .generation = drain->serial };
}

int drain_wait(struct broker *broker, const struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms)
{
	static const struct wait_kind kind = { .end = drain_end, .show = drain_show, .outlasts_stop = true };
	struct drain_wait *drain = calloc(1, sizeof *drain);
	int error = -ENOMEM;

	if (drain)
		error = wait_begin(&drain->wait, &kind, broker, (struct wait_key){ session, request }, timeout_ms);
	if (error)
		goto free_drain;
	drain->serial = buffer->serial;
	strcpy(drain->name, buffer->name);
	HASH_ADD(hh, broker->waiting->drains, serial, sizeof drain->serial, drain);
	if (table_added(drain))
		return 0;
	wait_leave(&drain->wait);
	error = -ENOMEM;
free_drain:
	free(drain);
	return error_set(error, "the broker is out of memory");
}

void drain_ended(struct broker *broker, uint64_t serial)
{
	struct drain_wait *found, drain;
	struct session *session;

	HASH_FIND(hh, broker->waiting->drains, &serial, sizeof serial, found);
	if (!found)
		return;
	drain = *found;
	session = drain_leave(found);
	if (!session)
		return;
	histograms_count(&broker->histograms, HISTOGRAM_DRAIN, drain.wait.began);
	tell(session, EVENT_DRAINED, drain.name);
	session_done(session, drain.wait.key.request, -1);
}
