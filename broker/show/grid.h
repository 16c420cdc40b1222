/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grid.h - the rows of one table as lines: which columns, how wide, in which order.
 *
 * A line is as wide as what stands in it where there is room, and never wider than the paper. On narrow paper the widest columns
 * that may be cut give way first, and then columns are left out, until the rest fits. Owns the order of the rows; the rows
 * themselves stay the caller's. Prints nothing.
 */
#ifndef GPUB_SHOW_GRID_H
#define GPUB_SHOW_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <jansson.h>

#include "columns.h"

#define GRID_COLUMNS_MAX 24
#define GRID_GAP         2  /* blanks between two columns */
#define GRID_LINE_MAX    16384 /* of a line on paper without an edge */

/* What people want to see; zeroed: all rows, the usual columns, in their usual order. */
struct selection {
	const struct column *columns[GRID_COLUMNS_MAX]; /* these alone, in this order; of tables without any nothing is shown */
	size_t               columns_count;             /* 0: the usual ones */
	const char          *sort;                      /* the name of a column in each table that has one; NULL: as usual */
	bool                 reversed;
	bool                 of_user, of_device, of_holder; /* only what is of these */
	uint64_t             user, device, holder;
};

struct paper {
	size_t width; /* 0: it has no edge */
	bool   color;
	time_t now;   /* what ages are counted to */
};

enum tone { TONE_PLAIN, TONE_WARNING, TONE_ALARM };

struct grid {
	enum table_kind           table;
	const struct column *columns[GRID_COLUMNS_MAX];
	size_t               widths[GRID_COLUMNS_MAX], count; /* of columns */
	const json_t       **rows;
	size_t               rows_count;
	struct paper         paper;
};

/* Whether the selection has the table at all. */
bool selection_has(const struct selection *selection, enum table_kind table);

/* Rows that are no objects are left out. -ENOMEM: nothing is to be freed. */
int grid_make(struct grid *grid, enum table_kind table, const json_t *rows, const struct selection *selection,
	      const struct paper *paper);
void grid_free(struct grid *grid);

/* Without the blanks at its end; how many bytes. */
size_t grid_heading(const struct grid *grid, char line[GRID_LINE_MAX]);
size_t grid_line(const struct grid *grid, size_t row, char line[GRID_LINE_MAX]);

/* Whether that row needs attention. */
enum tone grid_tone(const struct grid *grid, size_t row);

#endif
