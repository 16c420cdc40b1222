/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grid.h - lays out one table as lines of text: chooses the rows, their order, the columns and their widths.
 *
 * No line is wider than the paper. If the cells do not fit, columns with `drop` are left out until the rest could fit
 * when cut; then the widest columns with `least` are cut until the line fits. Columns that the selection names are
 * only cut. Owns the array of row pointers; the rows themselves stay the caller's. Prints nothing.
 */
#ifndef GPUB_SHOW_GRID_H
#define GPUB_SHOW_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <jansson.h>

#include "columns.h"

#define GRID_COLUMNS_MAX 24
#define GRID_GAP         2     /* blanks between two columns */
#define GRID_LINE_MAX    16384 /* bytes of a line with the NUL */

/* The rows and columns to be shown. All zeroes: all rows and the default columns, in default order. */
struct selection {
	const struct column *columns[GRID_COLUMNS_MAX]; /* only these columns, and only tables that have any */
	size_t               columns_count;             /* 0: the default columns of each table */
	const char          *sort;                      /* name of the column to sort by; NULL: each table's default */
	bool                 reversed;                  /* reverses the order of `sort` */
	bool                 of_user, of_device, of_holder; /* only rows of `user`, on `device`, held by `holder` */
	uint64_t             user, device, holder; /* uid; the broker's index of the device; pid or id of a session */
};

/* What the table is printed on. */
struct paper {
	size_t width; /* in characters; 0: no limit */
	bool   color; /* the output may have escape sequences for colors */
	time_t now;   /* the time that ages are relative to */
};

enum tone { TONE_PLAIN, TONE_WARNING, TONE_ALARM };

struct grid {
	enum table_kind           table;
	const struct column *columns[GRID_COLUMNS_MAX];
	size_t               widths[GRID_COLUMNS_MAX]; /* width of each column, in characters */
	size_t               count;                    /* number of columns */
	const json_t       **rows;
	size_t               rows_count;
	struct paper         paper;
};

/* Returns true if the selection has columns of the table, or names no columns at all. */
bool selection_has(const struct selection *selection, enum table_kind table);

/* Lays out the objects of a JSON array. Returns 0, or -ENOMEM with the error message set and nothing to free. */
int grid_make(struct grid *grid, enum table_kind table, const json_t *rows, const struct selection *selection,
	      const struct paper *paper);
void grid_free(struct grid *grid);

/* Write the heading or one row to line, without blanks at the end. Return the number of bytes without the NUL. */
size_t grid_heading(const struct grid *grid, char line[GRID_LINE_MAX]);
size_t grid_line(const struct grid *grid, size_t row, char line[GRID_LINE_MAX]);

/* Returns how much attention the row needs, from the states of its object and its process. */
enum tone grid_tone(const struct grid *grid, size_t row);

#endif
