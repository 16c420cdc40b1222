/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - a client's records: the buffer of each, the callers that wait for it, and the free list.
 *
 * Owns the pool of records and their states, from a request to the release. All of it is under the client's lock. Never
 * opens or closes a mapping, and sends nothing.
 */
#ifndef GPUB_RECORDS_H
#define GPUB_RECORDS_H

#include <stdint.h>
#include <time.h>

#include "record.h"

struct gpub_client;
struct wire_message;

/* A record in state NONE for this key, in the table. NULL, with the error message: memory is short. Locked. */
struct record *record_bind(struct gpub_client *client, const char *name, unsigned index);

/* Takes it out of the table, if it is there: look-ups no longer find it. Locked. */
void record_detach(struct gpub_client *client, struct record *record);

/*
 * State NONE, out of the table, on no mapping, in the free list. Its waiters get the error (0: it was closed) and are
 * woken. Locked.
 */
void record_release(struct gpub_client *client, struct record *record, int error, const char *text);

/* Lists a waiter for the record to leave its present state. From then on the lock may be released. Locked. */
void record_wait_begin(struct record *record, struct waiter *waiter);

/* Takes the waiter off the list. Locked. */
void record_wait_end(struct record *record, struct waiter *waiter);

/*
 * Waits for that until the deadline (NULL: none), and takes the waiter off the list. -ETIMEDOUT, -EINTR, the error that the
 * record was released with, or 0: look at the record again. Locked; releases the lock meanwhile.
 */
int record_wait(struct gpub_client *client, struct record *record, struct waiter *waiter,
		const struct timespec *deadline);

/* Its leases may use that view from now on, if it is mapped; the device checks for writes behind the buffer. Locked. */
void record_view(struct gpub_client *client, struct record *record, enum view view);
/* The device stops checking. Locked. */
void record_unwatch(struct gpub_client *client, struct record *record);

/*
 * Its mapping failed to close: out of the table, on no mapping, CLOSING for good. The grant ends with this process. Its
 * waiters get the error. Locked.
 */
void record_leak(struct gpub_client *client, struct record *record, int error, const char *text);

/* Notes that its buffer is unlinked: the record is due to be retired. Locked. */
void record_unlinked(struct gpub_client *client, struct record *record);

/* State REQUESTED. Fills in the number of the message, which the caller must send; the waiter waits for the answer. Locked. */
void record_request_begin(struct gpub_client *client, struct record *record, struct waiter *waiter,
			  struct wire_message *message);

/* The broker gave its use those rights, too: unless a seal came in between, leases may have them. Locked. */
void record_add_rights(struct record *record, unsigned rights);

/* Its buffer is sealed: no lease gets GPUB_WRITE any more. Locked. */
void record_seal(struct record *record);

/* The record that waits for the answer to this request, or NULL. Locked. */
struct record *record_of_request(struct gpub_client *client, uint64_t request);

#endif
