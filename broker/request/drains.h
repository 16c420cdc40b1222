/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drains.h - drains that wait until the buffer whose name they took away is freed.
 *
 * Owns the waits by the serial of the buffer. A buffer has one at most, because only one drain can take its name away.
 */
#ifndef GPUB_DRAINS_H
#define GPUB_DRAINS_H

#include <stdint.h>

struct broker;
struct buffer;

/*
 * Answers that request when the memory of the LIVE buffer, which is about to be unlinked, is freed; refuses it with
 * -ETIMEDOUT after timeout_ms (below 0: never). -ENOMEM.
 */
int drain_wait(struct broker *broker, const struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms);

/* Answers the drain of the buffer with that serial, whose memory is freed or clean, if there is one. */
void drain_ended(struct broker *broker, uint64_t serial);

#endif
