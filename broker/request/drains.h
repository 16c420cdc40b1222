/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drains.h - requests to drain a buffer (DRAIN), which wait until the buffer that they unlinked is freed.
 *
 * Owns the waits, in a table by the serial of the buffer. At most one drain waits for a buffer, because a buffer is
 * unlinked only once.
 */
#ifndef GPUB_DRAINS_H
#define GPUB_DRAINS_H

#include <stdint.h>

struct broker;
struct buffer;

/*
 * Keeps the request until the memory of the buffer is freed or zeroed, or could not be, and answers it then. Called
 * before the LIVE buffer is unlinked. Refuses the request with -ETIMEDOUT after timeout_ms (below 0: never). Returns 0,
 * or -ENOMEM: the request is not kept.
 */
int drain_wait(struct broker *broker, const struct buffer *buffer, uint64_t session, uint64_t request, int timeout_ms);

/*
 * Answers the drain that waits for the buffer with the serial, if there is one. Called when the buffer's memory has
 * been freed or zeroed, or could not be.
 */
void drain_ended(struct broker *broker, uint64_t serial);

#endif
