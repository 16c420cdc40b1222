/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send.h - messages to the broker, from any thread.
 *
 * A send never waits for an answer, and only briefly for the socket. If the kernel does not accept a message, the
 * connection is shut down, and the reader wakes all waiters. Owns nothing.
 */
#ifndef GPUB_SEND_H
#define GPUB_SEND_H

#include <stdint.h>

#include "common/wire.h"

struct gpub_client;

/* Sends one message. The caller has checked the link. Returns 0, or -ECONNRESET with the error message set. */
int call_send(struct gpub_client *client, const struct wire_message *message);

/* Sends several messages, in as few system calls as possible. Otherwise as call_send(). */
int call_send_many(struct gpub_client *client, const struct wire_message *messages, unsigned count);

/* Tells the broker that the mapping with this id is closed. */
void call_closed(struct gpub_client *client, uint64_t mapping);

/* Asks the broker to end the wait of that request, as if its timeout had passed. */
void call_cancel(struct gpub_client *client, uint64_t request);

/* Tells the broker that the device is done with the buffer of that serial, and that the mapping stays. */
void call_quiesced(struct gpub_client *client, uint64_t mapping, uint64_t serial);

#endif
