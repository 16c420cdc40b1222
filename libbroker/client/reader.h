/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - who reads the socket: one thread at a time.
 *
 * What the broker says is handled in the order in which it was sent; the protocol rests on that (tests/model). So there is
 * one reader. As a rule that is the service thread; a caller with a request is the reader itself until it has its
 * answer, when nobody else is, for every hand-over from one thread to another costs a wake-up, more than all the rest
 * of a round trip. Owns the role and the watch by which the service thread sleeps; handles no message itself.
 */
#ifndef GPUB_READER_H
#define GPUB_READER_H

#include <stdbool.h>
#include <time.h>

#include "common/wire.h"

struct gpub_client;

/* The watch on client->sock. Negative errno, sentence set. */
int reader_init(struct gpub_client *client);

/* This thread is the reader, and the service thread is not woken for what comes, until reader_end(). False: another is. */
bool reader_begin(struct gpub_client *client);
void reader_end(struct gpub_client *client);

/*
 * As the reader: handles messages until answered() says so, the deadline is past (NULL: never), or the broker is gone. How
 * long it looks before it sleeps depends on how soon the same question was answered before.
 */
void reader_read_until(struct gpub_client *client, enum wire_type asked, bool (*answered)(struct gpub_client *, void *),
		       void *context, const struct timespec *deadline);

/* For the service thread: waits for messages, at most so long (-1: for ever), and handles them. False: there will be no more. */
bool reader_serve(struct gpub_client *client, int timeout_ms);

#endif
