/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h - prints a broker's status as tables for people, on stdout.
 *
 * On a terminal no line is wider than the terminal; in a pipe or a file nothing is cut. Prints only printable ASCII,
 * whatever the status file contains, and color sequences on a terminal. grid.h lays out rows and columns. Owns
 * nothing.
 */
#ifndef GPUB_SHOW_TABLE_H
#define GPUB_SHOW_TABLE_H

#include "grid.h"
#include "read.h"

struct table_options {
	struct selection selection;
	struct paper     paper;
	bool             all;  /* true: also print counters that are 0, and always the table of users */
	bool             head; /* print the lines about the broker even if the selection names columns */
};

/* Returns the width and colors of stdout (NO_COLOR and TERM are obeyed), and the current time. */
struct paper table_paper(void);

/*
 * Prints one broker: its state, devices, users if there are several or one has a quota, sessions, buffers, what
 * drains wait for, and counters. Returns 0, or -ENOMEM with the error message set.
 */
int table_show(const struct shown *shown, const struct table_options *options);

/*
 * Prints one table. rows: an array as in shown->text. After the table of buffers, prints what drains wait for.
 * Returns 0, or -ENOMEM with the error message set.
 */
int table_rows_show(enum table_kind table, const json_t *rows, const struct table_options *options);

/*
 * Prints a buffer's name, most of its properties and its holders, up to a limited number, each on a line, and "reserve"
 * if the object has this key.
 */
void table_whole_buffer(const json_t *buffer, const struct paper *paper);

/* Appends a broker's row to the array of rows for table_list_show(). */
void table_list_add(json_t *rows, const struct shown *shown);

/* Prints the list of brokers, and warnings about files that are not trusted or are damaged. Returns 0 or -ENOMEM. */
int table_list_show(const json_t *rows, const struct table_options *options);

#define TABLE_HOLDER_MAX 81

/* Writes which process a drain waits for: one of a buffer's "holders", as one printable line. Returns text. */
const char *table_holder(const json_t *holder, char text[TABLE_HOLDER_MAX]);

#endif
