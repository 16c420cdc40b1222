/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - the handlers of the requests for information on named buffers: STAT, NEWER, LIST.
 *
 * Owns nothing and changes nothing. Handlers return 0, or a negative errno with the error message set, which dispatch.c
 * sends as the refusal.
 */
#ifndef GPUB_LOOKUP_H
#define GPUB_LOOKUP_H

#include "common/wire.h"

struct session;

int lookup_stat(struct session *session, const struct wire_message *message);
int lookup_newer(struct session *session, const struct wire_message *message);
int lookup_list(struct session *session, const struct wire_message *message);

/*
 * Answers a NEWER that waited for a newer buffer: with an INFO of the LIVE buffer that has the name, or with a refusal
 * if there is none.
 */
void lookup_tell_newer(struct session *session, uint64_t request, const struct wire_newer *newer);

#endif
