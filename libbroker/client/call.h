/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - round trips to the broker: a thread sends a request and waits until the reader (receiver.h), which may be
 * the same thread, has received the reply.
 *
 * Owns the list of calls in progress. A thread reads the socket only while it is the reader.
 */
#ifndef GPUB_CALL_H
#define GPUB_CALL_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

#define GRACE_MS 10000 /* ms beyond a request's own timeout, after which the broker counts as stopped or overloaded */

/*
 * Sends `count` messages and waits until answered(), which is called under client->lock, returns true. The calling
 * thread is the reader meanwhile, if no other thread is. Returns 0; -ETIMEDOUT if the deadline (NULL: none) has
 * passed; -ECONNRESET if the connection is lost; or -EINTR if this thread's interrupt function (interrupt.h) ended
 * the wait. Before -EINTR it tells the broker to cancel the requests and waits for the answers, at most GRACE_MS and
 * until the function interrupts again. Under client->lock, which is released meanwhile.
 */
int call_exchange(struct gpub_client *client, const struct wire_message *messages, unsigned count,
		  bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline);

/*
 * Fills in the request's number, sends the request, and waits for the reply. Returns 0 and *reply; or a negative
 * errno with the error message set: the broker's refusal, or an error of call_exchange(). *fd: descriptor that came
 * with the reply, now the caller's; -1: none; -EMFILE: this process had no descriptor left for it. fd may be NULL. A
 * reply after the deadline (NULL: none) is dropped. Without client->lock.
 */
int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline);

/* call_broker() without a deadline, for a request that is only the name of a buffer. Checks client and name. */
int call_named(struct gpub_client *client, enum wire_type type, const char *name, struct wire_message *reply);

/*
 * As call_broker(), for a request that the broker answers by the parts of a file (PART) and a VIEW. *file: descriptor
 * of a memfd with that file, of view->size bytes, now the caller's. -ETIMEDOUT: the answer took more than a minute.
 * Other errors: also those of making or writing the memfd.
 */
int call_for_file(struct gpub_client *client, struct wire_message *request, int *file, struct wire_view *view);

#endif
