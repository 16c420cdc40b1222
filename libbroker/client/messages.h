/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - the client's handlers of the broker's messages.
 *
 * A GRANT's memory is opened, a notice marks what the broker wants back, and a reply goes to the call that waits for
 * it. The handlers run on the reader's thread (receiver.h), in the order in which the messages were sent. Owns nothing.
 * Never reads the socket, and never closes a mapping that has a record.
 */
#ifndef GPUB_MESSAGES_H
#define GPUB_MESSAGES_H

#include <stdbool.h>

#include "common/wire.h"

struct gpub_client;

/* For the reader: handles the message, and takes over its descriptor (-1: none). False: no message follows. */
bool messages_handle(struct gpub_client *client, const struct wire_message *message, int fd);

/* For the reader, when no more messages will come: sets CLIENT_LOST and wakes all waiters with an error. */
void messages_ended(struct gpub_client *client);

#endif
