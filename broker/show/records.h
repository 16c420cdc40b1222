/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.h - the records of a status file as one JSON object, with the keys that broker-status(1) documents.
 *
 * Joins records by the numbers in them: mappings with sessions, grants with mappings and buffers. The numbers of grants
 * of a buffer and of mappings of a session are counted from the records, so a row agrees with the list of its holders.
 * A mapping whose session is missing, and a grant whose mapping is missing, are left out: one of both began or ended
 * during the reading. Owns nothing. Records may be written by any user; whatever their contents, the object's size is
 * limited by their number.
 */
#ifndef GPUB_SHOW_RECORDS_H
#define GPUB_SHOW_RECORDS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "broker/status/format.h"

/* Returns true if the record is whole, its type and states are known, its texts have a NUL, and its names are valid. */
bool record_is_good(const union status_record *record);

/* Returns the name of the state: "open", "leaving" and so on. */
const char *session_state_name(enum status_session_state state);

/* Returns how a broker ended: "killed", "crashed", "hung" or "upgraded". how: less than STATUS_BROKER_HOWS. */
const char *broker_end_name(unsigned how);

/* Returns the name of the state: "running", "starting" or "failed". */
const char *owner_state_name(enum status_owner_state state);

/* Returns a new JSON object of the header and the records, which must be good; NULL: no memory. */
json_t *records_json(const struct status_header *header, const union status_record *records, size_t count);

#endif
