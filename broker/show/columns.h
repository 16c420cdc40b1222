/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns.h - one list of all columns of all tables, for --columns, --columns=help, --sort and --watch. A new column is
 * one row of the list, and of the man page.
 *
 * A row of a table is a JSON object, as json.h shows it; a column makes a cell from it. Cells are printable ASCII,
 * whatever the object contains. Owns nothing.
 */
#ifndef GPUB_SHOW_COLUMNS_H
#define GPUB_SHOW_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <jansson.h>

#define CELL_MAX 4096 /* size of a cell's text in bytes, with the NUL */

enum table_kind { TABLE_BROKERS, TABLE_DEVICES, TABLE_USERS, TABLE_SESSIONS, TABLE_BUFFERS, TABLES };

enum column_shown {
	SHOWN_ALWAYS,
	SHOWN_IF_ANY,    /* shown if the column has text in at least one row */
	SHOWN_ON_REQUEST /* shown if --columns names the column */
};

struct column;

/* One cell: the inputs of cell_make(), and its text. */
struct cell {
	const struct column *column;
	const json_t        *row;
	time_t               now;   /* the present time, by which ages are computed */
	size_t               width; /* largest number of characters; 0: no limit */
	char                 text[CELL_MAX];
};

struct column {
	enum table_kind        table;
	const char       *name, *text; /* name: also the heading, in capitals; text: description for --columns=help */
	/* key of the row's value that is sorted by, and shown, unless make() shows values of other keys */
	const char       *key;
	void            (*make)(struct cell *cell); /* writes the text of a cell */
	/* smallest width to which the column is cut, in characters; 0: the column is never cut */
	unsigned          least;
	/* where the columns do not fit, the one with the highest number is left out first; 0: never left out */
	unsigned          drop;
	enum column_shown shown;
	bool              list;    /* true: the cell is a list; lists are cut before other columns */
	bool              right;   /* true: the cell's text is at the right end */
	/* true: numbers are sorted from the smallest on; false: from the largest on. Text is always sorted from A on */
	bool              rising;
};

extern const struct column columns[];
extern const size_t columns_count;

const char *table_name(enum table_kind table);

/*
 * Finds a column by its name, "size", or with its table, "sessions.size". Without a table, the last table that has
 * such a column counts. brokers: look in the list of brokers only, else in all other tables. Returns NULL with the
 * error message set if there is no such column.
 */
const struct column *column_find(const char *name, bool brokers);

/*
 * Finds a column of the table by its name, with or without the table. Returns NULL, without an error message, if the
 * table has no such column.
 */
const struct column *column_in(enum table_kind table, const char *name);

/* Writes cell->text for cell->row and cell->column. */
void cell_make(struct cell *cell);

/* Compares two rows for sorting by the column: negative if `one` comes first, 0 if both are equal, or positive. */
int column_compare(const struct column *column, const json_t *one, const json_t *other);

/* Prints a line for each column: the table, the name, the description. */
void columns_help(void);

/* Writes the user's name to text, or the uid if the user has none. Returns text. */
#define USER_TEXT_MAX 33
const char *user_text(uint64_t uid, char text[USER_TEXT_MAX]);

/* Return the value of the key in the object. If the key is missing or has another type, they return "?" and 0. */
const char *json_text(const json_t *object, const char *key);
uint64_t json_number(const json_t *object, const char *key);

/*
 * Copies text to out, which has `size` bytes, in at most `width` characters (0: as many as fit). Cuts the middle,
 * where similar names differ least, and replaces each byte that is not printable. out may be text.
 */
void text_fit(char *out, size_t size, const char *text, size_t width);

#endif
