/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acquire.h - the handlers of the messages by which a session gets, changes and ends its mappings and grants: ACQUIRE,
 * REDEEM, RIGHTS, CLOSED, QUIESCED. Also sends the NOTICE that asks a session to end a mapping or a grant.
 *
 * Owns nothing. Checks whether the session may have the buffer, changes the registry's mappings and grants, and
 * answers. Handlers return 0, or a negative errno with the error message set, which dispatch.c sends as the refusal.
 */
#ifndef GPUB_ACQUIRE_H
#define GPUB_ACQUIRE_H

#include <stdint.h>

#include "common/wire.h"

struct mapping;
struct session;

/*
 * Handlers of ACQUIRE and REDEEM, which answer with a GRANT (an ACQUIRE may wait for the name), of RIGHTS, CLOSED and
 * QUIESCED. Return 0, or a negative errno with the error message set.
 */
int acquire_named(struct session *session, const struct wire_message *message);
int acquire_redeem(struct session *session, const struct wire_message *message);
int acquire_rights(struct session *session, const struct wire_message *message);
int acquire_closed(struct session *session, const struct wire_message *message);
int acquire_quiesced(struct session *session, const struct wire_message *message);

/*
 * Answers an ACQUIRE that waited for its name: grants the LIVE buffer of the name to the session, or refuses. since:
 * time when the request was received, as now_ns(CLOCK_MONOTONIC).
 */
void acquire_waited(struct session *session, uint64_t request, const struct wire_acquire *acquire, uint64_t since);

/*
 * The registry's notice hook: sends a NOTICE to the session that has the mapping. serial: that of a buffer in the
 * mapping's allocation that has lost its name or has got another serial; 0: the NOTICE asks the session to close the
 * whole mapping. context: the broker.
 */
void acquire_notice(void *context, struct mapping *mapping, uint64_t serial);

#endif
