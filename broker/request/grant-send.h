/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grant-send.h - hands what a session was granted to its client: the sealed handle in the board, the chunks of memory
 * that the client does not have yet (MEMORY), and the GRANT.
 *
 * Owns nothing, decides nothing: whether the session may have the buffer is acquire.c's and the registry's business.
 */
#ifndef GPUB_GRANT_SEND_H
#define GPUB_GRANT_SEND_H

#include <stdbool.h>
#include <stdint.h>

struct session;
struct use;

/* Seals the handle of a grant that the session did not have before in the board. Before grant_send(). */
void grant_seal(struct session *session, const struct use *use);

/* Sends the GRANT. fresh: the session did not have the grant before. bytes: of the allocation that the session has. */
void grant_send(struct session *session, uint64_t request, const struct use *use, bool fresh, uint64_t bytes);

#endif
