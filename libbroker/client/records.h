/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - a client's records: which buffer each stands for, who waits for it to change, and which serve again.
 *
 * Owns the pool of records and the states that a record passes through, from a request to its release. All of it is under
 * the client's lock. Never opens or closes a mapping, and sends nothing.
 */
#ifndef GPUB_RECORDS_H
#define GPUB_RECORDS_H

#include <stdint.h>
#include <time.h>

#include "record.h"

struct gpub_client;
struct wire_message;

/* A record in state NONE for this key, in the table. NULL and the sentence when memory is short. Locked. */
struct record *record_bind(struct gpub_client *client, const char *name, unsigned index);

/* Takes it out of the table, if it is in: lookups do not find it any more. Locked. */
void record_detach(struct gpub_client *client, struct record *record);

/*
 * State NONE, out of the table, on no mapping, ready for another buffer. Who waits for it is told why (0: it was closed) and
 * woken. Locked.
 */
void record_release(struct gpub_client *client, struct record *record, int error, const char *text);

/* Lists a waiter for the record to leave its present state. The lock may then be given up. Locked. */
void record_wait_begin(struct record *record, struct waiter *waiter);

/* It waits no more. Locked. */
void record_wait_end(struct record *record, struct waiter *waiter);

/*
 * Waits for that, at most to the deadline (NULL: for ever); the waiter is off the list then. -ETIMEDOUT, the
 * error that the record was released with, or 0: look again. Locked; gives the lock up meanwhile.
 */
int record_wait(struct gpub_client *client, struct record *record, struct waiter *waiter,
		const struct timespec *deadline);

/* The device looks for writes behind the buffer from here on, and no more. Locked. */
void record_watch(struct gpub_client *client, struct record *record, uint64_t room);
void record_unwatch(struct gpub_client *client, struct record *record);

/*
 * Its mapping failed to close: out of the table, on no mapping, and CLOSING for ever; its grant ends with this process.
 * Who waits is told. Locked.
 */
void record_leak(struct gpub_client *client, struct record *record, int error, const char *text);

/* Its buffer is unlinked. Locked. */
void record_unlinked(struct gpub_client *client, struct record *record);

/*
 * REQUESTED by that message, whose number is filled in, and which is to be sent; the waiter waits for its answer. Locked.
 */
void record_request_begin(struct gpub_client *client, struct record *record, struct waiter *waiter,
			  struct wire_message *message);

/* The record that waits for this request; NULL. Locked. */
struct record *record_of_request(struct gpub_client *client, uint64_t request);

#endif
