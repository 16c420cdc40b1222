/* SPDX-License-Identifier: Apache-2.0 */
/*
 * takeover.h - a broker with a keeper: what it does at its begin to take over what the broker before it left, and what
 * it has kept for the one after it.
 *
 * The keeper has the descriptors of the last broker, and memory that both share (keeper/keeper.h). If there is a ledger
 * among them, this broker goes on where that one was. If there is none, that one died before it served anybody, and
 * what it left is closed. Owns the line to the keeper, the note and what has the noted descriptors kept. A broker
 * without a keeper has none of it, and all of it ends with its process.
 */
#ifndef GPUB_TAKEOVER_H
#define GPUB_TAKEOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/core/inherited.h"
#include "broker/core/keep.h"
#include "broker/core/note.h"
#include "broker/keeper/line.h"

struct broker;
struct keeper_end;
struct owner_setup;

/* All zeroes without a keeper. */
struct takeover {
	struct keeper_end *from;      /* what the keeper has given; NULL: there is no keeper */
	struct line        line;      /* to the keeper */
	struct event      *alive;     /* timer: the loop does not sleep for longer than the watchdog waits */
	bool               goes_on;   /* there is a ledger of the broker before this one */
	struct note        note;
	struct keep        keep;
	struct inherited   inherited; /* what was not taken yet */
	unsigned           objects;   /* number of objects that were taken over */
};

/*
 * Opens the line to the keeper. Closes what a broker left that served nobody. from: what the keeper has given; NULL:
 * there is no keeper. Returns 0, or a negative errno with the error message set.
 */
int takeover_begin(struct broker *broker, struct keeper_end *from);
void takeover_end(struct broker *broker);

/* Gives a descriptor of the broker before this one to the caller; -1: it has left none. The keeper keeps its own. */
int takeover_take(struct broker *broker, enum kept_kind kind);

/* Has the next broker get the descriptor, which stays the caller's, in place of one of the same kind. */
void takeover_put(struct broker *broker, enum kept_kind kind, int fd);

/*
 * Joins the owner of the broker before this one. If there is none any more, starts one, which takes over the memory
 * that is left. Returns as devices_start().
 */
int takeover_devices(struct broker *broker, const struct owner_setup *setup);

/*
 * Loads the ledger of the broker before this one, goes on with it or begins a new one, and goes on where that broker
 * was; then tells the keeper that this broker is ready. Called when all parts of the broker have begun. Returns 0, or a
 * negative errno with the error message set.
 */
int takeover_go_on(struct broker *broker);

/* Notes nothing any more, and nothing waits for the keeper. Called before any part ends. */
void takeover_stop(struct broker *broker);

/* Tells the keeper that the loop begins another pass. Does nothing without a keeper. */
void takeover_mark(const struct broker *broker);

/* Notes the changes. Does nothing without a keeper. */
void takeover_note(struct broker *broker);

#endif
