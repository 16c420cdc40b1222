/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - a broker's status as tables for people, on stdout.
 *
 * No line is longer than 80 columns, and nothing but printable ASCII leaves it, whatever the status file says. Owns
 * nothing.
 */
#ifndef GPUB_SHOW_TABLE_H
#define GPUB_SHOW_TABLE_H

#include "read.h"

/*
 * One broker: how it does, devices, buffers, sessions; users where a quota binds one, or there are several; the counters
 * that are not zero. all: users and counters whatever they hold.
 */
void table_show(const struct shown *shown, bool all);

/* One line a broker, one at a time; the first, with none before it, comes under the titles. */
void table_list(const struct shown *shown, size_t before);

#define TABLE_HOLDER_MAX 81

/* Whom a drain waits for, from an element of a buffer's holders: printable, in one line. Returns text. */
const char *table_holder(const json_t *holder, char text[TABLE_HOLDER_MAX]);

#endif
