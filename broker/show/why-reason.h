/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why-reason.h - explains why one wait does not end: follows it from process to process to the one that could end it,
 * and says what to do.
 *
 * Adds text to the line of a struct telling (telling.h). Owns nothing.
 */
#ifndef GPUB_SHOW_WHY_REASON_H
#define GPUB_SHOW_WHY_REASON_H

#include "telling.h"

/* Adds the reason why the wait does not end, after tell_wait() has added the wait. */
void tell_reason(struct telling *telling, const union status_record *wait);

/* Adds what the session's process does or waits for, after tell_process() has added the process. */
void tell_state(struct telling *telling, const struct status_session *session);

/* For a session that has not answered INQUIRE: adds what the session's process does, after the process's name. */
void tell_silent(struct telling *telling, const struct status_session *session);

/* Adds which processes keep the memory of an unlinked buffer. waiter: id of the session that waits; 0: none. */
void tell_holders(struct telling *telling, const struct status_buffer *buffer, uint64_t waiter);

#endif
