/* SPDX-License-Identifier: Apache-2.0 */
/* events.c - see events.h */
#include "events.h"

#include <errno.h>

#include <event2/event.h>

#include "context.h"
#include "common/now.h"
#include "log.h"

uint64_t event_clock(void)
{
	return now_ms(CLOCK_REALTIME_COARSE);
}

/* ---- logging ---- */

/* Returns an event's log level: LOG_VERBOSE for a refusal that programs meet in normal use, else the kind's level. */
static enum log_level level_of(const struct broker_event *event)
{
	bool ordinary = event_rows[event->kind].part == EVENT_REFUSED && event_is_ordinary(event->error);

	return ordinary ? LOG_VERBOSE : event_rows[event->kind].level;
}

static void say(const struct broker_event *event, enum log_level level, bool of_client)
{
	char text[EVENT_TEXT_MAX];
	bool refused = event->error < 0;
	const struct journal_field fields[] = {
		{ "GPUBROKER_EVENT", event_rows[event->kind].name, 0, true },
		{ "GPUBROKER_REASON", refused ? event_reason(event->error) : NULL, 0, refused },
		{ "GPUBROKER_SESSION", NULL, event->actor.session, event->actor.session },
		{ "GPUBROKER_CLIENT_PID", NULL, event->actor.pid, event->actor.pid },
		{ "GPUBROKER_CLIENT_UID", NULL, event->actor.uid, event->actor.session },
		{ "GPUBROKER_OTHER_SESSION", NULL, event->other.session, event->other.session },
		{ "GPUBROKER_OTHER_PID", NULL, event->other.pid, event->other.pid },
		{ "GPUBROKER_OTHER_UID", NULL, event->other.uid, event->other.session || event->kind == EVENT_CHOWN },
		{ "GPUBROKER_BUFFER", event->name, 0, event->name },
		{ "GPUBROKER_BYTES", NULL, event->bytes, event->bytes },
		{ "GPUBROKER_LEFT_OUT", NULL, event->left_out, event->left_out },
	};

	log_fields(level, of_client, fields, sizeof fields / sizeof *fields, event_text(event, text));
}

/* ---- limits ---- */

static void tell_class(struct events *events, enum event_kind kind, unsigned reason)
{
	struct event_class *class = &events->classes[kind][reason];
	struct broker_event more = { .kind = kind, .error = event_reason_error(reason) };

	if (class->lines_left) {
		more.left_out = class->lines_left;
		say(&more, level_of(&more), false);
	}
	if (class->entries_left && events->record) {
		more.left_out = class->entries_left;
		events->record(events->broker, &more);
	}
	*class = (struct event_class){ 0 };
}

void events_tell(struct events *events)
{
	for (int kind = 0; kind < EVENT_KINDS; kind++)
		for (unsigned reason = 0; reason < EVENT_REASONS; reason++)
			tell_class(events, kind, reason);
	events->window = 0;
	log_tell_left_out();
}

/* Begins a new window if the old one is over, or if the clock was set back, because the difference wraps then. */
static void window_follow(struct events *events)
{
	uint64_t now = event_clock();

	if (events->window && now - events->window < EVENT_WINDOW_MS)
		return;
	if (events->window)
		events_tell(events);
	events->window = now;
}

static void expect_end(struct events *events)
{
	static const struct timeval window = { .tv_sec = EVENT_WINDOW_MS / 1000 };

	if (events->timer && !evtimer_pending(events->timer, NULL))
		evtimer_add(events->timer, &window);
}

/* Returns true and increments *count if it is below `most`; otherwise returns false and increments *left. */
static bool allows(struct events *events, uint32_t *count, uint32_t most, uint32_t *left)
{
	if (*count < most) {
		++*count;
		return true;
	}
	++*left;
	expect_end(events);
	return false;
}

static void happened_again(struct broker *broker, const struct broker_event *event)
{
	struct events *events = broker->events;
	struct event_class *class = &events->classes[event->kind][event_reason_number(event->error)];
	enum log_level level = level_of(event);
	unsigned lines = event_rows[event->kind].lines;

	window_follow(events);
	if (events->record && (event_rows[event->kind].part != EVENT_REFUSED ||
			       allows(events, &class->entries, EVENT_ENTRIES, &class->entries_left)))
		events->record(broker, event);
	if (log_shows(level) && (!lines || allows(events, &class->lines, lines, &class->lines_left)))
		say(event, level, true);
}

void event_happened(struct broker *broker, const struct broker_event *event)
{
	struct events *events = broker->events;

	if (!events)
		return;
	if (event_rows[event->kind].lines) {
		happened_again(broker, event);
		return;
	}
	if (events->record)
		events->record(broker, event);
	if (log_shows(event_rows[event->kind].level))
		say(event, event_rows[event->kind].level, event_rows[event->kind].part != EVENT_OF_BROKER);
}

/* ---- the time ---- */

static void on_time(evutil_socket_t fd, short what, void *argument)
{
	(void)fd;
	(void)what;
	events_tell(argument);
}

static void on_left_out(void *argument)
{
	expect_end(argument);
}

int events_begin(struct events *events, struct broker *broker, struct event_base *base)
{
	events->broker = broker;
	events->timer = evtimer_new(base, on_time, events);
	if (!events->timer)
		return -ENOMEM;
	log_when_left_out(on_left_out, events);
	return 0;
}

void events_end(struct events *events)
{
	log_when_left_out(NULL, NULL);
	if (events->timer)
		event_free(events->timer);
	events->timer = NULL;
	events_tell(events);
	events->record = NULL;
}
