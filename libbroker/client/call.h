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

/*
 * milliseconds after a request's own timeout at which a broker that has not answered is taken for stopped or overloaded
 */
#define GRACE_MS 10000

/*
 * Sends `count` messages and waits until answered(), which is called under client->lock with `context`, returns true.
 * The calling thread is the reader meanwhile, if no other thread is. Returns 0; -ETIMEDOUT if the deadline (NULL: none)
 * has passed; -ECONNRESET if the connection is lost; or -EINTR if this thread's interrupt function (interrupt.h) ended
 * the wait. Before it returns -EINTR it tells the broker to cancel the requests, and waits for their answers until
 * GRACE_MS have passed or the interrupt function interrupts again. Call it under client->lock, which it releases while
 * it waits.
 */
int call_exchange(struct gpub_client *client, const struct wire_message *messages, unsigned count,
		  bool (*answered)(struct gpub_client *, void *), void *context, const struct timespec *deadline);

/*
 * Fills in the request's number, sends the request, and waits for the reply. Returns 0 and *reply; or a negative errno
 * with the error message set: the broker's refusal; an error of call_exchange(); -ENOSYS, nothing sent: the broker is
 * older than the request; or -EPROTO: an answer of another type. *fd: the descriptor that came with the reply, for the
 * caller to close; -1: none came; -EMFILE: this process had no descriptor left for it. fd may be NULL. A reply that
 * comes after the deadline (NULL: no deadline) is dropped. Call it without client->lock.
 */
int call_broker(struct gpub_client *client, struct wire_message *request, struct wire_message *reply, int *fd,
		const struct timespec *deadline);

/* As call_broker(), without a deadline, for a request whose body is a buffer's name. Checks client and name first. */
int call_named(struct gpub_client *client, enum wire_type type, const char *name, struct wire_message *reply);

/*
 * As call_broker(), for a request that the broker answers by the parts of a file (PART) and a VIEW. *file: descriptor
 * of a memfd that has the file, view->size bytes, for the caller to close. *view: the VIEW. -ETIMEDOUT: the answer took
 * more than a minute. Other errors: also those of making or writing the memfd. A refusal with -EAGAIN, as by a broker
 * that has just replaced one that ended, is returned only if the broker repeats it for a second.
 */
int call_for_file(struct gpub_client *client, struct wire_message *request, int *file, struct wire_view *view);

#endif
