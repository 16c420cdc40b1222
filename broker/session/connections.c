/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c - see connections.h */
#include "connections.h"

#include <errno.h>
#include <sys/socket.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "common/error.h"
#include "common/socket.h"
#include "discard.h"
#include "greeting.h"
#include "serve.h"
#include "session.h"

#define ACCEPTS 4  /* in a pass: a flood of connections costs the others so many accepts and closes */
#define AHEAD   64 /* sessions that wait for their user's share if there is only one user; more wait in the socket */

static const struct timeval pause_time = { .tv_usec = 100000 };

/* Without descriptors, a connection that waits would keep the loop spinning: stop watching the socket for a moment. */
static void accepting_pause(struct broker *broker)
{
	log_line("connections wait: no descriptors are left (raise the limit, ulimit -n)");
	if (!event_add(broker->connections->retry, &pause_time)) /* else it spins, and is not deaf */
		event_del(broker->connections->listener);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;

	(void)fd;
	(void)what;
	if (event_add(broker->connections->listener, NULL))
		event_add(broker->connections->retry, &pause_time);
}

static void connection_take(struct broker *broker, int fd)
{
	int error = session_accept(broker, fd);

	if (!error)
		return;
	connection_refuse(broker, fd, error);
	discard_socket(broker->discard, fd);
}

/* With one user, nobody else's connection waits behind these in the socket: they can stay there. */
static bool has_enough(const struct broker *broker)
{
	return !broker->several_users && broker->sessions->arrived >= AHEAD;
}

void connections_accept(struct broker *broker, int listener)
{
	for (int i = 0; i < ACCEPTS && !has_enough(broker); i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0)
			connection_take(broker, fd);
		else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			return accepting_pause(broker);
		else if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

int connections_init(struct broker *broker)
{
	broker->connections->retry = evtimer_new(broker->base, on_retry, broker);
	return broker->connections->retry ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void connections_deinit(struct broker *broker)
{
	if (broker->connections->retry)
		event_free(broker->connections->retry);
	broker->connections->retry = NULL;
}
