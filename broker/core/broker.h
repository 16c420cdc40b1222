/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker.h - makes a broker of its parts and runs its control loop.
 *
 * Owns all parts of one broker (struct core; base/context.h has pointers to the parts). Makes them in order, connects
 * lower parts to higher ones by callbacks, and ends them in reverse order. The loop runs in one thread, which never
 * blocks: no device call, no send that waits, no wait for a client. The devices are another process's
 * (devices.h). broker-run and brokerd are programs around a broker. Folders, each of which may call those to its
 * right:
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
#include "broker/base/master-key.h"
#include "broker/core/names.h"
#include "broker/core/takeover.h"
#include "broker/memory/memory.h"
#include "broker/memory/pool.h"
#include "broker/registry/registry.h"
#include "broker/session/session.h"
#include "broker/status/status.h"
#include "broker/session/fair-queue.h"
#include "broker/request/waiting.h"
#include "broker/memory/jobs.h"
#include "broker/core/devices.h"

struct broker_config {
	char     instance[INSTANCE_SIZE];
	char     device[DEVICE_CHOICE_SIZE];     /* "auto", "cuda", "host", "host:N" */
	uint32_t buffers, handles; /* number of buffers' words, and of handle places, in the board */
	bool     several_users;    /* true: users other than the broker's own are served */
	bool     keeps_events;     /* if the broker is killed, its events are kept for the next broker of its name */
	char     launcher[STATUS_LAUNCHER_SIZE]; /* name of the launcher that started the program; empty: none */
	char     job_id[STATUS_JOB_SIZE];        /* the launcher's job that the program belongs to; empty: none */
	enum trust trust;
	/*
	 * kind of export of buffers that need no certain one; export_count: $GPUBROKER_EXPORT is invalid, broker_init()
	 * fails
	 */
	unsigned exported;
	uint64_t     pool; /* largest amount of spare memory (pooled and idle) on each device, in bytes */
	unsigned     poll_us;        /* microseconds after a message during which the loop polls instead of sleeping */
	struct access_list creators; /* users that may create buffers */
	struct quotas      quotas;
	struct keeper_end *keeper; /* what this broker's keeper has given; NULL: in a unit test (takeover.h) */
	const struct owner_place *owner; /* without a keeper: where the owner of the devices runs (owner/process.h) */
	struct board_owner board;  /* of board_reserve(); valid if there is a keeper */
};

/* Sets the defaults: all users may create buffers, with quota_init()'s quotas, on "auto"; no spare memory is kept. */
void broker_config_init(struct broker_config *config);

#define BROKER_POLL_MAX 1000000 /* largest poll_us */
#define VALUE_POLL      NUMBER("number of microseconds", 0, BROKER_POLL_MAX)
#define VALUE_BUFFERS   NUMBER("count of buffers", 1, BOARD_BUFFERS_MAX)
#define VALUE_MAPPINGS  NUMBER("count of mappings", 1, BOARD_HANDLES_MAX)

#define BROKER_BUFFERS 4096
#define BROKER_HANDLES 16384
#define BROKER_POOL    (64ull << 20) /* default of broker_config.pool in broker-run and brokerd */

/* All parts of one broker, and the state of its loop. */
struct core {
	struct broker_config config;
	int                  listener; /* the socket that broker_init() was given */
	struct devices       devices;
	struct board_owner   board;
	struct accounting    accounting;
	struct memory        memory;
	struct registry      registry;
	struct marks         marks;
	struct jobs          jobs;
	struct pool          pool;
	struct discard       discard;
	struct connections   connections;
	struct fair_queue    queue;
	struct sessions      sessions;
	struct master_key    master;
	struct delegation    delegation;
	struct waiting       waiting;
	struct create_queues creates;
	struct inquiry       inquiry;
	struct status        status;
	struct events        events;
	struct takeover      takeover;
	struct names         names; /* names in the file system that are made again when somebody removes them */
	/* broker_quit() was called, so broker_loop() returns; event_base_loopexit() would need memory for that */
	bool                 over;
	/* called when the broker is stopping and no memory and no device work is left */
	void (*drained)(void *context);
	void                *drained_context;
};

/* Sets all pointers of *broker to the parts in *core. For broker_init() and tests. */
void broker_join(struct broker *broker, struct core *core);

/*
 * Makes all parts and listens on the socket that the caller made. The process makes no device call before this one.
 * The caller owns broker and core, and keeps both until broker_deinit(). Returns 0 or a negative errno with the error
 * message set.
 */
int broker_init(struct broker *broker, struct core *core, const struct broker_config *config, struct event_base *base,
		int listener);

/*
 * Replaces the listening socket `former`, whose path was removed, by `listener`, and closes `former`. Sessions stay
 * connected. Returns 1, or a negative errno with the error message set, and then the broker still listens on `former`;
 * -EAGAIN: connections wait in `former` that cannot be accepted now.
 */
int broker_listen(struct broker *broker, int listener, int former);

/*
 * Ends all parts, with sessions and threads, but for a thread of discard.c whose close hangs. The driver frees memory
 * that clients still map when this process has exited and they have closed it. Returns 0, or -EIO with the error
 * message set: the owner of the device memory did not end as it should, as if it had found writes into freed memory.
 */
int broker_deinit(struct broker *broker);

/*
 * Runs one pass of the loop: serves the fair queue, does a part of the deferred work, then handles the pending events,
 * unless broker_quit() was called. If wait is true and no work is left, waits for at least one event.
 */
void broker_pass(struct broker *broker, bool wait);

/* Runs passes until broker_quit() is called. The log does not wait during the loop. */
void broker_loop(struct broker *broker);
void broker_quit(void *broker);

/* Replaces quotas and creators. The caller owns the arrays that both point to, and keeps them while they are used. */
void broker_configure(struct broker *broker, const struct quotas *quotas, const struct access_list *creators);

/*
 * Sets the largest amount of spare memory (pooled and idle) on each device, in bytes, and gives back what exceeds it.
 */
void broker_keep(struct broker *broker, uint64_t bytes);

/*
 * Has none(context) called when the owner of the device memory has ended before the broker, and no other one starts. No
 * memory can be made or freed then, so the program ends.
 */
void broker_when_no_owner(struct broker *broker, void (*none)(void *context), void *context);

/*
 * Stops the broker: unlinks every LIVE buffer now and each other one when it is made, ends all waits except drains, and
 * refuses creates and resizes from now on. drained(), such as broker_quit(), is called when no memory and no device
 * work is left.
 */
void broker_stop(struct broker *broker, void (*drained)(void *context), void *context);

/*
 * Returns the number of buffers that became live and have ended: their memory was freed or pooled, or is zeroed for
 * other buffers.
 */
uint64_t broker_buffers_ended(const struct broker *broker);

/* Returns true if no allocation is left, and by the counters all allocations were freed and all mappings have ended. */
bool broker_balanced(const struct broker *broker);

#endif
