/* SPDX-License-Identifier: Apache-2.0 */
/* event-failure.c - see event-failure.h */
#include "event-failure.h"

#include <stdio.h>
#include <unistd.h>

#include <event2/event.h>

#include "log.h"

/* Global, because libevent passes no context to the callbacks. */
static struct {
	int  exit_code;
	void (*clean)(void *context);
	void *context;
	char cause[128]; /* libevent's last error message */
} failure;

static void on_log(int severity, const char *text)
{
	if (severity == EVENT_LOG_ERR)
		snprintf(failure.cause, sizeof failure.cause, "%s", text);
	else if (severity == EVENT_LOG_WARN)
		log_line("libevent: %s", text);
}

static void on_failure(int code)
{
	(void)code;
	log_say("the event loop cannot go on (libevent: %s): allow more open files (ulimit -n, LimitNOFILE=), or free "
		"memory",
		failure.cause);
	failure.clean(failure.context);
	_exit(failure.exit_code);
}

void event_failure_watch(int exit_code, void (*clean)(void *context), void *context)
{
	failure.exit_code = exit_code;
	failure.clean = clean;
	failure.context = context;
	event_set_log_callback(on_log);
	event_set_fatal_callback(on_failure);
}
