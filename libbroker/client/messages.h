/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - the client's handlers of the broker's messages.
 *
 * A grant is opened, a notice marks what the broker wants back, and a reply goes to the call that waits for it. The
 * handlers run on the reader's thread (receiver.h), in the order in which the messages were sent. Owns nothing. Never
 * reads the socket, and never closes a mapping that has a record.
 */
#ifndef GPUB_MESSAGES_H
#define GPUB_MESSAGES_H

#include <stdbool.h>

#include "common/wire.h"

struct gpub_client;

/* As the reader: handles the message, and takes over its descriptor (-1: none). False: it was the last message. */
bool messages_handle(struct gpub_client *client, const struct wire_message *message, int fd);

/* The broker is gone: wakes all waiters, because no answer will come. */
void messages_ended(struct gpub_client *client);

#endif
