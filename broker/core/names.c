/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h */
#include "names.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/events.h"
#include "common/error.h"

#define LOOK_MS 500

/* Checks a name. Returns true if it was made again, or cannot be: then it is to be checked once more. */
static bool look_at(struct names *names, unsigned which)
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
	return result;
}

/*
 * Watches the file that has the path now. The file's removal and renaming change its attributes or move it; IN_DELETE
 * is the removal of a file in it, if it is a directory, because the removal of an open directory is no event of its
 * own. Each watch ends with its first event, so nobody can wake the broker more often than the timer.
 */
static bool watch(const struct names *names, const char *path)
{
	return inotify_add_watch(names->inotify, path, IN_ATTRIB | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF |
						       IN_DONT_FOLLOW | IN_ONESHOT) >= 0;
}

/*
 * Watches the paths before it checks the names, so that no removal between the two is missed. The timer does not go on
 * for a path that has no file: if the file is needed, the check makes it again, for which the timer goes on.
 */
static void on_time(evutil_socket_t fd, short what, void *argument)
{
	struct names *names = argument;
	bool again = false;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < names->path_count; i++)
		again |= !watch(names, names->paths[i]) && errno != ENOENT;
	for (unsigned i = 0; i < names->count; i++)
		again |= look_at(names, i);
	if (!again)
		event_del(names->timer);
}

static int look_later(const struct names *names)
{
	const struct timeval pause = { .tv_usec = LOOK_MS * 1000 };

	return event_add(names->timer, &pause);
}

void names_again(const struct names *names)
{
	/* without memory for the timer, the next change has the names checked */
	if (names->timer && !event_pending(names->timer, EV_TIMEOUT, NULL))
		(void)look_later(names);
}

/* Who removes one name is likely to remove more, so the names are checked a little later. */
static void on_change(evutil_socket_t fd, short what, void *argument)
{
	const struct names *names = argument;
	char events[4096];

	(void)what;
	/* without memory for the timer, the unread events have this called again */
	if (event_pending(names->timer, EV_TIMEOUT, NULL) || !look_later(names))
		(void)!read(fd, events, sizeof events);
}

/* Without an inotify instance or memory for it, no path can be watched, so the timer does not end. */
static void inotify_begin(struct names *names, struct event_base *base)
{
	names->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (names->inotify < 0)
		return;
	names->change = event_new(base, names->inotify, EV_READ | EV_PERSIST, on_change, names);
	if (names->change && !event_add(names->change, NULL))
		return;
	close(names->inotify);
	names->inotify = -1;
}

int names_begin(struct names *names, struct broker *broker)
{
	names->broker = broker;
	inotify_begin(names, broker->base);
	names->timer = event_new(broker->base, -1, EV_PERSIST, on_time, names);
	return names->timer && !look_later(names) ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void names_watch(struct names *names, names_look *look, void *context)
{
	assert(names->count < NAMES_MAX);
	names->list[names->count].look = look;
	names->list[names->count++].context = context;
}

void names_path(struct names *names, const char *format, ...)
{
	va_list arguments;

	assert(names->path_count < NAMES_PATHS);
	va_start(arguments, format);
	vsnprintf(names->paths[names->path_count++], NAMES_PATH_SIZE, format, arguments);
	va_end(arguments);
}

void names_end(struct names *names)
{
	if (names->timer)
		event_free(names->timer);
	if (names->change)
		event_free(names->change);
	if (names->inotify >= 0)
		close(names->inotify);
	names->timer = names->change = NULL;
	names->inotify = -1;
}
