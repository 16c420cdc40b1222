/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.h - the broker core: one control loop that serves sessions and keeps the books.
 *
 * Owns everything below it: the board, the registry, the sessions, the device threads, the status file. Runs
 * in one thread that never blocks: no device call, no waiting send, no waiting for a client. broker-run and
 * brokerd are programs around it.
 *
 *     socket -> connections.c -> session.c -> request.c  -> registry.c -> (hooks) -> workers.c
 *                                turns.c      creation.c    accounting.c             status.c
 *                                             waiting.c     timeline.c, marks.c
 *                                             create-queue.c
 *                                             manage.c, delegation.c
 */
#ifndef GPUB_BROKER_H
#define GPUB_BROKER_H

#include <event2/event.h>

#include "broker/users/access.h"
#include "broker/users/accounting.h"
#include "broker/registry/board-owner.h"
#include "common/name.h"
#include "common/socket.h"
#include "broker/session/connections.h"
#include "broker/base/counters.h"
#include "broker/request/create-queue.h"
#include "broker/request/delegation.h"
#include "broker/session/discard.h"
#include "broker/registry/marks.h"
#include "broker/memory/pool.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/status/status.h"
#include "broker/session/turns.h"
#include "broker/request/waiting.h"
#include "broker/memory/workers.h"

struct broker_config {
	char     instance[INSTANCE_SIZE];
	char     device[16];       /* "auto", "cuda", "host", "host:N" */
	uint32_t buffers, tickets; /* places in the board */
	bool     several_users;    /* others than the broker's own are to be served */
	enum believe believe;
	uint64_t     pool; /* bytes of freed memory that are kept for later buffers, a device */
	unsigned     poll_us; /* after a message the loop looks for the next one for so long before it sleeps */
	struct access_list creators;
	struct quotas      quotas;
};

/* Everybody, without bounds, on "auto", nothing kept: for the broker's own user alone. */
void broker_config_init(struct broker_config *config);

#define BROKER_POLL_MAX 1000000 /* us */
#define BROKER_BUFFERS 4096
#define BROKER_TICKETS 16384
#define BROKER_POOL    (64ull << 20) /* what the programs have it keep, unless told */

struct broker {
	struct broker_config config;
	struct event_base   *base;
	const struct device *device;
	struct board_owner   board;
	struct accounting    accounting;
	struct turns         turns;
	struct delegation    delegation;
	struct discard       discard;
	struct registry      registry;
	struct pool          pool;
	struct marks         marks; /* of the timelines that have ended */
	struct workers       workers;
	struct connections   connections;
	struct sessions      sessions;
	struct waiting       waiting;
	struct create_queues creates; /* that wait for memory */
	struct status        status;
	struct counters      counters;
	struct event        *listener;
	struct socket_packet packet; /* that is being heard */
	struct staged        staged; /* answers to the messages that are being handled */
	bool                 stopping;
	uint64_t             heard_us; /* when somebody was heard last, where that matters */
	bool                 over; /* broker_loop() returns: event_base_loopexit() would want memory for that */
	void (*idle)(void *context); /* called when stopping and the books are empty */
	void                *idle_context;
};

/* Listens on the socket that the caller made; device calls begin here. 0 or negative errno, sentence set. */
int broker_init(struct broker *broker, const struct broker_config *config, struct event_base *base, int listener);

/* Ends the sessions and the threads. What is still granted stays the driver's until this process exits. */
void broker_deinit(struct broker *broker);

/*
 * One pass: serves the fair queue, does some of the work that was put off, then what the loop has. wait: for something to
 * happen first.
 */
void broker_pass(struct broker *broker, bool wait);

/* A session was heard. */
void broker_heard(struct broker *broker);

/* Passes until somebody ends the event base's loop. */
void broker_loop(struct broker *broker);

/* New quotas and creators, as of config; what they point to stays the caller's and must stay. */
void broker_configure(struct broker *broker, const struct quotas *quotas, const struct access_list *creators);

/* Keeps that much freed memory of each device from now on; what is beyond is given back. */
void broker_keep(struct broker *broker, uint64_t bytes);

/* Makes a buffer that belongs to the broker's own user. Completes in the loop; done gets 0 or the errno. */
int broker_create(struct broker *broker, const char *name, uint64_t size, unsigned device, unsigned flags,
		  unsigned mode, void (*done)(void *context, int error, const char *text), void *context);

/* Takes the name of a LIVE buffer away, whoever asks for it. */
void broker_unlink(struct broker *broker, struct buffer *buffer);

/* Takes every name away; idle() follows when nothing is left. No new buffers from then on. */
void broker_stop(struct broker *broker, void (*idle)(void *context), void *context);

/* The books changed: the status file follows, and a stopping broker looks whether it is done. */
void broker_changed(struct broker *broker);

/* How many buffers that became live are over: their memory is freed, or serves others. */
uint64_t broker_buffers_over(const struct broker *broker);

/* True when everything made is freed and every grant is over. */
bool broker_balanced(const struct broker *broker);

#endif
