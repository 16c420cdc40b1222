/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - round trips: the caller's thread sends a request, and the reader (receiver.h), which may be the caller, gets
 * the reply.
 *
 * Owns the list of calls in progress. Reads the socket only as the reader.
 */
#ifndef GPUB_CALL_H
#define GPUB_CALL_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

#define GRACE_MS 10000 /* added to a timeout that the broker itself keeps: beyond that it is stopped or overloaded */

/*
 * Sends the messages and waits until answered(), which is called under the lock, is true. Meanwhile the caller is the
 * reader, if no other thread is. Locked; releases the lock meanwhile. 0; -ETIMEDOUT: the deadline (NULL: none) has
 * passed; -ECONNRESET: the broker is gone. -EINTR: this thread's interrupt.h says so, and the broker was told to cancel
 * the messages; they are answered, unless the broker has not done so within GRACE_MS.
 */
int call_exchange(struct gpub_client *client, const struct wire_message *messages, unsigned count,
		  bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline);

/*
 * Sends the request (its number is filled in) and waits for the reply. 0 and *reply, or the errno and error message of
 * the broker's refusal. *fd (fd may be NULL): the descriptor that came with the reply; -1: none. -ETIMEDOUT: the
 * deadline (NULL: none) has passed; a reply that still comes is dropped.
 */
int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline);

/* call_broker() for a message that is the name of a buffer alone. Checks client and name. */
int call_named(struct gpub_client *client, enum wire_type type, const char *name, struct wire_message *reply);

/*
 * The same for a request that is answered by a file (PART, VIEW). *file: a file in this process's memory of view->size
 * bytes, now the caller's descriptor. -ETIMEDOUT: the broker takes more than a minute. Else also why the file cannot be
 * kept.
 */
int call_for_file(struct gpub_client *client, struct wire_message *request, int *file, struct wire_view *view);

#endif
