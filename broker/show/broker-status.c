/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-status.c - what brokers on this machine hold, who maps it, what waits for whom.
 *
 * Owns the command line and the choice of what is shown. Reads status files alone: it never speaks to a broker, so it
 * works as well when one is stopped or dead, and changes nothing.
 */
#include <errno.h>
#include <getopt.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "broker/base/log.h"
#include "broker/base/streams.h"
#include "json.h"
#include "read.h"
#include "table.h"

#define EXIT_NONE  1
#define EXIT_USAGE 2

/* ---- the command line ---- */

static struct {
	bool        list, json, counters, help, version;
	const char *instance; /* NULL: the only one there is, or all */
} options;

static const struct {
	char        letter;
	const char *name, *text;
	bool       *given;
} rows[] = {
	{ 'l', "list", "one line a broker, also when there is only one", &options.list },
	{ 'j', "json", "JSON: an object, or with --list and for several brokers an array", &options.json },
	{ 'c', "counters", "all counters, not only those that counted something, and all users", &options.counters },
	{ 'h', "help", "print this and exit", &options.help },
	{ 'V', "version", "print the version and exit", &options.version },
};

#define ROWS (sizeof rows / sizeof rows[0])

static void print_help(void)
{
	puts("usage: broker-status [OPTION ...] [INSTANCE]\n"
	     "Shows what a broker holds, who maps it, what waits for whom and what was refused.\n"
	     "Without INSTANCE: the only broker there is, or a list of them.\n");
	for (size_t i = 0; i < ROWS; i++)
		printf("  -%c, --%-10s %s\n", rows[i].letter, rows[i].name, rows[i].text);
	puts("\nThe exit status is 0 when a broker was shown, 1 when there is none, 2 for wrong usage.");
}

static int usage(const char *word, const char *wrong)
{
	log_say("'%.40s' %s: see broker-status --help", word, wrong);
	return EXIT_USAGE;
}

static void fill_getopt(char letters[ROWS + 1], struct option longs[ROWS + 1])
{
	for (size_t i = 0; i < ROWS; i++) {
		longs[i] = (struct option){ rows[i].name, no_argument, NULL, rows[i].letter };
		letters[i] = rows[i].letter;
	}
	letters[ROWS] = 0;
	longs[ROWS] = (struct option){ 0 };
}

/* 0, or the exit status. */
static int parse(int argc, char **argv)
{
	char letters[ROWS + 1], fault[3];
	struct option longs[ROWS + 1];
	int letter;

	fill_getopt(letters, longs);
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		/* a letter that is no option may stand among others */
		snprintf(fault, sizeof fault, "-%c", optopt);
		if (letter == '?')
			return usage(optopt && !strchr(letters, optopt) ? fault : argv[optind - 1], "is no option");
		for (size_t i = 0; i < ROWS; i++)
			if (rows[i].letter == letter)
				*rows[i].given = true;
	}
	if (argc - optind > 1)
		return usage(argv[optind + 1], "is one argument too many");
	options.instance = argv[optind];
	if (options.instance && options.list)
		return usage(options.instance, "and --list exclude each other");
	if (!options.instance || !instance_check(options.instance))
		return 0;
	log_say("%s", error_text());
	return EXIT_USAGE;
}

/* ---- showing ---- */

static int show_one(const char *instance)
{
	struct shown shown;

	if (shown_read(&shown, instance)) {
		log_say("%s", error_text());
		return EXIT_NONE;
	}
	if (options.json)
		json_show(&shown);
	else
		table_show(&shown, options.counters);
	shown_free(&shown);
	return 0;
}

/* False: it ended meanwhile. What cannot be read has its row too. */
static bool list_read(struct shown *shown, const char *instance)
{
	int error = shown_read(shown, instance);

	if (!error)
		return true;
	if (error == -ENOENT)
		return false;
	shown_refused(shown, instance);
	log_say("%s", error_text());
	return true;
}

static void list_end(size_t count)
{
	if (!count)
		log_say("no broker runs on this machine, and none left anything: broker-run starts one");
	if (options.json)
		json_list_end(count);
}

/* One after the other: together, what many users wrote could take all memory. */
static int show_list(const struct instances *instances)
{
	size_t count = 0, readable = 0;
	struct shown shown;

	for (size_t i = 0; i < instances->count; i++) {
		if (!list_read(&shown, instances->names[i]))
			continue;
		(options.json ? json_list : table_list)(&shown, count++);
		readable += shown.state != SHOWN_UNREADABLE;
		shown_free(&shown);
	}
	list_end(count);
	return readable ? 0 : EXIT_NONE;
}

static int show_found(void)
{
	struct instances instances;
	int code;

	if (instances_find(&instances)) {
		log_say("%s", error_text());
		return EXIT_NONE;
	}
	code = instances.count == 1 && !options.list ? show_one(instances.names[0]) : show_list(&instances);
	instances_free(&instances);
	return code;
}

static int run(void)
{
	if (options.help)
		print_help();
	else if (options.version)
		puts("broker-status (" PACKAGE_NAME ") " PACKAGE_VERSION);
	else
		return options.instance ? show_one(options.instance) : show_found();
	return 0;
}

int main(int argc, char **argv)
{
	int code;

	if (streams_fill()) {
		log_say("%s", error_text());
		return EXIT_NONE;
	}
	code = parse(argc, argv);
	if (code)
		return code;
	if (sodium_init() < 0) {
		log_say("libsodium cannot be started");
		return EXIT_NONE;
	}
	code = run();
	if (fflush(stdout) || ferror(stdout)) {
		log_say("the output cannot be written: %m");
		return EXIT_NONE;
	}
	return code;
}
