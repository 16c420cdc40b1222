/* SPDX-License-Identifier: Apache-2.0 */
/*
 * receiver.h - the reader: the one thread that reads the socket at a time.
 *
 * The protocol needs messages to be handled in the order in which they were sent (tests/model). So there is one reader,
 * usually the service thread. A caller with a request becomes the reader until it has its answer, if no other thread is
 * the reader, because a hand-over between threads costs a wake-up, more than the rest of a round trip. Before the
 * caller sleeps it polls the socket for a moment. It learns for each type of request how often polling finds an answer.
 * Measured on two busy processors: without polling a first acquire takes 6 to 12 % longer (bench/first); polling
 * always, without learning, costs other programs 7 % (bench/crowd). Owns the role of the reader, and sets which events
 * wake the service thread; handles no message itself.
 */
#ifndef GPUB_RECEIVER_H
#define GPUB_RECEIVER_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

/*
 * Prepares the client's members for the reader, and makes the watch on the client's socket (link_watch()). Returns 0,
 * or a negative errno with the error message set.
 */
int receiver_init(struct gpub_client *client);

/*
 * Makes the calling thread the reader until receiver_end(). False: another thread is the reader, or no message can come
 * any more, or the kernel is short of memory.
 */
bool receiver_begin(struct gpub_client *client);
void receiver_end(struct gpub_client *client);

/*
 * For the reader: handles messages until answered(), which is called under client->lock with `context`, returns true,
 * the deadline (NULL: none) has passed, or the connection is lost. Looks at the deadline after each read, which may
 * take LOOK_US. asked: the type of the request whose answer is awaited.
 */
void receiver_read_until(struct gpub_client *client, enum wire_type asked,
			 bool (*answered)(struct gpub_client *, void *), void *context,
			 const struct timespec *deadline);

/*
 * For the service thread: sleeps as link_sleep() does with timeout_ms, becomes the reader, and handles the next packet
 * of messages, if one has come. False: no more messages will come.
 */
bool receiver_serve(struct gpub_client *client, int timeout_ms);

#endif
