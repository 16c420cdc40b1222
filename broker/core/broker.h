/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.h - the broker's composition and its control loop.
 *
 * Owns all parts of one broker (base/context.h has pointers to them), makes them, connects lower parts to higher ones by
 * callbacks, and ends them in reverse order. Runs in one thread that never blocks: no device call, no send that waits, no
 * wait for a client. broker-run and brokerd are programs around it.
 *
 *     request/ -> session/ -> registry/ -> memory/ -> users/ -> base/
 */
#ifndef GPUB_BROKER_H
#define GPUB_BROKER_H

#include <event2/event.h>

#include "broker/base/values.h"
#include "broker/users/access.h"
#include "broker/users/accounting.h"
#include "broker/registry/board-owner.h"
#include "common/name.h"
#include "device/select.h"
#include "common/socket.h"
#include "broker/session/connections.h"
#include "broker/base/counters.h"
#include "broker/request/create-queue.h"
#include "broker/request/inquiry.h"
#include "broker/request/delegation.h"
#include "broker/session/discard.h"
#include "broker/registry/marks.h"
#include "broker/base/context.h"
#include "broker/base/events.h"
#include "broker/core/names.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/status/status.h"
#include "broker/session/fair-queue.h"
#include "broker/request/waiting.h"
#include "broker/memory/workers.h"

struct broker_config {
	char     instance[INSTANCE_SIZE];
	char     device[DEVICE_CHOICE_SIZE];     /* "auto", "cuda", "host", "host:N" */
	uint32_t buffers, handles; /* places in the board */
	bool     several_users;    /* users other than the broker's own are served */
	bool     keeps_events;     /* a broker of that name may come again, after this one was killed */
	char     launcher[STATUS_LAUNCHER_SIZE], job_id[STATUS_JOB_SIZE]; /* that the program is part of, for the status; empty: none */
	enum trust trust;
	unsigned exported; /* the kind of export of memory; export_count: the environment says something unknown */
	uint64_t     pool; /* bytes of freed memory of each device that are kept for later buffers */
	unsigned     poll_us; /* after a message the loop polls for the next one this long before it sleeps */
	struct access_list creators;
	struct quotas      quotas;
};

/* Everybody may create, without limits, on "auto"; no freed memory is kept. */
void broker_config_init(struct broker_config *config);

#define BROKER_POLL_MAX 1000000 /* us */
#define VALUE_POLL      NUMBER("number of microseconds", 0, BROKER_POLL_MAX)
#define VALUE_BUFFERS   NUMBER("count of buffers", 1, BOARD_BUFFERS_MAX)
#define VALUE_MAPPINGS  NUMBER("count of mappings", 1, BOARD_SEALED_MAX)

#define BROKER_BUFFERS 4096
#define BROKER_HANDLES 16384
#define BROKER_POOL    (64ull << 20) /* the programs' default */

/* All parts of one broker, and what the loop itself keeps. */
struct core {
	struct broker_config config;
	int                  listener; /* the socket that broker_init() was given */
	struct board_owner   board;
	struct accounting    accounting;
	struct memory        memory;
	struct registry      registry;
	struct marks         marks;
	struct workers       workers;
	struct pool          pool;
	struct discard       discard;
	struct connections   connections;
	struct fair_queue    queue;
	struct sessions      sessions;
	struct delegation    delegation;
	struct waiting       waiting;
	struct create_queues creates;
	struct inquiry       inquiry;
	struct status        status;
	struct events        events;
	struct names         names; /* the program adds its own */
	bool                 over; /* broker_loop() returns; event_base_loopexit() would need memory for that */
	void (*drained)(void *context); /* called when stopping and the registry is empty */
	void                *drained_context;
};

/* Points the broker to the parts, which are zeroed or made already. broker_init() does it. */
void broker_join(struct broker *broker, struct core *core);

/*
 * Listens on the socket that the caller made; device calls begin here. Broker and parts are the caller's, and stay until
 * broker_deinit(). 0 or negative errno, error message set.
 */
int broker_init(struct broker *broker, struct core *core, const struct broker_config *config, struct event_base *base,
		int listener);

/*
 * Listens at another socket from now on, since the path of the former one was removed. Who is connected stays
 * connected; the former socket is closed. Returns 1, or -ENOMEM with the error message: then the former one stays.
 */
int broker_listen(struct broker *broker, int listener, int former);

/* Ends the sessions and the threads. What is still granted stays the driver's until this process exits. */
void broker_deinit(struct broker *broker);

/*
 * One pass: serves the fair queue, does some of the deferred work, then handles the events of the loop. wait: for at least
 * one event.
 */
void broker_pass(struct broker *broker, bool wait);

/* Passes until broker_quit(). Meanwhile the log never waits. */
void broker_loop(struct broker *broker);
void broker_quit(void *broker);

/* Replaces quotas and creators; the lists that they point to stay the caller's, and must stay. */
void broker_configure(struct broker *broker, const struct quotas *quotas, const struct access_list *creators);

/* Keeps that much freed memory of each device from now on; frees the rest. */
void broker_keep(struct broker *broker, uint64_t bytes);

/* Unlinks every buffer; drained(), such as broker_quit(), is called when all memory is freed. No new buffers from then on. */
void broker_stop(struct broker *broker, void (*drained)(void *context), void *context);

/* How many buffers that became live have ended: their memory is freed, or serves other buffers. */
uint64_t broker_buffers_ended(const struct broker *broker);

/* True when all allocations are freed and all grants have ended. */
bool broker_balanced(const struct broker *broker);

#endif
