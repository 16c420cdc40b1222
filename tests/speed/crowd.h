/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd.h - fills every table of a broker in this process, as its users can: what messages.c measures against.
 *
 * Two users at their quotas, and many beside them. Owns their sessions. Says what it wants over their sockets, so that
 * nothing is there that no client could bring about.
 */
#ifndef GPUB_TESTS_CROWD_H
#define GPUB_TESTS_CROWD_H

#include "tests/unit/broker/session-harness.h"

#define OWNER    1000u
#define STRANGER 1001u

/* Sends it and has the broker work until it is answered; a descriptor that comes with it is closed. */
struct wire_message answer_of(const struct peer *peer, const struct wire_message *message);

/* The same for what is not to be refused. */
struct wire_message want(const struct peer *peer, const struct wire_message *message);

/* Has the broker work until nothing is left to do. */
void finish(void);

/* Messages. */
struct wire_message create_of(const char *name, uint64_t size, unsigned mode, unsigned flags);
struct wire_message acquire_of(const char *name, int timeout_ms);
struct wire_message issue_of(const char *name, bool once, uint64_t lifetime_ms);
struct wire_message redeem_of(const struct ticket *ticket);
struct wire_message grant_of(enum wire_type type, uint64_t mapping, uint64_t serial);

/*
 * Everything up to the quotas: of the two sessions, which are the owner's and the stranger's, of others of these users,
 * and of other users. crowded: a buffer of the owner's for all, on which there are as many grants as possible.
 */
void crowd_gather(const struct peer *owner, const struct peer *stranger, const char *crowded);

#endif
