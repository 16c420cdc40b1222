/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - a client's records: the buffer of each, the callers that wait for it, and the free list.
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

/* Makes a record in state NONE for this name and device, in the table. NULL: out of memory, with the message set. */
struct record *record_bind(struct gpub_client *client, const char *name, unsigned index);

/* Removes the record from the table, if it is in the table: look-ups do not find it any more. */
void record_detach(struct gpub_client *client, struct record *record);

/*
 * Sets state NONE, takes the record out of table and mapping, puts it into the free list, and wakes its waiters.
 * Their record_wait() returns error with text; error 0: the buffer was closed.
 */
void record_release(struct gpub_client *client, struct record *record, int error, const char *text);

/* Adds a waiter for the record to leave its present state. From then on the caller may release the lock. */
void record_wait_begin(struct record *record, struct waiter *waiter);

/* Removes the waiter from the record's list. */
void record_wait_end(struct record *record, struct waiter *waiter);

/*
 * Waits until the record leaves the state that it had at record_wait_begin(), and removes the waiter. 0: look at the
 * record again; the error that the record was released with; -ETIMEDOUT: the deadline (NULL: none) has passed; or
 * -EINTR. Releases client->lock meanwhile.
 */
int record_wait(struct gpub_client *client, struct record *record, struct waiter *waiter,
		const struct timespec *deadline);

/* Lets leases use the view from now on, if it is mapped, and has the device check for writes beyond the buffer. */
void record_view(struct gpub_client *client, struct record *record, enum view view);
/* Has the device end the checks of all views. */
void record_unwatch(struct gpub_client *client, struct record *record);

/*
 * For a record whose mapping failed to close: takes it out of table and mapping, and leaves it CLOSING for good. The
 * mapping ends in the broker with this process. The waiters' record_wait() returns error with text.
 */
void record_leak(struct gpub_client *client, struct record *record, int error, const char *text);

/* Notes that the record's buffer is unlinked: the record is due to be retired. */
void record_unlinked(struct gpub_client *client, struct record *record);

/* Sets state REQUESTED, numbers the message, which the caller must send, and adds a waiter for the answer. */
void record_request_begin(struct gpub_client *client, struct record *record, struct waiter *waiter,
			  struct wire_message *message);

/* Lets leases have rights that the broker has added; without GPUB_WRITE if the buffer was sealed meanwhile. */
void record_add_rights(struct record *record, unsigned rights);

/* Notes that the record's buffer is sealed: no lease gets GPUB_WRITE any more. */
void record_seal(struct record *record);

/* The record that waits for the answer to this request, or NULL. */
struct record *record_of_request(struct gpub_client *client, uint64_t request);

#endif
