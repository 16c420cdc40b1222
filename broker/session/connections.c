/* SPDX-License-Identifier: Apache-2.0 */
/* connections.c - see connections.h */
#include "connections.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "common/error.h"
#include "common/socket.h"
#include "discard.h"
#include "greeting.h"
#include "serve.h"
#include "session.h"

/* largest number of accepts in a call of connections_accept(), so that a flood of connections costs others little */
#define ACCEPTS 4
#define AHEAD   64 /* largest number of sessions in the state SESSION_ARRIVED, if the broker serves only one user */

static const struct timeval retry_after = { .tv_usec = 100000 }, behind_for = { .tv_usec = 1000 };

/*
 * Stops watching the listening socket for `time`, because a connection that stays in it would keep the loop spinning.
 */
static void accepting_pause(struct broker *broker, const struct timeval *time)
{
	/* without a timer nobody would begin to accept again: the loop spins, but accepts */
	if (!event_add(broker->connections->retry, time))
		event_del(broker->connections->listener);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
	struct broker *broker = argument;

	(void)fd;
	(void)what;
	if (!event_add(broker->connections->listener, NULL))
		event_del(broker->connections->retry);
}

/* Begins a session on the connection, or refuses the connection. The session takes over the reserved descriptor. */
static void connection_take(struct broker *broker, int fd)
{
	int reserved = broker->connections->reserved, error = session_accept(broker, fd, reserved);

	if (error) {
		connection_refuse(broker, fd, error);
		discard_socket(broker->discard, fd);
	} else {
		broker->connections->reserved = -1;
	}
}

/* Accepts a connection if descriptors for its socket and its pidfd are free. Returns the socket or a negative errno. */
static int connection_accept(struct broker *broker, int listener)
{
	struct connections *connections = broker->connections;
	int fd = -1;

	if (connections->reserved < 0)
		connections->reserved = eventfd(0, EFD_CLOEXEC);
	if (connections->reserved >= 0)
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fd >= 0 ? fd : -errno;
}

/*
 * Returns true if more connections should stay in the listening socket. This limit is only for a broker that serves one
 * user: connections that wait there delay no other user's.
 */
static bool has_enough(const struct broker *broker)
{
	return !broker->several_users && broker->sessions->arrived >= AHEAD;
}

bool connections_accept(struct broker *broker, int listener)
{
	bool accepted = false;

	if (discard_is_behind(broker->discard)) {
		accepting_pause(broker, &behind_for);
		return false;
	}
	for (int i = 0; i < ACCEPTS && !has_enough(broker); i++) {
		int fd = connection_accept(broker, listener);

		if (fd >= 0) {
			connection_take(broker, fd);
			accepted = true;
		} else if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM) {
			log_line("connections wait: no descriptors are left (raise the limit, ulimit -n)");
			accepting_pause(broker, &retry_after);
			break;
		} else if (fd != -EINTR && fd != -ECONNABORTED) {
			break;
		}
	}
	return accepted;
}

int connections_init(struct broker *broker)
{
	broker->connections->reserved = -1;
	broker->connections->retry = event_new(broker->base, -1, EV_PERSIST, on_retry, broker);
	return broker->connections->retry ? 0 : error_set(-ENOMEM, "the broker is out of memory");
}

void connections_deinit(struct broker *broker)
{
	if (!broker->connections->retry)
		return;
	event_free(broker->connections->retry);
	broker->connections->retry = NULL;
	if (broker->connections->reserved >= 0)
		close(broker->connections->reserved);
}
