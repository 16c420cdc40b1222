/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.c - see refusal.h */
#include "refusal.h"

#include <sys/socket.h>

#include "broker/base/context.h"
#include "broker/base/log.h"
#include "common/error.h"
#include "common/socket.h"

/* Whoever is refused may come back as often as it likes: one line a second says how many there were. */
static void tell_refused(struct refusals *refusals)
{
	struct timespec now;

	refusals->count++;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec == refusals->told)
		return;
	if (refusals->count == 1)
		log_line("a connection is refused: %s", error_text());
	else
		log_line("%u connections were refused since the last such line; the last one: %s", refusals->count,
			 error_text());
	refusals->count = 0;
	refusals->told = now.tv_sec;
}

void connection_refuse(struct broker *broker, int fd, int error)
{
	struct wire_message message;

	broker->counters.sessions_refused++;
	broker_changed(broker);
	broker_publish(broker);
	wire_refuse(&message, 0, error, error_text());
	socket_send(fd, &message, -1, MSG_DONTWAIT);
	tell_refused(broker->refusals);
}
