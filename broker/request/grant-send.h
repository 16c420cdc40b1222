/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grant-send.h - sends a grant to the client: the sealed handle in the board, the descriptors and chunks of memory that
 * the client does not have yet (MEMORY), and the GRANT.
 *
 * Owns nothing. Decides nothing: acquire.c and the registry decide whether the session may have the buffer.
 */
#ifndef GPUB_GRANT_SEND_H
#define GPUB_GRANT_SEND_H

#include <stdbool.h>
#include <stdint.h>

struct session;
struct grant;

/*
 * Seals the allocation's handle for the session of a new mapping, and writes it into the mapping's handle place in the
 * board. Called before grant_send().
 */
void grant_seal(struct session *session, const struct grant *grant);

/*
 * Sends the GRANT, after the MEMORY messages that the client needs. fresh: the grant's mapping is new to the session.
 * bytes: how many bytes of the allocation, from its beginning, the session has received already.
 */
void grant_send(struct session *session, uint64_t request, const struct grant *grant, bool fresh, uint64_t bytes);

#endif
