/* SPDX-License-Identifier: Apache-2.0 */
/*
 * second-look.h - what has moved between two looks at a broker: programs that queue work far ahead look like a deadlock in every single
 * one.
 *
 * A session of which anything moved is marked as partial, for what it waits for now is not known: it signalled, a wait of it ended,
 * is new, or is for a timeline that went on. Owns nothing.
 */
#ifndef GPUB_SHOW_SECOND_LOOK_H
#define GPUB_SHOW_SECOND_LOOK_H

#include <stddef.h>

#include "broker/status/format.h"

/*
 * Marks those of the second look's records, and takes the type of waits whose timeline went on. before: of the first look; NULL: there
 * were no two, so nothing shows that anything stands still. -ENOMEM with the error message set.
 */
int looks_compare(union status_record *records, size_t count, const union status_record *before, size_t before_count);

#endif
