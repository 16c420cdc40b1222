/* SPDX-License-Identifier: Apache-2.0 */
/* stand-in.c - in place of brokerd until it is there: stand-in SOCKET INSTANCE serves several users with the arena's quotas. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "broker/broker.h"
#include "common/error.h"
#include "common/socket.h"

static struct broker broker;
static struct event_base *base;

static void on_idle(void *context)
{
	(void)context;
	event_base_loopexit(base, NULL);
}

static void on_term(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	(void)context;
	broker_stop(&broker, on_idle, NULL);
}

int main(int argc, char **argv)
{
	struct broker_config config;
	struct event *term;
	int listener, balanced;
	uint64_t *limit = config.quotas.fallback.limit;

	if (argc != 3)
		return 2;
	broker_config_init(&config);
	strcpy(config.instance, argv[2]);
	strcpy(config.device, "host");
	config.several_users = true;
	limit[RESOURCE_BYTES] = ARENA_QUOTA;
	limit[RESOURCE_BUFFERS] = ARENA_BUFFERS;
	limit[RESOURCE_SESSIONS] = ARENA_SESSIONS;
	limit[RESOURCE_GRANTS] = ARENA_GRANTS;
	limit[RESOURCE_TICKETS] = ARENA_TICKETS;
	limit[RESOURCE_GREETINGS] = ARENA_GREETINGS;
	base = event_base_new();
	listener = socket_listen(argv[1], 0666);
	if (listener < 0 || broker_init(&broker, &config, base, listener)) {
		fprintf(stderr, "%s\n", error_text());
		return 1;
	}
	term = evsignal_new(base, SIGTERM, on_term, NULL);
	event_add(term, NULL);
	broker_loop(&broker);
	balanced = broker_balanced(&broker);
	broker_deinit(&broker);
	event_free(term);
	event_base_free(base);
	return !balanced;
}
