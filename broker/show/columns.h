/* SPDX-License-Identifier: Apache-2.0 */
/*
 * columns.h - every column of every table that people see, as one list: --columns, --sort, --help, the man page and --watch
 * share it. A new column is one row.
 *
 * A row of a table is a JSON object, as json.h shows it; a column makes a cell of it. Cells are printable ASCII, whatever the
 * object holds. Owns nothing.
 */
#ifndef GPUB_SHOW_COLUMNS_H
#define GPUB_SHOW_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <jansson.h>

#define CELL_MAX 4096 /* bytes of a cell with its zero */

enum table_kind { TABLE_BROKERS, TABLE_DEVICES, TABLE_USERS, TABLE_SESSIONS, TABLE_BUFFERS, TABLES };

enum column_shown {
	SHOWN_ALWAYS,
	SHOWN_IF_ANY,    /* where a row has something in it */
	SHOWN_ON_REQUEST /* of --columns */
};

struct column;

/* What a cell is made from. width: columns that it may have; 0: as many as it needs. */
struct cell {
	const struct column *column;
	const json_t        *row;
	time_t               now; /* what an age is counted to */
	size_t               width;
	char                 text[CELL_MAX];
};

struct column {
	enum table_kind        table;
	const char       *name, *text; /* name: in capitals its heading; text: what stands in it, for --columns=help */
	const char       *key;     /* of the row: what it is sorted by, and by default what is shown */
	void            (*make)(struct cell *cell);
	unsigned          least;   /* columns that it keeps on a narrow terminal; 0: it is never cut */
	unsigned          drop;    /* it is left out there, those with the highest first; 0: never */
	enum column_shown shown;
	bool              list;    /* it is cut before a column that is none */
	bool              right;   /* figures stand at the right */
	bool              rising;  /* sorted, the smallest number comes first */
};

extern const struct column columns[];
extern const size_t columns_count;

const char *table_name(enum table_kind table);

/*
 * "size", or "sessions.size" where several tables have one: the first table of TABLES from the end that has it. NULL: there is
 * none; the error message is set.
 */
const struct column *column_find(const char *name, bool brokers);

/* Fills cell->text for cell->row. */
void cell_make(struct cell *cell);

/* Negative, 0 or positive as the row one comes before the other; equal rows keep their order. */
int column_compare(const struct column *column, const json_t *one, const json_t *other);

/* Prints all columns: the table, the name, what stands in it. */
void columns_help(void);

/* The name of the user, or the number; text has room for USER_TEXT_MAX. */
#define USER_TEXT_MAX 33
const char *user_text(uint64_t uid, char text[USER_TEXT_MAX]);

/* Of a key that is not there, or is of another type, "?" and 0. */
const char *json_text(const json_t *object, const char *key);
uint64_t json_number(const json_t *object, const char *key);

/* Makes text fit into width columns: cut in the middle, where names of a kind differ least, and every byte printable. out may be text. */
void text_fit(char *out, size_t size, const char *text, size_t width);

#endif
