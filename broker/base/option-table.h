/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option-table.h - the command line of each program as one table: getopt_long(3) is fed from it, --help is printed from
 * it, and each row has the type of its value and the field that gets it.
 *
 * Owns nothing; knows no option but --help and --version.
 */
#ifndef GPUB_OPTION_TABLE_H
#define GPUB_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "values.h"

struct option_row {
	char              letter; /* 0: none */
	const char       *name, *argument, *text;
	struct value_type type;
	size_t            offset;  /* of its field, in the structure that the options fill */
	const char       *command; /* that it is for; NULL: for every one, or the program has none */
};

struct option_table {
	const char              *program;
	const char              *usage, *ending; /* above and below the options in --help */
	int                      width;          /* of their column there */
	void                   (*commands)(int width); /* prints them between usage and options; NULL: there are none */
	enum { WORDS_ANY, WORDS_COMMAND, WORDS_BOUNDED } words; /* COMMAND: behind the first one there are no options */
	int                      words_max; /* where they are bounded */
	const struct option_row *rows;      /* the last two are OPTION_HELP_AND_VERSION */
	size_t                   count;
};

#define OPTION_HELP_AND_VERSION                                          \
	{ 'h', "help", NULL, "print this and exit", { 0 }, 0, NULL }, \
	{ 'V', "version", NULL, "print the version and exit", { 0 }, 0, NULL }

#define OPTION_ROWS_MAX 32

/*
 * 0: the other words begin at argv[optind]; 1: --help or --version was printed; negative errno with the error message.
 * given, where it is not NULL: a bit for each row that stands on the command line.
 */
int option_table_read(const struct option_table *table, void *options, uint32_t *given, int argc, char **argv);

#endif
