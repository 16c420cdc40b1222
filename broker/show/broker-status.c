/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-status.c - what brokers on this machine hold, who maps it, what waits for whom.
 *
 * Owns the command line and the choice of what is shown. Reads status files alone: it never speaks to a broker, so it
 * works as well when one is stopped or dead, and changes nothing.
 */
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/base/option-table.h"
#include "broker/base/streams.h"
#include "common/error.h"
#include "json.h"
#include "read.h"
#include "table.h"

#define EXIT_NONE  1
#define EXIT_USAGE 2

/* ---- the command line ---- */

static struct options {
	bool        list, json, counters;
	const char *instance; /* NULL: the only one there is, or all */
} options;

#define FLAG(field) VALUE(take_flag), .offset = offsetof(struct options, field)

static const struct option_row rows[] = {
	{ 'l', "list", NULL, "one line a broker, also when there is only one", FLAG(list) },
	{ 'j', "json", NULL, "JSON: an object, or with --list and for several brokers an array", FLAG(json) },
	{ 'c', "counters", NULL, "all counters, not only those that counted something, and all users", FLAG(counters) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table option_table = {
	.program = "broker-status",
	.usage = "usage: broker-status [OPTION ...] [INSTANCE]\n"
		 "Shows what a broker holds, who maps it, what waits for whom and what was refused.\n"
		 "Without INSTANCE: the only broker there is, or a list of them.\n",
	.ending = "\nThe exit status is 0 when a broker was shown, 1 when there is none, 2 for wrong usage.",
	.width = 16,
	.words = WORDS_BOUNDED,
	.words_max = 1,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

/* 0; 1: --help or --version was printed; negative errno with the error message. */
static int parse(int argc, char **argv)
{
	int result = option_table_read(&option_table, &options, NULL, argc, argv);

	if (result)
		return result;
	options.instance = argv[optind];
	if (options.instance && options.list)
		return error_set(-EINVAL, "'%.40s' and --list exclude each other: see broker-status --help", options.instance);
	return options.instance ? instance_check(options.instance) : 0;
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

static int run(int argc, char **argv)
{
	int result = parse(argc, argv);

	if (result > 0)
		return 0;
	if (result < 0) {
		log_say("%s", error_text());
		return EXIT_USAGE;
	}
	if (sodium_init() < 0) {
		log_say("libsodium cannot be started");
		return EXIT_NONE;
	}
	return options.instance ? show_one(options.instance) : show_found();
}

int main(int argc, char **argv)
{
	int code = streams_fill();

	if (!code)
		code = run(argc, argv);
	if (code >= 0 && !streams_flush())
		return code;
	log_say("%s", error_text());
	return EXIT_NONE;
}
