/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - struct broker: pointers to all parts of one broker, by which one part finds another.
 *
 * core/broker.c makes the parts and ends them. The parts themselves are in struct core, which the program owns. A
 * part includes this header and the headers of the lower parts that it uses. A part never calls a higher part: the
 * higher part registers a callback. Only the control loop's thread uses struct broker and the parts, but the threads
 * of `discard` use that part.
 */
#ifndef GPUB_CONTEXT_H
#define GPUB_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

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
struct devices;
struct takeover;
struct discard;
struct events;
struct fair_queue;
struct event_base;
struct inquiry;
struct jobs;
struct marks;
struct master_key;
struct memory;
struct note;
struct pool;
struct tracking;
struct registry;
struct session;
struct sessions;
struct status;
struct waiting;

struct broker {
	struct event_base   *base;
	const struct device *device; /* the kind's table, for its constants: the broker calls no device */
	struct devices      *devices; /* the process that has them, and what starts another one */
	struct takeover     *takeover; /* what comes from the broker before this one, and is left to the next */
	pid_t                owner_pid; /* the process that exports the memory (owner/process.h) */
	struct board_owner  *board;
	struct accounting   *accounting;
	struct memory       *memory;
	struct registry     *registry;
	struct marks        *marks; /* checks the end marks in the pages of timelines that have ended */
	struct jobs         *jobs;
	struct pool         *pool;
	struct discard      *discard;
	struct connections  *connections;
	struct fair_queue   *queue;
	struct sessions     *sessions;
	struct delegation   *delegation;
	const struct master_key *master; /* from which session keys and the ticket key are derived */
	struct waiting      *waiting;
	struct inquiry      *inquiry;
	struct create_queues *creates; /* queues of the creates that wait for memory */
	struct status       *status;
	struct events       *events;    /* log and ring of events; NULL: events are neither logged nor kept */
	struct tracking      *tracking; /* objects that the status file shows, and which of them changed */
	struct broker_config *config;   /* what the program chose at its start; declared in core/broker.h */
	struct core         *core;
	const struct access_list *creators;
	struct counters      counters;
	struct histograms    histograms;
	bool                 several_users; /* true: users other than the broker's own are served */
	bool                 stopping;
	bool                 notes;       /* the broker has a ledger, so what is under way is noted, too */
	struct note         *note;        /* the ledger; NULL: there is none */
	bool                 changed;     /* a part changed in this pass; core/broker.c clears the flag once a pass */
	bool                 unpublished; /* there may be changes that are not in the status file yet */
	/* when the latest message of any session was read, in nanoseconds of CLOCK_MONOTONIC */
	uint64_t             received;
	/* makes all changes visible: in the status file, the board, to the owner. NULL: nobody sees them */
	void (*publish)(struct broker *broker);
	/* makes changes visible to the next broker alone, in the ledger (core/note.h). NULL: there is none */
	void (*commit)(struct broker *broker);
	/* snapshot_begin(): sends the session what its user may see of the broker */
	int (*snapshot)(struct session *session, uint64_t request);
};

/* Notes a change: the status file's header is written again, and a stopping broker checks whether it is done. */
static inline void broker_changed(struct broker *broker)
{
	broker->changed = broker->unpublished = true;
}

/* Notes for the next broker what has changed. Called before the packet that changed it leaves the hand. */
static inline void broker_commit(struct broker *broker)
{
	if (broker->commit)
		broker->commit(broker);
}

/* Makes all changes visible. Called before answers are sent, and before the loop sleeps. */
static inline void broker_publish(struct broker *broker)
{
	if (broker->publish)
		broker->publish(broker);
}

#endif
