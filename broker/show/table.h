/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - a broker's status as tables for people, on stdout.
 *
 * On a terminal no line is wider than it; in a pipe or a file nothing is cut. Nothing but printable ASCII leaves it, and on a
 * terminal colors, whatever the status file says. Columns and rows are grid.h's. Owns nothing.
 */
#ifndef GPUB_SHOW_TABLE_H
#define GPUB_SHOW_TABLE_H

#include "grid.h"
#include "read.h"

struct table_options {
	struct selection selection;
	struct paper     paper;
	bool             all;  /* counters that are 0, and users in any case */
	bool             head; /* also where columns are chosen: which broker it is */
};

/* What stdout is: its width, whether it shows colors (NO_COLOR and TERM are obeyed); and the time. */
struct paper table_paper(void);

/*
 * One broker: how it does, devices, users where a quota binds one or there are several, sessions, buffers, what drains wait for,
 * and counters. -ENOMEM
 */
int table_show(const struct shown *shown, const struct table_options *options);

/* Rows of one table alone, an array as in shown->text; under buffers what drains wait for. -ENOMEM */
int table_rows_show(enum table_kind table, const json_t *rows, const struct table_options *options);

/* All of a buffer, a line for each property and each holder. It may have the key "reserve", which shown->text has not. */
void table_whole_buffer(const json_t *buffer, const struct paper *paper);

/* A list of brokers: the row of one is appended to rows, an array; and the table of all, under which stands what is doubtful. */
void table_list_add(json_t *rows, const struct shown *shown);
int table_list_show(const json_t *rows, const struct table_options *options);

#define TABLE_HOLDER_MAX 81

/* Whom a drain waits for, from an element of a buffer's holders: printable, in one line. Returns text. */
const char *table_holder(const json_t *holder, char text[TABLE_HOLDER_MAX]);

#endif
