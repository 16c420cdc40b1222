/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/option-table.h"
#include "broker/base/values.h"
#include "common/error.h"
#include "common/name.h"
#include "common/size.h"
#include "gpubroker.h"
#include "values.h"

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
	return number_parse(arguments[0], "session", 0, UINT64_MAX, &options->session);
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
	const char *name = commands[options->command].name;

	if (count < least || count > most)
		return error_set(-EINVAL, "%s takes %d argument%s%s and got %d: broker-ctl %s%s%s", name, least, PLURAL(least),
				 most > least ? " or more" : "", count, name, least ? " " : "",
				 commands[options->command].arguments);
	return commands[options->command].parse(options, arguments);
}

/* ---- the options ---- */

static int take_mode(void *field, const char *value)
{
	return value_mode(value, field);
}

static int take_milliseconds(void *field, const char *value)
{
	uint64_t time;
	int error = value_time(value, INT_MAX, &time);

	if (!error)
		*(int *)field = (int)time;
	return error;
}

static int take_rights(void *field, const char *value)
{
	return value_rights(value, field);
}

static int take_user(void *field, const char *value)
{
	return value_user(value, field);
}

/* To the broker 0 means the buffer's life, which nobody means who writes 0 seconds. */
static int take_lifetime(void *field, const char *value)
{
	uint64_t time = 0;
	int error = 0;

	if (strcmp(value, "forever")) {
		error = value_time(value, LIFETIME_MAX_MS, &time);
		if (!error && !time)
			error = error_set(-EINVAL, "a ticket that lives for '%.40s' is of no use: give a time, or forever",
					  value);
	}
	if (!error)
		*(uint64_t *)field = time;
	return error;
}

#define FIELD(field) .offset = offsetof(struct ctl_options, field)

static const struct option_row rows[] = {
	{ 0, "address", "ADDRESS", "the broker: unix:PATH ($GPUBROKER, else the default sockets)", take_text,
	  FIELD(address), NULL },
	{ 0, "mode", "MODE", "who may acquire it, in octal (0600)", take_mode, FIELD(mode), "create" },
	{ 0, "timeline", NULL, "with a timeline", take_flag, FIELD(timeline), "create" },
	{ 0, "dedicated", NULL, "with an allocation of its own, so that it can be given to others", take_flag,
	  FIELD(dedicated), "create" },
	{ 0, "alone", NULL, "the old name of --dedicated", take_flag, FIELD(dedicated), "create" },
	{ 0, "wait", "TIME", "for how long to wait for memory; 30, 30s, 5m, 2h (0)", take_milliseconds, FIELD(wait_ms),
	  "create" },
	{ 0, "timeout", "TIME", "for how long to wait (for ever)", take_milliseconds, FIELD(timeout_ms), "drain" },
	{ 0, "rights", "RIGHTS", "r, w or rw (r)", take_rights, FIELD(rights), "ticket" },
	{ 0, "user", "USER", "who may redeem it (whoever has it)", take_user, FIELD(user), "ticket" },
	{ 0, "lifetime", "TIME", "for how long; forever: as long as the buffer (1h)", take_lifetime, FIELD(lifetime_ms),
	  "ticket" },
	{ 0, "many", NULL, "it can be redeemed any number of times, not once", take_flag, FIELD(many), "ticket" },
	{ 0, "kill", NULL, "and kill its process", take_flag, FIELD(kill), "evict" },
	OPTION_HELP_AND_VERSION,
};

static void print_commands(int width)
{
	char left[64];

	for (int i = 0; i < CTL_COMMANDS; i++) {
		snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].arguments);
		printf("  %-*s %s\n", width, left, commands[i].text);
	}
	putchar('\n');
}

static const struct option_table table = {
	.program = "broker-ctl",
	.usage = "usage: broker-ctl [OPTION ...] COMMAND [ARGUMENT ...]\n"
		 "Has a broker make, change, share and drain buffers, and looks for what keeps programs from using it.\n",
	.ending = "\nThe exit status is 0 when it was done, 1 when it was refused or doctor found a fault, 2 for wrong\n"
		  "usage, 3 when the time was over.",
	.width = 28,
	.commands = print_commands,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

/* An option that the command does not take would be silently of no effect. */
static int check_taken(const struct ctl_options *options, uint32_t given)
{
	const char *command = commands[options->command].name;

	for (size_t i = 0; i < table.count; i++)
		if (given >> i & 1 && rows[i].command && strcmp(rows[i].command, command))
			return error_set(-EINVAL, "%s takes no --%s, which is for %s: see broker-ctl --help", command,
					 rows[i].name, rows[i].command);
	return 0;
}

int ctl_options_parse(struct ctl_options *options, int argc, char **argv)
{
	uint32_t given = 0;
	int result;

	*options = (struct ctl_options){ .mode = 0600,
					 .timeout_ms = -1,
					 .rights = GPUB_READ,
					 .user = GPUB_ANY_USER,
					 .lifetime_ms = LIFETIME_MS };
	result = option_table_read(&table, options, &given, argc, argv);
	if (!result)
		result = command_find(options, argv[optind]);
	if (!result)
		result = check_taken(options, given);
	return result ? result : command_parse(options, argc - optind - 1, argv + optind + 1);
}
