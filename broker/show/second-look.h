/* SPDX-License-Identifier: Apache-2.0 */
/*
 * second-look.h - compares two looks at a broker for progress, because programs that queue work far ahead look like a
 * deadlock in every single look.
 *
 * Marks a session as partial if it made progress between the looks: it has signalled a timeline, one of its waits
 * ended or is new, or a timeline that it waits for has advanced. What a partial session waits for counts as not
 * known. Owns nothing.
 */
#ifndef GPUB_SHOW_SECOND_LOOK_H
#define GPUB_SHOW_SECOND_LOOK_H

#include <stddef.h>

#include "broker/status/format.h"

/*
 * Marks sessions in `records`, which are those of the second look, as partial, and drops waits whose timeline has
 * advanced by setting the type of their records to TRACKED_NONE. before: the records of the first look; NULL: there was
 * none, and all sessions are marked. Returns 0, or -ENOMEM with the error message set.
 */
int looks_compare(union status_record *records, size_t count, const union status_record *before, size_t before_count);

#endif
