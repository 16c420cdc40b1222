/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acquire.h - the handlers of the messages by which a session gets, changes and gives back the right to map a buffer:
 * ACQUIRE, REDEEM, RIGHTS, CLOSED, QUIESCED; and the NOTICE that tells it to give one back.
 *
 * Owns nothing: checks who may, changes the registry's grants, answers. Handlers return 0, or a negative errno with the
 * error message set, which dispatch.c sends as the refusal.
 */
#ifndef GPUB_ACQUIRE_H
#define GPUB_ACQUIRE_H

#include <stdint.h>

#include "common/wire.h"

struct grant;
struct session;

int acquire_named(struct session *session, const struct wire_message *message); /* ACQUIRE */
int acquire_redeem(struct session *session, const struct wire_message *message);
int acquire_rights(struct session *session, const struct wire_message *message);
int acquire_closed(struct session *session, const struct wire_message *message);
int acquire_quiesced(struct session *session, const struct wire_message *message);

/*
 * Answers an ACQUIRE that waited for its name, which is LIVE now: grants or refuses. since: when the request came, as
 * now_ns(CLOCK_MONOTONIC).
 */
void acquire_waited(struct session *session, uint64_t request, const struct wire_acquire *acquire, uint64_t since);

/*
 * The registry's hook: tells the session of the grant that the buffer with that serial has lost its name or has another
 * one. serial 0: the whole mapping should be closed. context: the broker.
 */
void acquire_notice(void *context, struct grant *grant, uint64_t serial);

#endif
