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

/* Sends one message. Call it only after link_check(). Returns 0, or -ECONNRESET with the error message set. */
int call_send(struct gpub_client *client, const struct wire_message *message);

/* As call_send(), for `count` messages, in as few system calls as possible. */
int call_send_many(struct gpub_client *client, const struct wire_message *messages, unsigned count);

/* Tells the broker that the mapping with the id `mapping` is closed (CLOSED). */
void call_closed(struct gpub_client *client, uint64_t mapping);

/* Asks the broker to end the wait of the request with this number, as if the request's timeout had passed (CANCEL). */
void call_cancel(struct gpub_client *client, uint64_t request);

/*
 * Tells the broker that the device is done with the buffer of this serial, and that the mapping with the id `mapping`
 * stays open (QUIESCED).
 */
void call_quiesced(struct gpub_client *client, uint64_t mapping, uint64_t serial);

#endif
