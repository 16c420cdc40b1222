/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h */
#include "names.h"

#include <assert.h>
#include <errno.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "common/error.h"

#define LOOK_MS 500

static void look_at(struct names *names, unsigned which)
{
	char text[EVENT_TEXT_MAX] = "";
	struct broker_event event = { .kind = EVENT_NAME_RESTORED, .text = text };
	int result = names->list[which].look(names->list[which].context, text);
	bool lost = result < 0;

	if (lost)
		event = (struct broker_event){ .kind = EVENT_NAME_LOST, .error = result, .text = error_text() };
	if (result > 0 || (lost && !names->list[which].lost))
		event_happened(names->broker, &event);
	names->list[which].lost = lost;
}

static void on_time(evutil_socket_t fd, short what, void *argument)
{
	struct names *names = argument;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < names->count; i++)
		look_at(names, i);
}

int names_begin(struct names *names, struct broker *broker)
{
	const struct timeval pause = { .tv_usec = LOOK_MS * 1000 };

	names->broker = broker;
	names->timer = event_new(broker->base, -1, EV_PERSIST, on_time, names);
	return names->timer && !event_add(names->timer, &pause) ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void names_watch(struct names *names, names_look *look, void *context)
{
	assert(names->count < NAMES_MAX);
	names->list[names->count].look = look;
	names->list[names->count++].context = context;
}

void names_end(struct names *names)
{
	if (names->timer)
		event_free(names->timer);
	names->timer = NULL;
}
