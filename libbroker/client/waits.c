/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c - see waits.h */
#include "waits.h"

#include <utlist.h>

#include "client.h"
#include "common/error.h"
#include "send.h"
#include "timeline-wait.h"

struct answer {
	struct ticks_moment now;
	unsigned            messages; /* number of messages in use; the last one is being filled */
	struct wire_message message[WIRE_WAITS_ANSWER];
};

/* Begins another message of the answer. False: the answer has WIRE_WAITS_ANSWER messages already. */
static bool answer_grow(struct answer *answer)
{
	if (answer->messages == WIRE_WAITS_ANSWER)
		return false;
	if (answer->messages)
		answer->message[answer->messages - 1].waits.more = 1;
	wire_init(&answer->message[answer->messages++], WIRE_WAITS, 0);
	return true;
}

static bool answer_add(struct answer *answer, const struct wire_wait *wait)
{
	struct wire_waits *waits = &answer->message[answer->messages - 1].waits;

	if (waits->count == WIRE_WAITS_MAX) {
		if (!answer_grow(answer))
			return false;
		waits = &answer->message[answer->messages - 1].waits;
	}
	waits->wait[waits->count++] = *wait;
	return true;
}

/*
 * Adds the waits by leases of the record to the answer: the first one (`first`), or all others. False: the answer has
 * no room for one of them. Call it under client->lock.
 */
static bool record_report(const struct gpub_client *client, const struct record *record, bool first,
			  struct answer *answer)
{
	uint64_t state = atomic_load(&record->state);
	const struct timeline_map *map = record->timeline;
	struct parked_wait parked[PARKED_MAX];
	unsigned count;
	bool room = true;

	if (!map || (RECORD_STATE(state) != RECORD_OPEN && RECORD_STATE(state) != RECORD_CLOSING))
		return true;
	count = timeline_wait_list(map, record->ordinal, parked);
	for (unsigned i = !first; i < (first && count ? 1 : count) && room; i++)
		room = answer_add(answer,
				  &(struct wire_wait){
					  .mapping = RECORD_MAPPING(state),
					  .serial = map->serial,
					  .value = parked[i].value,
					  .age_ms = ticks_age_ms(parked[i].ticks, &client->connected, &answer->now) });
	return room;
}

/* As record_report(), for all records of the client. */
static bool records_report(const struct gpub_client *client, bool first, struct answer *answer)
{
	const struct record *record;

	for (record = timeline_waits_none() && timeline_threads_none() ? NULL : client->records.all; record;
	     record = record->next)
		if (!record_report(client, record, first, answer))
			return false;
	return true;
}

/*
 * Whether a stream waits for a timeline to which no record refers any more: a mapping may be closed before the waits
 * end that were queued by its leases. Call it under client->lock.
 */
static bool waits_unreported(const struct gpub_client *client)
{
	const struct timeline_map *map;

	DL_FOREACH2(client->timelines.unused, map, unused_next)
		if (timeline_wait_parked(map))
			return true;
	return false;
}

/*
 * Sets `more` in the last message, perhaps behind empty ones, if a first wait of a timeline is left out, because then
 * the broker cannot tell whether this process is stuck.
 */
void waits_report(struct gpub_client *client)
{
	struct answer answer = { .now = ticks_moment() };
	SAVE_ERROR();

	answer_grow(&answer);
	pthread_mutex_lock(&client->lock);
	if (!records_report(client, true, &answer) || waits_unreported(client)) {
		while (answer_grow(&answer))
			;
		answer.message[WIRE_WAITS_ANSWER - 1].waits.more = 1;
	} else {
		records_report(client, false, &answer);
	}
	pthread_mutex_unlock(&client->lock);
	if (!link_check(&client->link))
		call_send_many(client, answer.message, answer.messages);
}
