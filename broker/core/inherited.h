/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inherited.h - the descriptors that the keeper had for the broker before this one, which a load takes (load.h).
 *
 * A broker inherits the keeper's table (keeper/kept.h) with the descriptors. What the load takes stays at the keeper
 * for the next broker, and is not sent there again. What no record names is closed here and at the keeper. Device
 * memory may be among it, so no loop makes the last close: a thread closes here when the keeper has closed. Descriptors
 * of other kinds than the first four of enum kept_kind stay in the table. Owns what it remembers, not the table.
 *
 * The order is: note_go_on(), keep_begin(), load_ledger() with inherited_descriptors(), inherited_loaded(),
 * note_loaded(), if the ledger is a new one its PUT at the keeper, and inherited_close().
 */
#ifndef GPUB_INHERITED_H
#define GPUB_INHERITED_H

#include "load.h"

struct inherited_key;
struct keep;
struct kept;

/* All zeroes but for the table at the beginning. */
struct inherited {
	struct kept          *kept;
	struct inherited_key *taken; /* keys of what was taken, and is not known to belong to an object */
};

/* For load_ledger(). */
struct kept_descriptors inherited_descriptors(struct inherited *inherited);

/* Tells `keep` which descriptors of the loaded objects the keeper has. */
void inherited_loaded(struct inherited *inherited, struct keep *keep);

/*
 * Drops at the keeper, and closes, what no object has. Without memory, or without a thread, it stays open until this
 * process ends, which the log says.
 */
void inherited_close(struct inherited *inherited, struct keep *keep);

/* Frees what it remembers. */
void inherited_forget(struct inherited *inherited);

#endif
