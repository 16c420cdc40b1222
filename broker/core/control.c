/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - see control.h */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "broker.h"
#include "broker/base/event-failure.h"
#include "broker/base/log.h"
#include "broker/session/session.h"
#include "common/error.h"
#include "common/size.h"

#define HOLDERS_LOGGED 16

void control_block(const sigset_t *signals)
{
	struct sigaction ignored = { .sa_handler = SIG_IGN };

	sigaction(SIGPIPE, &ignored, NULL);
	sigprocmask(SIG_BLOCK, signals, NULL);
}

static void on_signal(evutil_socket_t fd, short what, void *argument)
{
	struct control *control = argument;
	struct signalfd_siginfo info;

	(void)what;
	if (read(fd, &info, sizeof info) == sizeof info)
		control->on_signal(control->context, &info);
}

static void on_patience(evutil_socket_t fd, short what, void *argument)
{
	struct control *control = argument;

	(void)fd;
	(void)what;
	control->on_patience(control->context);
}

int control_begin(struct control *control, const sigset_t *signals, int exit_code)
{
	control->signal_fd = -1;
	event_failure_watch(exit_code, control->on_failure, control->context);
	control->base = event_base_new();
	if (!control->base)
		return error_set(-ENOMEM, "the event loop cannot start: out of memory or descriptors");
	control->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (control->signal_fd < 0)
		return error_set(-errno, "signals cannot be received: %m");
	control->signals = event_new(control->base, control->signal_fd, EV_READ | EV_PERSIST, on_signal, control);
	control->patience = evtimer_new(control->base, on_patience, control);
	if (!control->signals || !control->patience || event_add(control->signals, NULL))
		return error_set(-ENOMEM, "out of memory");
	return 0;
}

void control_end(struct control *control)
{
	if (control->signals)
		event_free(control->signals);
	if (control->patience)
		event_free(control->patience);
	if (control->base)
		event_base_free(control->base);
	if (control->signal_fd >= 0)
		close(control->signal_fd);
}

void control_expect(struct control *control, unsigned seconds)
{
	const struct timeval patience = { .tv_sec = seconds };

	evtimer_add(control->patience, &patience);
}

void control_log_holders(const struct broker *broker, const char *hint)
{
	const struct session *session;
	unsigned holders = 0;

	for (session = broker->sessions->by_id; session; session = session->hh.next)
		if (session->mappings.by_id && holders++ < HOLDERS_LOGGED)
			log_say("pid %d (%s, uid %u) still holds %u mapping%s: %s", session->pid, session->command,
				session->who.uid, HASH_COUNT(session->mappings.by_id),
				PLURAL(HASH_COUNT(session->mappings.by_id)), hint);
	if (holders > HOLDERS_LOGGED)
		log_say("and %u more hold mappings", holders - HOLDERS_LOGGED);
}

const char *control_account(const struct broker *broker, char text[CONTROL_ACCOUNT_MAX])
{
	const struct counters *c = &broker->counters;
	char bytes[SIZE_TEXT_MAX], freed[SIZE_TEXT_MAX];

	snprintf(text, CONTROL_ACCOUNT_MAX,
		 "buffers %llu created, %llu freed; memory %s allocated, %s freed; mappings %llu given, %llu returned, "
		 "%llu ended by death; %s",
		 (unsigned long long)c->buffers_created, (unsigned long long)broker_buffers_ended(broker),
		 size_format(c->bytes_made, bytes), size_format(c->bytes_freed, freed),
		 (unsigned long long)c->mappings_opened, (unsigned long long)c->mappings_closed,
		 (unsigned long long)c->mappings_died, broker_balanced(broker) ? "balanced" : "NOT BALANCED");
	return text;
}
