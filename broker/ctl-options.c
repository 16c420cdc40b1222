/* SPDX-License-Identifier: Apache-2.0 */
/* ctl-options.c - see ctl-options.h */
#include "ctl-options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/name.h"
#include "gpubroker.h"

#define LIFETIME_MS 3600000ull              /* of a ticket, unless told: as GPUB_TICKET_TERMS_INIT */
#define LIFETIME_MAX_MS 3153600000000ull    /* a hundred years */

/* ---- the commands ---- */

typedef int command_parser(struct ctl_options *options, char **arguments);

/* Buffers' names, to the end. */
static int parse_names(struct ctl_options *options, char **arguments)
{
	int error = 0;

	options->names = arguments;
	for (; !error && *arguments; arguments++)
		error = name_check(*arguments);
	return error;
}

static int parse_create(struct ctl_options *options, char **arguments)
{
	int error = value_size(arguments[1], &options->size, &options->device);

	arguments[1] = NULL;
	return error ? error : parse_names(options, arguments);
}

static int parse_chmod(struct ctl_options *options, char **arguments)
{
	int error = value_mode_change(arguments[0], &options->change);

	return error ? error : parse_names(options, arguments + 1);
}

static int parse_chown(struct ctl_options *options, char **arguments)
{
	int error = value_owner(arguments[0], &options->owner, &options->group);

	return error ? error : parse_names(options, arguments + 1);
}

static int parse_session(struct ctl_options *options, char **arguments)
{
	return value_number(arguments[0], "session", UINT64_MAX, &options->session);
}

static int parse_nothing(struct ctl_options *options, char **arguments)
{
	(void)options;
	(void)arguments;
	return 0;
}

static const struct {
	const char     *name, *arguments, *text;
	int             least, most; /* arguments */
	command_parser *parse;
} commands[CTL_COMMANDS] = {
	[CTL_CREATE] = { "create", "NAME SIZE[@DEVICE]", "make a buffer of zeros; SIZE in bytes, or with K, M, G", 2, 2,
			 parse_create },
	[CTL_UNLINK] = { "unlink", "NAME ...", "take names away; memory goes when nobody can touch it", 1, INT_MAX,
			 parse_names },
	[CTL_CHMOD] = { "chmod", "MODE NAME ...", "change who may acquire them: 0640, or g+r,o-w", 2, INT_MAX,
			parse_chmod },
	[CTL_CHOWN] = { "chown", "USER[:GROUP] NAME ...", "give them to another user, group (:GROUP) or both", 2, INT_MAX,
			parse_chown },
	[CTL_DRAIN] = { "drain", "NAME ...", "unlink them, and wait until their memory is freed", 1, INT_MAX,
			parse_names },
	[CTL_TICKET] = { "ticket", "NAME", "print a ticket for it: a secret, for gpub_redeem(3)", 1, 1, parse_names },
	[CTL_EVICT] = { "evict", "SESSION", "cut a session off; broker-status numbers them", 1, 1, parse_session },
	[CTL_DOCTOR] = { "doctor", "", "look for what keeps a program here from using the broker", 0, 0, parse_nothing },
};

static int command_find(struct ctl_options *options, const char *name)
{
	if (!name)
		return error_set(-EINVAL, "there is no command: see broker-ctl --help");
	for (int i = 0; i < CTL_COMMANDS; i++) {
		if (strcmp(name, commands[i].name))
			continue;
		options->command = (enum ctl_command)i;
		return 0;
	}
	return error_set(-EINVAL, "'%.40s' is no command: see broker-ctl --help", name);
}

static int command_parse(struct ctl_options *options, int count, char **arguments)
{
	int least = commands[options->command].least, most = commands[options->command].most;

	if (count < least || count > most)
		return error_set(-EINVAL, "%s takes %s arguments than these %d: broker-ctl %s %s",
				 commands[options->command].name, count < least ? "more" : "fewer", count,
				 commands[options->command].name, commands[options->command].arguments);
	return commands[options->command].parse(options, arguments);
}

/* ---- the options ---- */

typedef int option_setter(struct ctl_options *options, const char *value);

static int set_address(struct ctl_options *options, const char *value)
{
	options->address = value;
	return 0;
}

static int set_mode(struct ctl_options *options, const char *value)
{
	return value_mode(value, &options->mode);
}

static int set_timeline(struct ctl_options *options, const char *value)
{
	(void)value;
	options->timeline = true;
	return 0;
}

static int set_alone(struct ctl_options *options, const char *value)
{
	(void)value;
	options->alone = true;
	return 0;
}

static int set_milliseconds(int *ms, const char *value)
{
	uint64_t time;
	int error = value_time(value, INT_MAX, &time);

	if (!error)
		*ms = (int)time;
	return error;
}

static int set_wait(struct ctl_options *options, const char *value)
{
	return set_milliseconds(&options->wait_ms, value);
}

static int set_timeout(struct ctl_options *options, const char *value)
{
	return set_milliseconds(&options->timeout_ms, value);
}

static int set_rights(struct ctl_options *options, const char *value)
{
	return value_rights(value, &options->rights);
}

static int set_user(struct ctl_options *options, const char *value)
{
	return value_user(value, &options->user);
}

/* To the broker 0 means the buffer's life, which nobody means who writes 0 seconds. */
static int set_lifetime(struct ctl_options *options, const char *value)
{
	uint64_t time;
	int error;

	if (!strcmp(value, "forever")) {
		options->lifetime_ms = 0;
		return 0;
	}
	error = value_time(value, LIFETIME_MAX_MS, &time);
	if (!error && !time)
		error = error_set(-EINVAL, "a ticket that lives for '%.40s' is of no use: give a time, or forever", value);
	if (!error)
		options->lifetime_ms = time;
	return error;
}

static int set_many(struct ctl_options *options, const char *value)
{
	(void)value;
	options->many = true;
	return 0;
}

static int set_kill(struct ctl_options *options, const char *value)
{
	(void)value;
	options->kill = true;
	return 0;
}

static int print_help(struct ctl_options *options, const char *value);

static int print_version(struct ctl_options *options, const char *value)
{
	(void)options;
	(void)value;
	puts("broker-ctl (" PACKAGE_NAME ") " PACKAGE_VERSION);
	return 1;
}

#define EVERY CTL_COMMANDS

static const struct option_row {
	char             letter; /* 0: none */
	const char      *name, *argument, *text;
	option_setter   *set;
	enum ctl_command command; /* that takes it, or EVERY */
} rows[] = {
	{ 0, "address", "ADDRESS", "the broker: unix:PATH ($GPUBROKER, else the default sockets)", set_address, EVERY },
	{ 0, "mode", "MODE", "create: who may acquire it, in octal (0600)", set_mode, CTL_CREATE },
	{ 0, "timeline", NULL, "create: with a timeline", set_timeline, CTL_CREATE },
	{ 0, "alone", NULL, "create: with memory of its own, so that it can be given to others", set_alone, CTL_CREATE },
	{ 0, "wait", "TIME", "create: for how long to wait for memory; 30, 30s, 5m, 2h (0)", set_wait, CTL_CREATE },
	{ 0, "timeout", "TIME", "drain: for how long to wait (for ever)", set_timeout, CTL_DRAIN },
	{ 0, "rights", "RIGHTS", "ticket: r, w or rw (r)", set_rights, CTL_TICKET },
	{ 0, "user", "USER", "ticket: who may redeem it (whoever has it)", set_user, CTL_TICKET },
	{ 0, "lifetime", "TIME", "ticket: for how long; forever: as long as the buffer (1h)", set_lifetime, CTL_TICKET },
	{ 0, "many", NULL, "ticket: it can be redeemed any number of times, not once", set_many, CTL_TICKET },
	{ 0, "kill", NULL, "evict: and kill its process", set_kill, CTL_EVICT },
	{ 'h', "help", NULL, "print this and exit", print_help, EVERY },
	{ 'V', "version", NULL, "print the version and exit", print_version, EVERY },
};

#define ROWS (sizeof rows / sizeof rows[0])

static int print_help(struct ctl_options *options, const char *value)
{
	char left[64];

	(void)options;
	(void)value;
	puts("usage: broker-ctl [OPTION ...] COMMAND [ARGUMENT ...]\n"
	     "Has a broker make, change, share and drain buffers, and looks for what keeps programs from using it.\n");
	for (int i = 0; i < CTL_COMMANDS; i++) {
		snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].arguments);
		printf("  %-28s %s\n", left, commands[i].text);
	}
	putchar('\n');
	for (size_t i = 0; i < ROWS; i++) {
		snprintf(left, sizeof left, "%c%c%s--%s %s", rows[i].letter ? '-' : ' ',
			 rows[i].letter ? rows[i].letter : ' ', rows[i].letter ? ", " : "  ", rows[i].name,
			 rows[i].argument ? rows[i].argument : "");
		printf("  %-28s %s\n", left, rows[i].text);
	}
	puts("\nThe exit status is 0 when it was done, 1 when it was refused or doctor found a fault, 2 for wrong\n"
	     "usage, 3 when the time was over.");
	return 1;
}

static void fill_getopt(char letters[ROWS + 2], struct option longs[ROWS + 1])
{
	char *l = letters;

	*l++ = ':';
	for (size_t i = 0; i < ROWS; i++) {
		longs[i] = (struct option){ rows[i].name, rows[i].argument ? required_argument : no_argument, NULL, 0 };
		if (rows[i].letter)
			*l++ = rows[i].letter;
	}
	*l = 0;
	longs[ROWS] = (struct option){ 0 };
}

static const struct option_row *row_of(int letter, int index)
{
	for (size_t i = 0; i < ROWS; i++)
		if (letter ? rows[i].letter == letter : (size_t)index == i)
			return &rows[i];
	return NULL;
}

/* The option that getopt_long(3) complains of: optopt has a letter, which may stand among others. */
static const char *option_at_fault(char **argv, char letter[3])
{
	if (!optopt)
		return argv[optind - 1];
	snprintf(letter, 3, "-%c", optopt);
	return letter;
}

/* Sets what stands on the line; *given[i] says that rows[i] does. Leaves the other words behind optind. */
static int parse_options(struct ctl_options *options, int argc, char **argv, bool given[ROWS])
{
	char letters[ROWS + 2], fault[3];
	struct option longs[ROWS + 1];
	int letter, index, result;

	fill_getopt(letters, longs);
	opterr = 0;
	while ((letter = getopt_long(argc, argv, letters, longs, &index)) != -1) {
		const struct option_row *row;

		if (letter == '?')
			return error_set(-EINVAL, "unknown option '%.40s': see broker-ctl --help",
					 option_at_fault(argv, fault));
		if (letter == ':')
			return error_set(-EINVAL, "the option '%.40s' needs a value: see broker-ctl --help",
					 option_at_fault(argv, fault));
		row = row_of(letter, index);
		given[row - rows] = true;
		result = row->set(options, optarg);
		if (result)
			return result;
	}
	return 0;
}

/* An option that the command does not take would be silently of no effect. */
static int check_taken(const struct ctl_options *options, const bool given[ROWS])
{
	for (size_t i = 0; i < ROWS; i++)
		if (given[i] && rows[i].command != EVERY && rows[i].command != options->command)
			return error_set(-EINVAL, "%s takes no --%s, which is for %s: see broker-ctl --help",
					 commands[options->command].name, rows[i].name, commands[rows[i].command].name);
	return 0;
}

int ctl_options_parse(struct ctl_options *options, int argc, char **argv)
{
	bool given[ROWS] = { false };
	int result;

	*options = (struct ctl_options){ .mode = 0600,
					 .timeout_ms = -1,
					 .rights = GPUB_READ,
					 .user = GPUB_ANY_USER,
					 .lifetime_ms = LIFETIME_MS };
	result = parse_options(options, argc, argv, given);
	if (!result)
		result = command_find(options, argv[optind]);
	if (!result)
		result = check_taken(options, given);
	return result ? result : command_parse(options, argc - optind - 1, argv + optind + 1);
}
