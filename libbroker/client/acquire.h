/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acquire.h - the slow path of an acquire: asks the broker for the buffer, or waits for another thread's request.
 *
 * One thread requests a buffer, whose record is in state REQUESTED meanwhile. Other threads that want the buffer wait
 * until the record's state changes. The reader (receiver.h) opens the handle of the memory. If the buffer of a record
 * was unlinked, renamed or resized, the record leaves the table and is retired later, and the name gets a new record.
 * Owns nothing.
 */
#ifndef GPUB_ACQUIRE_H
#define GPUB_ACQUIRE_H

#include <stdint.h>
#include <time.h>

#include "gpubroker.h"
#include "table.h"

struct record;
struct wire_message;

/*
 * Makes a record in state NONE REQUESTED, sends the message, an ACQUIRE or a REDEEM, whose request number it fills in,
 * and waits until the record is not REQUESTED any more. Returns 0 or a negative errno with the error message set, as
 * record_wait(); -EINTR for any error after an interrupt. Call it under client->lock, which it releases while it waits.
 */
int record_ask(struct gpub_client *client, struct record *record, struct wire_message *message,
	       const struct timespec *deadline);

/*
 * Makes *message an ACQUIRE of the buffer with the key's name, whoever owns the buffer, for the key's device. Leaves
 * the request number 0. Returns `message`.
 */
struct wire_message *acquire_fill(struct wire_message *message, const struct table_key *key, unsigned rights,
				  int timeout_ms);

/*
 * Acquires the buffer of this name for the device that has index `index` in the broker. Asks the broker for what this
 * process does not have yet: the mapping, or rights. expected: owner and layout that the buffer must have; NULL: any.
 * Returns 0 and *lease, or a negative errno with the error message set.
 */
int acquire_slow(struct gpub_client *client, const char *name, unsigned index, const gpub_expectation *expected,
		 unsigned rights, int timeout_ms, gpub_lease *lease);

/* As acquire_slow() with expected NULL, but begins no trace range (trace.h), because its caller has begun a range. */
int acquire_untraced(struct gpub_client *client, const char *name, unsigned index, unsigned rights, int timeout_ms,
		     gpub_lease *lease);

#endif
