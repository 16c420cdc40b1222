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
#define GRID_GAP         2     /* number of blanks between two columns */
#define GRID_LINE_MAX    16384 /* size of a line in bytes, with the NUL */

/* The rows and columns to be shown. All zeroes: all rows and the default columns, in default order. */
struct selection {
	/* the columns to show, of which a table shows its own; tables that have none are not shown */
	const struct column *columns[GRID_COLUMNS_MAX];
	/* number of entries in `columns`; 0: the default columns of each table are shown */
	size_t               columns_count;
	const char          *sort;                      /* name of the column to sort by; NULL: each table's default */
	/* true: rows are in the reverse of the order that `sort` gives */
	bool                 reversed;
	/* which of the three members below select rows: only rows of `user`, on `device`, or held by `holder` */
	bool                 of_user, of_device, of_holder;
	/* uid of the user; the broker's index of the device; pid or id of the session that holds */
	uint64_t             user, device, holder;
};

/* What the table is printed on. */
struct paper {
	size_t width; /* width of a line in characters; 0: no limit */
	bool   color; /* true: the output may have escape sequences for colors */
	time_t now;   /* the present time, by which ages are computed */
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

/*
 * Lays out the objects of the JSON array `rows` as a table. Returns 0, or -ENOMEM with the error message set and
 * nothing to free.
 */
int grid_make(struct grid *grid, enum table_kind table, const json_t *rows, const struct selection *selection,
	      const struct paper *paper);
void grid_free(struct grid *grid);

/*
 * Write to line the heading, or the row with the index `row`, without blanks at the end. Return the number of bytes
 * without the NUL.
 */
size_t grid_heading(const struct grid *grid, char line[GRID_LINE_MAX]);
size_t grid_line(const struct grid *grid, size_t row, char line[GRID_LINE_MAX]);

/* Returns how much attention the row needs, from the states of its object and its process. */
enum tone grid_tone(const struct grid *grid, size_t row);

#endif
