/* SPDX-License-Identifier: Apache-2.0 */
/*
 * broker-status.c - the program broker-status: shows what the brokers of this machine hold, who maps it, what waits
 * for whom.
 *
 * Owns the command line and the choice of what is shown. Reads status files, so it also works if a broker is stopped
 * or dead, and changes nothing. Connects to a running broker only for --why (explain.h), and for a user that may not
 * read the broker's file or does not see the file from its container (ask.h).
 */
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/base/option-table.h"
#include "broker/base/streams.h"
#include "ask.h"
#include "common/error.h"
#include "device/device.h"
#include "explain.h"
#include "json.h"
#include "process.h"
#include "openmetrics.h"
#include "read.h"
#include "table.h"
#include "watch.h"

#define EXIT_NONE  1 /* the value of EXPLAIN_NONE, too */
#define EXIT_USAGE 2
#define EXIT_DEAD  4 /* 3 is EXPLAIN_DEADLOCK */

/* ---- the command line ---- */

static struct options {
	bool                 list, json, counters, watch, why, openmetrics, prometheus;
	unsigned             delay;
	const char          *sort, *columns, *user, *device, *holder;
	const char          *about;    /* --why: the buffer's name or the pid to explain; NULL: everything that waits */
	const char          *instance; /* name of the broker to show; NULL: the only broker, or all */
	struct table_options table;
} options = { .delay = 1 };

#define FLAG(field) VALUE(take_flag), .offset = offsetof(struct options, field)
#define TEXT(field) VALUE(take_text), .offset = offsetof(struct options, field)

static const struct option_row rows[] = {
	{ 'l', "list", NULL, "one line a broker, also when there is only one", FLAG(list) },
	{ 'j', "json", NULL, "JSON: an object, or with --list and for several brokers an array", FLAG(json) },
	{ 'c', "counters", NULL, "all counters, not only those that counted something, and all users", FLAG(counters) },
	{ 's', "sort", "COLUMN", "sort each table that has the column; -COLUMN: the other way round", TEXT(sort) },
	{ 'o', "columns", "LIST", "these columns alone, with commas between them; help: list all there are",
	  TEXT(columns) },
	{ 'u', "user", "USER", "only what is of this user, by name or number", TEXT(user) },
	{ 0, "device", "N", "only what is on this device", TEXT(device) },
	{ 0, "holder", "PID|SESSION", "only what this process or session holds", TEXT(holder) },
	{ 'w', "watch", NULL, "on the whole terminal, again and again, with rates; the keys are shown there",
	  FLAG(watch) },
	{ 0, "delay", "SECONDS", "--watch: from one look to the next, 1 to 3600 (1)",
	  NUMBER("number of seconds", 1, 3600), .offset = offsetof(struct options, delay) },
	{ 0, "why", NULL, "what waits, for whom, and what to do: of a BUFFER, a PID, or all", FLAG(why) },
	{ 0, "openmetrics", NULL, "metrics as OpenMetrics text, of all brokers or of INSTANCE", FLAG(openmetrics) },
	{ 0, "prometheus", NULL, "the same as Prometheus text, for node_exporter's textfile collector",
	  FLAG(prometheus) },
	OPTION_HELP_AND_VERSION,
};

static const struct option_table option_table = {
	.program = "broker-status",
	.usage = "usage: broker-status [OPTION ...] [INSTANCE]\n"
		 "       broker-status --why [BUFFER|PID] [INSTANCE]\n"
		 "Shows what a broker holds, who maps it, what waits for whom and what was refused.\n"
		 "Without INSTANCE: the only broker there is, or a list of them.\n",
	.ending = "\n"
		  "The exit status is 0 when a broker or metrics were shown, 1 when there is none,\n"
		  "2 for wrong usage, 3 when --why found a deadlock, 4 when the broker is dead.",
	.width = 24,
	.words = WORDS_BOUNDED,
	.words_max = 2,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

/* ---- what is selected ---- */

static int take_sort(struct selection *selection)
{
	selection->reversed = *options.sort == '-';
	selection->sort = options.sort + selection->reversed;
	return column_find(selection->sort, options.list) ? 0 : -EINVAL;
}

static int take_columns(struct selection *selection)
{
	char name[64];

	for (const char *at = options.columns;; at += strcspn(at, ",") + 1) {
		const struct column *column;

		if (selection->columns_count == GRID_COLUMNS_MAX)
			return error_set(-EINVAL, "--columns takes at most %d columns", GRID_COLUMNS_MAX);
		snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
		column = column_find(name, options.list);
		if (!column)
			return -EINVAL;
		selection->columns[selection->columns_count++] = column;
		if (!at[strcspn(at, ",")])
			return 0;
	}
}

static int take_user_number(struct selection *selection)
{
	uint32_t user;
	int error = take_user(&user, options.user);

	selection->of_user = !error;
	selection->user = error ? 0 : user;
	return error;
}

static int take_selection(struct selection *selection)
{
	int error = options.sort ? take_sort(selection) : 0;

	if (!error && options.columns)
		error = take_columns(selection);
	if (!error && options.user)
		error = take_user_number(selection);
	if (!error && options.device)
		error = number_parse(options.device, "device", 0, DEVICE_MAX - 1, &selection->device);
	if (!error && options.holder)
		error = number_parse(options.holder, "process or session", 1, INT64_MAX, &selection->holder);
	selection->of_device = options.device;
	selection->of_holder = options.holder;
	return error;
}

static bool is_filtered(void)
{
	return options.user || options.device || options.holder;
}

static int check_together(void)
{
	if (options.instance && options.list)
		return error_set(-EINVAL, "'%.40s' and --list exclude each other: see broker-status --help",
				 options.instance);
	if (options.json && (is_filtered() || options.sort || options.columns))
		return error_set(-EINVAL, "--json shows all of it, as it is: leave out --sort, --columns, --user, "
					  "--device and --holder, and select with jq");
	if (options.list && is_filtered())
		return error_set(-EINVAL, "--user, --device and --holder look into brokers, and --list shows none from "
					  "inside: leave it out");
	if (options.why && (options.list || options.json || options.counters || options.watch || is_filtered() ||
			    options.sort || options.columns))
		return error_set(-EINVAL, "--why goes with no other option: see broker-status --help");
	if ((options.openmetrics || options.prometheus) &&
	    (options.list || options.json || options.watch || options.why || is_filtered()))
		return error_set(-EINVAL, "metrics go with no other option: see broker-status --help");
	if (options.watch && (options.json || options.list || options.counters))
		return error_set(-EINVAL,
				 "--watch shows tables of one broker: leave out --json, --list and --counters");
	return options.instance ? instance_check(options.instance) : 0;
}

/*
 * Takes the words of the command line: [INSTANCE], or with --why [ABOUT] [INSTANCE], where a single word that names a
 * broker is INSTANCE.
 */
static int words_take(int count, char **words)
{
	if (count > 1 && !options.why)
		return error_set(-EINVAL, "'%.40s' is one word too many: see broker-status --help", words[1]);
	if (options.why && count && (count > 1 || !instance_is_there(words[0])))
		options.about = *words++;
	options.instance = *words;
	return 0;
}

/*
 * Reads the command line. Returns 0; 1 if --help, --version or --columns=help was printed; or a negative errno with the
 * error message set.
 */
static int parse(int argc, char **argv)
{
	int result = option_table_read(&option_table, &options, NULL, argc, argv);

	if (result)
		return result;
	if (options.columns && !strcmp(options.columns, "help")) {
		columns_help();
		return 1;
	}
	result = words_take(argc - optind, argv + optind);
	if (!result)
		result = check_together();
	if (!result)
		result = take_selection(&options.table.selection);
	options.table.paper = table_paper();
	options.table.all = options.counters;
	return result;
}

/* ---- showing ---- */

static int complain(void)
{
	log_say("%s", error_text());
	return EXIT_NONE;
}

/* Returns the exit status. */
static int show_shown(struct shown *shown)
{
	bool dead = shown->state == SHOWN_DEAD;
	int error = 0;

	processes_add(shown);
	if (options.json)
		json_show(shown);
	else
		error = table_show(shown, &options.table);
	shown_free(shown);
	if (error)
		return complain();
	return dead ? EXIT_DEAD : 0;
}

static int show_one(const char *instance)
{
	struct shown shown;

	if (options.watch)
		return watch_show(instance, &options.table, options.delay) ? complain() : 0;
	return shown_read_or_ask(&shown, instance) ? complain() : show_shown(&shown);
}

/*
 * Reads the status of a broker for a list of brokers. Returns false if its file is gone. A file that cannot be read
 * gets the state SHOWN_UNREADABLE.
 */
static bool list_read(struct shown *shown, const char *instance)
{
	int error = shown_read_or_ask(shown, instance);

	if (!error)
		return true;
	if (error == -ENOENT)
		return false;
	shown_refused(shown, instance);
	log_say("%s", error_text());
	return true;
}

static int list_end(const json_t *list, size_t count)
{
	if (!count)
		log_say("no broker runs on this machine, and none left anything: broker-run starts one");
	if (options.json)
		json_list_end(count);
	return options.json ? 0 : table_list_show(list, &options.table);
}

/* Shows a list of brokers. Reads one at a time, because the files of many users together could take all memory. */
static int show_list(const struct instances *instances)
{
	size_t count = 0, readable = 0;
	json_t *list = json_array();
	struct shown shown;

	for (size_t i = 0; i < instances->count; i++) {
		if (!list_read(&shown, instances->names[i]))
			continue;
		if (options.json) {
			processes_add(&shown);
			json_list(&shown, count);
		} else {
			table_list_add(list, &shown);
		}
		count++;
		readable += shown.state != SHOWN_UNREADABLE;
		shown_free(&shown);
	}
	if (list_end(list, count))
		readable = !complain();
	json_decref(list);
	return readable ? 0 : EXIT_NONE;
}

/* Shows the tables of each broker, for filters, columns or an order that the list of brokers cannot show. */
static int show_each(const struct instances *instances)
{
	struct shown shown;
	size_t readable = 0;

	options.table.head = true;
	for (size_t i = 0; i < instances->count; i++) {
		if (!list_read(&shown, instances->names[i]))
			continue;
		if (shown.state == SHOWN_UNREADABLE)
			continue;
		if (readable++)
			putchar('\n');
		if (show_shown(&shown) == EXIT_NONE)
			return EXIT_NONE;
	}
	return readable ? 0 : EXIT_NONE;
}

static int show_instances(const struct instances *instances)
{
	if (instances->count == 1 && !options.list)
		return show_one(instances->names[0]);
	if (instances->count && options.watch) {
		log_say("there are %zu brokers: say which to watch, as in broker-status --watch %s", instances->count,
			instances->names[0]);
		return EXIT_USAGE;
	}
	if (instances->count && !options.list && (is_filtered() || options.columns || options.sort))
		return show_each(instances);
	return show_list(instances);
}

/*
 * Shows the broker at the default address, whose file may be in another mount namespace. Returns false if no broker
 * answers there, or with --list or --watch, else sets the exit status.
 */
static bool show_unseen(int *code)
{
	struct shown shown;

	if (options.list || options.watch || shown_ask_default(&shown, NULL))
		return false;
	if (options.why) {
		*code = (int)explain_one(shown.instance, options.about);
		shown_free(&shown);
	} else {
		*code = show_shown(&shown);
	}
	return true;
}

static int show_found(void)
{
	struct instances instances;
	int code;

	if (instances_find(&instances))
		return complain();
	if (!instances.count && show_unseen(&code))
		return code;
	code = options.why ? (int)explain_all(&instances, options.about) : show_instances(&instances);
	instances_free(&instances);
	return code;
}

/*
 * Writes the metrics of all brokers, or of the one that was named. Writes a text also if there is no broker, because a
 * collector would otherwise keep the last text.
 */
static int show_metrics(void)
{
	char name[1][INSTANCE_SIZE];
	const struct metrics_wanted wanted = { { name, options.instance != NULL }, METRICS_ANY_OWNER };

	snprintf(name[0], sizeof name[0], "%s", options.instance ? options.instance : "");
	if (!metrics_write(stdout, options.openmetrics ? METRICS_OPENMETRICS : METRICS_PROMETHEUS, &wanted))
		return 0;
	log_say("%s", error_text());
	return EXIT_NONE;
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
	if (options.openmetrics || options.prometheus)
		return show_metrics();
	if (!options.instance)
		return show_found();
	return options.why ? (int)explain_one(options.instance, options.about) : show_one(options.instance);
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
