/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receiver.h - the reader: the one thread that reads the socket at a time.
 *
 * The protocol needs messages to be handled in the order in which they were sent (tests/model). So there is one
 * reader, usually the service thread. A caller with a request becomes the reader until it has its answer, if no other
 * thread is the reader, because a hand-over between threads costs a wake-up, more than the rest of a round trip.
 * Before the caller sleeps it polls for a moment. It learns for each type of request how often that pays. Measured on
 * two busy processors: without polling a first acquire takes 6 to 12 % longer (bench/first); polling always, without
 * learning, costs other programs 7 % (bench/crowd). Owns the role of the reader, and the watch on which the service
 * thread sleeps; handles no message itself.
 */
#ifndef GPUB_RECEIVER_H
#define GPUB_RECEIVER_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

/* Prepares the reader, and makes the watch on the client's socket. Negative errno, with the error message set. */
int receiver_init(struct gpub_client *client);

/* This thread becomes the reader until receiver_end(). False: another thread is the reader, or the link is lost. */
bool receiver_begin(struct gpub_client *client);
void receiver_end(struct gpub_client *client);

/*
 * For the reader: handles messages until answered(), called under client->lock, is true, the deadline (NULL: none)
 * has passed, or the connection is lost. asked: type of the request.
 */
void receiver_read_until(struct gpub_client *client, enum wire_type asked,
			 bool (*answered)(struct gpub_client *, void *), void *context,
			 const struct timespec *deadline);

/* For the service thread: reads messages, after a wait of at most timeout_ms (-1: no limit). False: no more come. */
bool receiver_serve(struct gpub_client *client, int timeout_ms);

#endif
