/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - the parts of one broker, by pointers: how one part finds another.
 *
 * core/broker.c makes the parts and ends them; they are in struct core, which is the program's. A part includes this header
 * and the headers of the parts below it that it uses. It never calls a part above it: that part registers a callback. All of
 * it belongs to the control loop's thread.
 */
#ifndef GPUB_CONTEXT_H
#define GPUB_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "counters.h"
#include "histograms.h"

struct access_list;
struct accounting;
struct board_owner;
struct broker_config;
struct connections;
struct core;
struct create_queues;
struct delegation;
struct device;
struct discard;
struct events;
struct fair_queue;
struct event_base;
struct inquiry;
struct marks;
struct memory;
struct pool;
struct tracking;
struct registry;
struct session;
struct sessions;
struct status;
struct waiting;
struct workers;

struct broker {
	struct event_base   *base;
	const struct device *device;
	struct board_owner  *board;
	struct accounting   *accounting;
	struct memory       *memory;
	struct registry     *registry;
	struct marks        *marks; /* of the timelines that have ended */
	struct workers      *workers;
	struct pool         *pool;
	struct discard      *discard;
	struct connections  *connections;
	struct fair_queue   *queue;
	struct sessions     *sessions;
	struct delegation   *delegation;
	struct waiting      *waiting;
	struct inquiry      *inquiry;
	struct create_queues *creates; /* that wait for memory */
	struct status       *status;
	struct events       *events;  /* events.h; NULL: nobody asks what happened */
	struct tracking      *tracking; /* which objects the status file has yet to follow */
	struct broker_config *config;   /* core/broker.h */
	struct core         *core;
	const struct access_list *creators;
	struct counters      counters;
	struct histograms    histograms;
	bool                 several_users; /* others than the broker's own are served */
	bool                 stopping;
	bool                 changed;  /* something that people see: core/broker.c acts on it once a pass */
	bool                 unpublished; /* what changed may not be in the status file yet */
	uint64_t             received; /* when a session last sent something: now_ns(CLOCK_MONOTONIC) */
	void (*publish)(struct broker *broker); /* status/: NULL, or writes what changed to the status file */
	int (*snapshot)(struct session *session, uint64_t request); /* status/: begins to send a client what its user may see */
};

/* A counter or a part changed: the status file's header follows, and a stopping broker checks if it is done. */
static inline void broker_changed(struct broker *broker)
{
	broker->changed = broker->unpublished = true;
}

/* An answer is about to be sent, or the loop about to sleep: people see from now on what was done. */
static inline void broker_publish(struct broker *broker)
{
	if (broker->publish)
		broker->publish(broker);
}

#endif
