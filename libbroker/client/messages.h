/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages.h - the client's handlers of the broker's messages.
 *
 * The memory of a GRANT is opened. A NOTICE marks the record or mapping that the broker wants back. A reply goes to the
 * call that waits for the reply. The handlers run on the reader's thread (receiver.h), in the order in which the
 * messages were sent. Owns nothing. Never reads the socket, and never closes a mapping that has a record.
 */
#ifndef GPUB_MESSAGES_H
#define GPUB_MESSAGES_H

#include <stdbool.h>

#include "common/wire.h"

struct gpub_client;

/*
 * For the reader: handles the message, and takes over the descriptor that came with the message (-1: none). False: it
 * was LEFT, after which no message comes.
 */
bool messages_handle(struct gpub_client *client, const struct wire_message *message, int fd);

/* For the reader, when no more messages will come: sets CLIENT_LOST and wakes all waiters with an error. */
void messages_ended(struct gpub_client *client);

#endif
