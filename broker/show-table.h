/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show-table.h - a broker's status as tables for people, on stdout.
 *
 * No line is longer than 80 columns, and nothing but printable ASCII leaves it, whatever the status file says. Owns
 * nothing.
 */
#ifndef GPUB_SHOW_TABLE_H
#define GPUB_SHOW_TABLE_H

#include "show-read.h"

/* One broker: how it does, devices, buffers, sessions, and the counters: all, or those that are not zero. */
void table_show(const struct shown *shown, bool all_counters);

/* One line a broker. */
void table_list(const struct shown *shown, size_t count);

#endif
