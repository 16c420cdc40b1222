/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h - broker-status --json: what the records say, with what the reader found out beside it.
 *
 * The keys are those of records.c and the ones added here; broker-status(1) documents them all, and
 * a key's meaning never changes. Prints ASCII alone, so that no file can send control sequences to a terminal.
 */
#ifndef GPUB_SHOW_JSON_H
#define GPUB_SHOW_JSON_H

#include "read.h"

#define JSON_VERSION 1 /* of the keys and what they mean: a higher one changes what is there; new keys do not count */
/* Any part of it, on stdout. */
void json_print(const json_t *json);

/* One object on stdout. */
void json_show(const struct shown *shown);

/* An array of such objects, one at a time, with as many before it; and its end, of so many. */
void json_list(const struct shown *shown, size_t before);
void json_list_end(size_t count);

#endif
