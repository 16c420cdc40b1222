/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receiver.h - the reader: the one thread that reads the socket at a time.
 *
 * The protocol relies on it that messages are handled in the order in which they were sent (tests/model). So there is one
 * reader, usually the service thread. A caller with a request becomes the reader until it has its answer, if no other thread
 * is: a hand-over between threads costs a wake-up, more than the rest of a round trip. Before it sleeps it polls for a moment,
 * and it learns for each type of request how often that pays. Measured on two busy processors: without polling a first acquire
 * takes 6 to 12 % longer (bench/first); polling always, without learning, costs other programs 7 % (bench/crowd). Owns the
 * role, and the watch on which the service thread sleeps; handles no message itself.
 */
#ifndef GPUB_RECEIVER_H
#define GPUB_RECEIVER_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

/* Makes the watch on the client's socket. Negative errno, error message set. */
int receiver_init(struct gpub_client *client);

/* This thread becomes the reader, and messages do not wake the service thread, until receiver_end(). False: another thread is. */
bool receiver_begin(struct gpub_client *client);
void receiver_end(struct gpub_client *client);

/* As the reader: handles messages until answered() says so, the deadline is past (NULL: never), or the broker is gone. */
void receiver_read_until(struct gpub_client *client, enum wire_type asked, bool (*answered)(struct gpub_client *, void *),
			 void *context, const struct timespec *deadline);

/* For the service thread: waits for messages (-1: without limit), and handles them. False: no more will come. */
bool receiver_serve(struct gpub_client *client, int timeout_ms);

#endif
