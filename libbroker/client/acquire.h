/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acquire.h - the slow path of an acquire: asks the broker, or waits for another thread that does.
 *
 * One thread requests a buffer (REQUESTED); the others wait for its record to change. The thread that reads the socket opens
 * the handle. A record whose buffer was unlinked leaves the table to be retired, and the name gets a new record. Owns nothing.
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
 * Requests the buffer of a record in state NONE with that message, fills in its number, and waits until the record
 * changes. Returns what record_wait() returns. Locked; releases the lock meanwhile.
 */
int record_ask(struct gpub_client *client, struct record *record, struct wire_message *message,
	       const struct timespec *deadline);

/* An ACQUIRE with any owner, without its number. Returns message. */
struct wire_message *acquire_fill(struct wire_message *message, const struct table_key *key, unsigned rights,
				  int timeout_ms);

/* Holds the buffer of that name for a device, if it is as expected (NULL: whatever it is), and asks the broker if needed. */
int acquire_slow(struct gpub_client *client, const char *name, unsigned index, const gpub_expectation *expected,
		 unsigned rights, int timeout_ms, gpub_lease *lease);

/* The same without a trace range of its own (trace.h). */
int acquire_untraced(struct gpub_client *client, const char *name, unsigned index, unsigned rights, int timeout_ms,
		     gpub_lease *lease);

#endif
