/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - what each of the broker's messages does in the client.
 *
 * A grant is opened, a notice marks what the broker wants back, and a reply goes to the call that waits for it. It runs on
 * the thread that reads, whichever that is (reader.h), in the order in which the messages were sent. Owns nothing. Never
 * reads the socket, and never closes a mapping that a record stands on.
 */
#ifndef GPUB_MESSAGES_H
#define GPUB_MESSAGES_H

#include <stdbool.h>

#include "common/wire.h"

struct gpub_client;

/* As the reader: does what the message says, and takes over its descriptor (-1: none). False: it was the last message. */
bool messages_handle(struct gpub_client *client, const struct wire_message *message, int fd);

/* The broker is gone: releases all who wait for an answer, for none will come. */
void messages_ended(struct gpub_client *client);

#endif
