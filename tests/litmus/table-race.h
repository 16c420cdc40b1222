/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table-race.h - the race for a name in the table of records: one side looks for names that stay, the other changes the
 * table beside it. Owns a table of its own; needs no client.
 */
#ifndef LITMUS_TABLE_RACE_H
#define LITMUS_TABLE_RACE_H

#include "race.h"

int          small_make(void);
void         find_first(unsigned i);
void         move_second(unsigned i);
enum outcome judge_found(unsigned i);

#endif
