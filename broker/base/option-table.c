/* SPDX-License-Identifier: Apache-2.0 */
/* option-table.c - see option-table.h */
#include "option-table.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>

#include "common/error.h"

static void print_help(const struct option_table *table)
{
	char left[64];

	puts(table->usage);
	if (table->commands)
		table->commands(table->width);
	for (const struct option_row *row = table->rows; row < table->rows + table->count; row++) {
		snprintf(left, sizeof left, "%c%c%s--%s %s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
			 row->letter ? ", " : "  ", row->name, row->argument ? row->argument : "");
		printf("  %-*s %s%s%s\n", table->width, left, row->command ? row->command : "",
		       row->command ? ": " : "", row->text);
	}
	puts(table->ending);
}

static int row_take(const struct option_table *table, const struct option_row *row, void *options, const char *value)
{
	if (row < table->rows + table->count - 2)
		return value_take(&row->type, (char *)options + row->offset, value);
	if (row->letter == 'h')
		print_help(table);
	else
		printf("%s (" PACKAGE_NAME ") " PACKAGE_VERSION "\n", table->program);
	return 1;
}

static const struct option_row *row_of(const struct option_table *table, int letter, int index)
{
	const struct option_row *row = table->rows;

	if (!letter)
		return row + index;
	while (row->letter != letter)
		row++;
	return row;
}

static void fill_getopt(const struct option_table *table, char *letters, struct option *longs)
{
	if (table->words == WORDS_COMMAND)
		*letters++ = '+';
	*letters++ = ':';
	for (size_t i = 0; i < table->count; i++) {
		const struct option_row *row = &table->rows[i];

		*longs++ = (struct option){ row->name, row->argument ? required_argument : no_argument, NULL, 0 };
		if (!row->letter)
			continue;
		*letters++ = row->letter;
		if (row->argument)
			*letters++ = ':';
	}
	*letters = 0;
	*longs = (struct option){ 0 };
}

/*
 * Returns -EINVAL, and sets the error message, for an option that getopt_long(3) refuses. getopt_long(3) sets optopt to
 * the letter of a short option, because a word may have several letters, or to 0 for a long option, which is the whole
 * word. unknown: true if there is no such option, or it is ambiguous or has no value but was given one; false if it
 * lacks its value.
 */
static int option_error(const struct option_table *table, char **argv, bool unknown)
{
	char letter[3] = { '-', (char)optopt };
	const char *fault = optopt ? letter : argv[optind - 1];

	return error_set(-EINVAL, unknown ? "unknown option '%.40s': see %s --help" :
					    "the option '%.40s' needs a value: see %s --help",
			 fault, table->program);
}

int option_table_read(const struct option_table *table, void *options, uint32_t *given, int argc, char **argv)
{
	char letters[2 * OPTION_ROWS_MAX + 3];
	struct option longs[OPTION_ROWS_MAX + 1];
	const struct option_row *row;
	int letter, index, result = 0;

	assert(table->count <= OPTION_ROWS_MAX);
	fill_getopt(table, letters, longs);
	optind = 1;
	opterr = 0;
	while (!result && (letter = getopt_long(argc, argv, letters, longs, &index)) != -1) {
		if (letter == '?' || letter == ':')
			return option_error(table, argv, letter == '?');
		row = row_of(table, letter, index);
		if (given)
			*given |= 1u << (row - table->rows);
		result = row_take(table, row, options, optarg);
	}
	if (!result && table->words == WORDS_BOUNDED && argc - optind > table->words_max)
		return error_set(-EINVAL, "'%.40s' is one word too many: see %s --help",
				 argv[optind + table->words_max], table->program);
	return result;
}
