/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why-reason.h - why one wait does not end: from process to process to the one that could end it, and what to do.
 *
 * Adds to the line of a telling (telling.h). Owns nothing.
 */
#ifndef GPUB_SHOW_WHY_REASON_H
#define GPUB_SHOW_WHY_REASON_H

#include "telling.h"

/* Behind the words for that wait, which is of its session. */
void tell_reason(struct telling *telling, const union status_record *wait);

/* Behind its name: what a process does. */
void tell_state(struct telling *telling, const struct status_session *session);

/* The same of one that has not said what it waits for. */
void tell_silent(struct telling *telling, const struct status_session *session);

/* Who keeps the memory of a buffer that is unlinked. waiter: the session that waits for it; 0: none. */
void tell_holders(struct telling *telling, const struct status_buffer *buffer, uint64_t waiter);

#endif
