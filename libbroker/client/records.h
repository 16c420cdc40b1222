/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - a client's records: which buffer each record is for, which callers wait for it, and the free list.
 *
 * Owns the pool of records and their states, from a request to the release. All functions are called under
 * client->lock. Never opens or closes a mapping, and sends nothing.
 */
#ifndef GPUB_RECORDS_H
#define GPUB_RECORDS_H

#include <stdint.h>
#include <time.h>

#include "record.h"

struct gpub_client;
struct wire_message;

/*
 * Takes a new or free record in state NONE for this name and device, and adds it to the table. index: the broker's
 * index of the device. NULL, error message set: out of memory.
 */
struct record *record_bind(struct gpub_client *client, const char *name, unsigned index);

/* Removes the record from the table, if it is in the table: look-ups do not find it any more. */
void record_detach(struct gpub_client *client, struct record *record);

/*
 * Sets the record's state NONE, takes it out of table and mapping, puts it into the free list, and wakes its waiters.
 * Their record_wait() returns `error` with `text` as the error message; error 0: the buffer was closed.
 */
void record_release(struct gpub_client *client, struct record *record, int error, const char *text);

/*
 * Adds *waiter to the record's waiters, to wait until the record leaves its present state. From then on the caller may
 * release client->lock.
 */
void record_wait_begin(struct record *record, struct waiter *waiter);

/* Removes *waiter from the record's waiters, if it is there. */
void record_wait_end(struct record *record, struct waiter *waiter);

/*
 * Waits until the record leaves the state that it had at record_wait_begin(), and removes the waiter. Returns 0 if the
 * caller should look at the record again; the error with which the record was released; -ETIMEDOUT if the deadline
 * (NULL: none) has passed; or -EINTR if the interrupt function interrupts. Releases client->lock meanwhile.
 */
int record_wait(struct gpub_client *client, struct record *record, struct waiter *waiter,
		const struct timespec *deadline);

/* Lets leases of the record use the view from now on, if it is mapped, and has the device watch the buffer there. */
void record_view(struct gpub_client *client, struct record *record, enum view view);
/* Has the device end its watches of the buffer in all views. */
void record_unwatch(struct gpub_client *client, struct record *record);

/*
 * For a record whose mapping failed to close: takes the record out of table and mapping, and leaves it CLOSING for
 * good. The mapping ends in the broker when this process ends. The waiters' record_wait() returns `error` with `text`
 * as the error message.
 */
void record_leak(struct gpub_client *client, struct record *record, int error, const char *text);

/* Records that the record's buffer was unlinked: adds the record to client->due, to be retired. */
void record_unlinked(struct gpub_client *client, struct record *record);

/*
 * Begins a request for the record: sets state REQUESTED, gives the message, which the caller must send, its request
 * number, and adds *waiter to the record's waiters for the answer.
 */
void record_request_begin(struct gpub_client *client, struct record *record, struct waiter *waiter,
			  struct wire_message *message);

/* Lets leases of the record have `rights`, which the broker has granted; not GPUB_WRITE if the buffer is sealed. */
void record_add_rights(struct record *record, unsigned rights);

/* Records that the record's buffer is sealed: from now on no lease of the record gets GPUB_WRITE. */
void record_seal(struct record *record);

/*
 * Returns the record for which the request with this number was sent, if the record is still REQUESTED by it, or NULL.
 */
struct record *record_of_request(struct gpub_client *client, uint64_t request);

#endif
