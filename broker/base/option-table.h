/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option-table.h - a program's command line as one table, from which getopt_long(3) gets its options and --help its
 * text.
 *
 * A row is one option, with the type of its value and the field that the value is stored in. Owns nothing; knows no
 * option but --help and --version.
 */
#ifndef GPUB_OPTION_TABLE_H
#define GPUB_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "values.h"

struct option_row {
	char              letter;   /* letter of the short option; 0: none */
	const char       *name;     /* long option, without "--" */
	const char       *argument; /* what --help calls the value; NULL: the option has no value */
	const char       *text;     /* description of the option in --help */
	struct value_type type;
	size_t            offset;  /* offset of the option's field in the struct that the options fill */
	/* names of the commands that the option is for; NULL: all, or the program has no commands */
	const char       *command;
};

struct option_table {
	const char              *program;
	const char              *usage, *ending;       /* --help: text above and below the options */
	int                      width;                /* --help: width of the column of options, in characters */
	void                   (*commands)(int width); /* --help: prints the commands above the options; NULL: none */
	enum { WORDS_ANY, WORDS_COMMAND, WORDS_BOUNDED } words; /* WORDS_COMMAND: no options after the first word */
	int                      words_max; /* for WORDS_BOUNDED: largest number of words that are not options */
	const struct option_row *rows;      /* the options; the last two rows are OPTION_HELP_AND_VERSION */
	size_t                   count;     /* number of rows, at most OPTION_ROWS_MAX */
};

#define OPTION_HELP_AND_VERSION                                          \
	{ 'h', "help", NULL, "print this and exit", { 0 }, 0, NULL }, \
	{ 'V', "version", NULL, "print the version and exit", { 0 }, 0, NULL }

#define OPTION_ROWS_MAX 32

/*
 * Reads the command line into the struct at `options`. Returns 0, and argv[optind] is the first of the words that are
 * not options; 1 if --help or --version was printed; or a negative errno with the error message set. If given is not
 * NULL, sets in *given the bit (1 << index) of each row whose option the command line has.
 */
int option_table_read(const struct option_table *table, void *options, uint32_t *given, int argc, char **argv);

#endif
