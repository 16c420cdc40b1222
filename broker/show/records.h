/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - the records of a status file as one JSON object, with the keys that broker-status(1) documents.
 *
 * Joins what names each other: grants with their sessions, uses with grants and buffers. How many grants a buffer or a session
 * has is counted from the very records that are listed, so a row and what stands beneath it always agree. A record that names
 * what is not there is left out: the broker ended the one, or began the other, during the reading. Owns nothing. Records may be
 * anybody's: whatever they say, the object is bounded by their number.
 */
#ifndef GPUB_SHOW_RECORDS_H
#define GPUB_SHOW_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "broker/status/format.h"

/* All of it was written, it is of a known type, its text ends and its states are known. */
bool record_is_good(const union status_record *record);

/* "open", "leaving" and so on. */
const char *session_state_name(enum status_session_state state);

/* NULL: no memory. */
json_t *records_json(const struct status_header *header, const union status_record *records, size_t count);

#endif
