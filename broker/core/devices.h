/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices.h - the broker's side of the owner (owner/process.h): starts it, starts another one if it ends before the
 * broker, and has it look after the names of its memory.
 *
 * When an owner ends, its memory stays or ends as ended-memory.h says. Orders wait until the next owner has started,
 * and everything else goes on meanwhile.
 *
 * A broker that begins after another one has died may join the owner of that one (devices_join()). The owner lists
 * then what it has, and nothing is ordered of a device before all of its list is compared with the broker's allocations
 * (owner-lists.h). Owns the owner. The loop never waits for it, but at the start and at the end of the broker.
 */
#ifndef GPUB_DEVICES_H
#define GPUB_DEVICES_H

#include <stdbool.h>

#include <event2/event.h>

#include "broker/base/event-kinds.h"
#include "broker/owner/process.h"
#include "common/error.h"
#include "owner-lists.h"

struct broker;
struct line;
struct names;

/* All zeros before devices_open(). */
struct devices {
	const struct owner_place *place; /* where the owner runs */
	struct owner_setup        setup;
	struct owner_link         owner;
	struct owner_facts        facts; /* what the devices are */
	struct owner_facts        next;  /* what the next owner says of them */
	struct event             *gone;  /* event: the owner that is to be replaced has ended; NULL: none is */
	struct event             *begun; /* event: the next owner has sent an answer; NULL: none is starting */
	struct event             *again; /* timer: the next owner is forked */
	struct event             *ends;  /* event: the owner that serves has ended; NULL: none serves */
	bool                      serving;  /* the owner serves, or has served and is not replaced yet */
	bool                      refused;  /* the broker ends the next owner, which has an error or is late */
	bool                      crashed;  /* the last owner did not end in order when the broker asked it to */
	double                    since;    /* CLOCK_MONOTONIC in s when the owner began to serve */
	uint64_t                  answered; /* jobs.answered at that time */
	unsigned                  strikes;  /* against the owners that ended last */
	bool                      failed;   /* no other owner is started */
	/* called when no other owner is started; NULL: nothing is to be done */
	void (*when_failed)(void *context);
	void                     *context;
	bool                      joined; /* the owner has served another broker, and lists what it has */
	bool                      unlisted; /* there was no memory for the owner's list */
	struct owner_lists        lists; /* of memory that the owner has, until a list ends */
	struct names             *names; /* has names checked again after devices_look_at_names() */
	/* what the owner said of the names of its memory */
	struct {
		bool asked;   /* an order is under way */
		bool again;   /* the names were to be checked meanwhile */
		int  result;  /* 1: names were made again; negative errno: they cannot be; 0: none is missing */
		char text[ERROR_TEXT_MAX];
	} memory_names;
};

/*
 * Prepares the place where owners run. Called before this process has keys, clients or threads. line, runs: for
 * owner_link.line and .runs. Returns 0 or a negative errno with the error message set.
 */
int devices_open(struct broker *broker, const struct owner_place *place, struct line *line, bool runs);

/* Undoes devices_open(). */
void devices_close(struct broker *broker);

/*
 * Starts the owner and has it start the devices, and sets broker->device. Returns 0, or a negative errno with the error
 * message set, and then the owner has ended.
 */
int devices_start(struct broker *broker, const struct owner_setup *setup);

/*
 * Joins an owner that lives on after its broker has died, instead of devices_start(). sock: a duplicate of that
 * broker's end of the owner's socket, owned by this function from now on. number: as in owner_link_join(). The names
 * of its memory stay. Returns 0, or a negative errno with the error message set; -ECONNRESET: the owner has ended.
 * Then no owner is joined, and if that one still runs, the caller has it ended before it calls devices_start().
 * board_restore() compares the devices with those of the broker before. What the ledger has is loaded before the loop
 * runs, because the loop compares it with the owner's list.
 */
int devices_join(struct broker *broker, int sock, uint64_t number, const struct owner_setup *setup);

/*
 * Instead of devices_join() if that owner has ended: starts one as devices_start() does, and joins it as that broker's,
 * so that it takes over the memory that is left. number: as in owner_link_join(). Returns as devices_start().
 */
int devices_start_empty(struct broker *broker, uint64_t number, const struct owner_setup *setup);

/* Begins to send jobs, and to start another owner when one ends. Returns 0, or -ENOMEM with the error message set. */
int devices_serve(struct broker *broker);

/* Sends the orders that are left, and no further ones. */
void devices_serve_end(struct broker *broker);

/* Ends the owner, and waits for it. Does nothing if there is none. */
void devices_end(struct broker *broker);

/*
 * Has the owner restore the names of the host device's memory, if somebody removed them; a names_look, which returns
 * what the owner said last.
 */
int devices_look_at_names(void *broker, char text[EVENT_TEXT_MAX]);

#endif
