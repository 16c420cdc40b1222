/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - round trips: a request goes out on the caller's thread, its reply comes in on the reader's, which may be that.
 *
 * Owns the list of calls under way. Never reads the socket but as the reader (reader.h).
 */
#ifndef GPUB_CALL_H
#define GPUB_CALL_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

#define GRACE_MS 10000 /* beyond a timeout that the broker itself keeps: it is stopped or overloaded then */

/*
 * Sends the messages, whose answers the caller has a place for, and waits until answered(), which is asked under the lock, says so.
 * The caller is the reader meanwhile where nobody else is. Locked; gives the lock up meanwhile. 0; -ETIMEDOUT: the deadline
 * (NULL: none) has passed; -ECONNRESET: the broker is gone.
 */
int call_exchange(struct gpub_client *client, const struct wire_message *messages, unsigned count,
		  bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline);

/*
 * Sends the request (its number is filled in) and waits for the reply. 0 and *reply, or the errno and the
 * sentence that the broker refused with. fd: NULL, or where a descriptor that came is put (-1: none came).
 * -ETIMEDOUT when the deadline is past (NULL: never): a reply that still comes is dropped.
 */
int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline);

#endif
