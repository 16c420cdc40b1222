/* SPDX-License-Identifier: Apache-2.0 */
/* grid.c - see grid.h */
#include "grid.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

/* ---- which rows ---- */

static bool is_held_by(const json_t *buffer, uint64_t holder)
{
	const json_t *held;
	size_t i;

	json_array_foreach (json_object_get(buffer, "holders"), i, held)
		if (json_number(held, "pid") == holder || json_number(held, "session") == holder)
			return true;
	return false;
}

static bool is_on_device(const json_t *session, uint64_t device)
{
	const json_t *number;
	size_t i;

	json_array_foreach (json_object_get(session, "devices"), i, number)
		if ((uint64_t)json_integer_value(number) == device)
			return true;
	return false;
}

static bool row_is_wanted(enum table_kind table, const json_t *row, const struct selection *selection)
{
	bool user = !selection->of_user, device = !selection->of_device, holder = !selection->of_holder;

	switch (table) {
	case TABLE_DEVICES:
		return device || json_number(row, "index") == selection->device;
	case TABLE_USERS:
		return user || json_number(row, "uid") == selection->user;
	case TABLE_SESSIONS:
		return (user || json_number(row, "uid") == selection->user) &&
		       (device || is_on_device(row, selection->device)) &&
		       (holder || json_number(row, "pid") == selection->holder ||
			json_number(row, "session") == selection->holder);
	case TABLE_BUFFERS:
		return (user || json_number(row, "owner") == selection->user) &&
		       (device || json_number(row, "device") == selection->device) &&
		       (holder || is_held_by(row, selection->holder));
	default:
		return true;
	}
}

static int rows_take(struct grid *grid, const json_t *rows, const struct selection *selection)
{
	const json_t *row;
	size_t i;

	grid->rows = malloc((json_array_size(rows) + 1) * sizeof *grid->rows);
	if (!grid->rows)
		return error_set(-ENOMEM, "out of memory");
	json_array_foreach (rows, i, row)
		if (json_is_object(row) && row_is_wanted(grid->table, row, selection))
			grid->rows[grid->rows_count++] = row;
	return 0;
}

/* ---- their order ---- */

struct order {
	const struct column *column;
	bool                 reversed;
};

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	int difference = column_compare(order->column, *(const json_t *const *)a, *(const json_t *const *)b);

	return order->reversed ? -difference : difference;
}

/*
 * Returns the name of the column that a table is sorted by if none was chosen; NULL: its rows stay in the given order.
 */
static const char *usual_order(enum table_kind table)
{
	return table == TABLE_BUFFERS || table == TABLE_SESSIONS ? "size" : table == TABLE_USERS ? "memory" : NULL;
}

/* Sorts the rows. glibc's qsort_r() is a merge sort, which keeps the order of equal rows, if it has memory for that. */
static void rows_sort(struct grid *grid, const struct selection *selection)
{
	const char *name = selection->sort ? selection->sort : usual_order(grid->table);
	struct order order = { .reversed = selection->sort && selection->reversed };

	order.column = name ? column_in(grid->table, name) : NULL;
	if (order.column)
		qsort_r(grid->rows, grid->rows_count, sizeof *grid->rows, compare_rows, &order);
}

/* ---- which columns, and how wide ---- */

bool selection_has(const struct selection *selection, enum table_kind table)
{
	for (size_t i = 0; i < selection->columns_count; i++)
		if (selection->columns[i]->table == table)
			return true;
	return !selection->columns_count;
}

static void cell_fill(const struct grid *grid, size_t row, size_t column, size_t width, struct cell *cell)
{
	cell->column = grid->columns[column];
	cell->row = grid->rows[row];
	cell->now = grid->paper.now;
	cell->width = width;
	cell_make(cell);
}

static void columns_take(struct grid *grid, const struct selection *selection)
{
	for (size_t i = 0; i < selection->columns_count; i++)
		if (selection->columns[i]->table == grid->table)
			grid->columns[grid->count++] = selection->columns[i];
	for (size_t i = 0; i < columns_count && !selection->columns_count; i++)
		if (columns[i].table == grid->table && columns[i].shown != SHOWN_ON_REQUEST)
			grid->columns[grid->count++] = &columns[i];
}

static void column_leave_out(struct grid *grid, size_t column)
{
	size_t behind = --grid->count - column;

	memmove(&grid->columns[column], &grid->columns[column + 1], behind * sizeof *grid->columns);
	memmove(&grid->widths[column], &grid->widths[column + 1], behind * sizeof *grid->widths);
}

static void columns_measure(struct grid *grid, bool chosen)
{
	struct cell cell;

	for (size_t i = grid->count; i-- > 0;) {
		size_t widest = 0;

		for (size_t row = 0; row < grid->rows_count; row++) {
			size_t width;

			cell_fill(grid, row, i, 0, &cell);
			width = strlen(cell.text);
			widest = width > widest ? width : widest;
		}
		grid->widths[i] = strlen(grid->columns[i]->name);
		if (widest > grid->widths[i])
			grid->widths[i] = widest;
		if (!widest && !chosen && grid->columns[i]->shown == SHOWN_IF_ANY)
			column_leave_out(grid, i);
	}
}

static size_t width_of(const struct grid *grid)
{
	size_t width = 0;

	for (size_t i = 0; i < grid->count; i++)
		width += grid->widths[i] + (i ? GRID_GAP : 0);
	return width;
}

/* Returns the widest column that may be cut further, among lists or among other columns; grid->count: none. */
static size_t column_to_cut(const struct grid *grid, bool list)
{
	size_t widest = grid->count;

	for (size_t i = 0; i < grid->count; i++) {
		const struct column *column = grid->columns[i];

		if (column->least && grid->widths[i] > column->least && column->list == list &&
		    (widest == grid->count || grid->widths[i] > grid->widths[widest]))
			widest = i;
	}
	return widest;
}

static void columns_cut(struct grid *grid)
{
	size_t column, width = width_of(grid);

	for (; width > grid->paper.width; width--) {
		column = column_to_cut(grid, true);
		if (column == grid->count)
			column = column_to_cut(grid, false);
		if (column == grid->count)
			return;
		grid->widths[column]--;
	}
}

/* Leaves out the column with the highest `drop`. Returns false if no column may be left out. */
static bool columns_drop(struct grid *grid)
{
	size_t drop = grid->count;

	for (size_t i = 0; i < grid->count; i++)
		if (grid->columns[i]->drop &&
		    (drop == grid->count || grid->columns[i]->drop > grid->columns[drop]->drop))
			drop = i;
	if (drop == grid->count)
		return false;
	column_leave_out(grid, drop);
	return true;
}

/* Returns true if the line would fit with each column cut to its least width. */
static bool could_fit(const struct grid *grid)
{
	size_t width = 0;

	for (size_t i = 0; i < grid->count; i++) {
		size_t least = grid->columns[i]->least;

		width += (least && least < grid->widths[i] ? least : grid->widths[i]) + (i ? GRID_GAP : 0);
	}
	return width <= grid->paper.width;
}

static void columns_fit(struct grid *grid, bool chosen)
{
	if (!grid->paper.width)
		return;
	while (!chosen && !could_fit(grid) && columns_drop(grid))
		;
	columns_cut(grid);
}

int grid_make(struct grid *grid, enum table_kind table, const json_t *rows, const struct selection *selection,
	      const struct paper *paper)
{
	bool chosen = selection->columns_count > 0;

	*grid = (struct grid){ .table = table, .paper = *paper };
	if (rows_take(grid, rows, selection))
		return -ENOMEM;
	rows_sort(grid, selection);
	columns_take(grid, selection);
	columns_measure(grid, chosen);
	columns_fit(grid, chosen);
	return 0;
}

void grid_free(struct grid *grid)
{
	free(grid->rows);
	*grid = (struct grid){ 0 };
}

/* ---- lines ---- */

/*
 * Appends a cell, padded to its column's width unless it is the last of the line and not at the right end. Returns the
 * line's length.
 */
static size_t line_add(const struct grid *grid, size_t column, const char *text, char line[GRID_LINE_MAX],
		       size_t length)
{
	size_t width = column + 1 == grid->count && !grid->columns[column]->right ? 0 : grid->widths[column];
	int added = snprintf(line + length, GRID_LINE_MAX - length, grid->columns[column]->right ? "%s%*s" : "%s%-*s",
			     column ? "  " : "", (int)width, text);

	length += added > 0 ? (size_t)added : 0;
	return length < GRID_LINE_MAX ? length : GRID_LINE_MAX - 1;
}

/* Cuts the line at the paper's width, and removes blanks at its end. Returns its length. */
static size_t line_end(const struct grid *grid, char line[GRID_LINE_MAX], size_t length)
{
	if (grid->paper.width && length > grid->paper.width)
		length = grid->paper.width;
	while (length && line[length - 1] == ' ')
		length--;
	line[length] = 0;
	return length;
}

size_t grid_heading(const struct grid *grid, char line[GRID_LINE_MAX])
{
	size_t length = 0;

	for (size_t i = 0; i < grid->count; i++)
		length = line_add(grid, i, grid->columns[i]->name, line, length);
	for (size_t i = 0; i < length; i++)
		line[i] = (char)toupper((unsigned char)line[i]);
	return line_end(grid, line, length);
}

size_t grid_line(const struct grid *grid, size_t row, char line[GRID_LINE_MAX])
{
	struct cell cell;
	size_t length = 0;

	for (size_t i = 0; i < grid->count; i++) {
		cell_fill(grid, row, i, grid->paper.width ? grid->widths[i] : 0, &cell);
		length = line_add(grid, i, cell.text, line, length);
	}
	return line_end(grid, line, length);
}

enum tone grid_tone(const struct grid *grid, size_t row)
{
	static const char *const warnings[] = { "draining", "freeing", "leaving", "lost", "orphaned", "dying" };
	static const char *const alarms[] = {
		"stopped", "dead", "unreadable", "cut off", "unproven", "zombie", "gone"
	};
	const char *texts[] = { json_text(grid->rows[row], "state"), json_text(grid->rows[row], "process") };
	enum tone tone = TONE_PLAIN;

	for (size_t text = 0; text < 2; text++) {
		for (size_t i = 0; i < sizeof warnings / sizeof *warnings; i++)
			if (tone < TONE_WARNING && !strcmp(texts[text], warnings[i]))
				tone = TONE_WARNING;
		for (size_t i = 0; i < sizeof alarms / sizeof *alarms; i++)
			if (!strcmp(texts[text], alarms[i]))
				tone = TONE_ALARM;
	}
	return tone;
}
