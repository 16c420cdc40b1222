/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "broker/base/option-table.h"
#include "common/error.h"
#include "common/handle.h"
#include "common/name.h"
#include "common/size.h"
#include "gpubroker.h"
#include "values.h"

#define LIFETIME_MS 3600000u /* default lifetime of a ticket, as in GPUB_TICKET_TERMS_INIT */

#define NUMBER_OF_PROCESS NUMBER("process", 1, INT_MAX)

#define FIELD(field) .offset = offsetof(struct ctl_options, field)

static const struct option_row rows[] = {
	{ 0, "address", "ADDRESS", "the broker: its name, or unix:PATH ($GPUBROKER, else the default sockets)",
	  VALUE(take_text), FIELD(address), NULL },
	{ 0, "mode", "MODE", "who may acquire it, in octal (0600)", VALUE(take_mode), FIELD(mode), "create, load" },
	{ 0, "timeline", NULL, "with a timeline", VALUE(take_flag), FIELD(timeline), "create" },
	{ 0, "dedicated", NULL, "with an allocation of its own, so that it can be given to others", VALUE(take_flag),
	  FIELD(dedicated), "create, load" },
	{ 0, "same-address", NULL, "each process maps it at the same address", VALUE(take_flag), FIELD(same_address),
	  "create, load" },
	{ 0, "reserve", "SIZE", "how large it may become (resize); 0: it keeps its size", VALUE(take_size_or_0),
	  FIELD(reserve), "create, load" },
	{ 0, "wait", "TIME", "how long to wait for memory; 30, 30s, 5m, 2h (0)", VALUE(take_milliseconds),
	  FIELD(wait_ms), "create, load, resize" },
	{ 0, "device", "NUMBER", "the broker's number of the device (0)", NUMBER("device", 0, DEVICE_MAX - 1),
	  FIELD(amount.device), "load" },
	{ 0, "seal", NULL, "refuse leases that write it, from the beginning", VALUE(take_flag), FIELD(seal), "load" },
	{ 'q', "quiet", NULL, "show no progress, also on a terminal", VALUE(take_flag), FIELD(quiet), "load, save" },
	{ 0, "replace", NULL, "a buffer that has the new name is unlinked", VALUE(take_flag), FIELD(replace),
	  "rename, load" },
	{ 0, "timeout", "TIME", "how long to wait (without limit)", VALUE(take_milliseconds), FIELD(timeout_ms),
	  "drain" },
	{ 0, "rights", "RIGHTS", "r, w or rw (r)", VALUE(take_rights), FIELD(rights), "ticket" },
	{ 0, "user", "USER", "who may redeem it (whoever has it); whose events (all)", VALUE(take_user), FIELD(user),
	  "ticket, events" },
	{ 0, "lifetime", "TIME", "for how long; forever: as long as the buffer (1h)", VALUE(take_lifetime),
	  FIELD(lifetime_ms), "ticket" },
	{ 0, "many", NULL, "it can be redeemed any number of times, not once", VALUE(take_flag), FIELD(many),
	  "ticket" },
	{ 0, "json", NULL, "print what it finds as JSON", VALUE(take_flag), FIELD(json),
	  "doctor, list, stat, sessions, quota, events" },
	{ 0, "since", "TIME", "events of that last time alone", VALUE(take_since), FIELD(since_ms), "events" },
	{ 0, "buffer", "NAME", "of that buffer alone; NAME may be a pattern", VALUE(take_text), FIELD(buffer),
	  "events" },
	{ 0, "pid", "PID", "of that process alone", NUMBER_OF_PROCESS, FIELD(pid), "events" },
	{ 0, "kind", "KIND", "of that kind alone, such as create", VALUE(take_text), FIELD(kind), "events" },
	{ 0, "follow", NULL, "go on with those that come", VALUE(take_flag), FIELD(follow), "events" },
	{ 0, "kill", NULL, "and kill its process", VALUE(take_flag), FIELD(kill), "evict" },
	OPTION_HELP_AND_VERSION,
};

static void print_commands(int width)
{
	char left[64];

	for (const struct ctl_command *command = ctl_commands; command->name; command++) {
		snprintf(left, sizeof left, "%s %s", command->name, command->arguments);
		printf("  %-*s %s\n", width, left, command->text);
	}
	putchar('\n');
}

static const struct option_table table = {
	.program = "broker-ctl",
	.usage = "usage: broker-ctl [OPTION ...] COMMAND [ARGUMENT ...]\n"
		 "Has a broker make, change, share and drain buffers, and looks for what keeps programs from using "
		 "it.\n",
	.ending = "\n"
		  "The exit status is 0 when it was done, 1 when it was refused or doctor found a fault, 2 for wrong\n"
		  "usage, 3 when the time had run out.",
	.width = 28,
	.commands = print_commands,
	.rows = rows,
	.count = sizeof rows / sizeof *rows,
};

static int command_find(struct ctl_options *options, const char *name)
{
	if (!name)
		return error_set(-EINVAL, "there is no command: see broker-ctl --help");
	for (options->command = ctl_commands; options->command->name; options->command++)
		if (!strcmp(name, options->command->name))
			return 0;
	return error_set(-EINVAL, "'%.40s' is no command: see broker-ctl --help", name);
}

/* Returns true if the command is in the list `commands`, such as "create, load". */
static bool is_among(const char *command, const char *commands)
{
	size_t length = strlen(command);

	while (strncmp(commands, command, length) || (commands[length] && commands[length] != ',')) {
		commands = strchr(commands, ' ');
		if (!commands++)
			return false;
	}
	return true;
}

/*
 * Refuses options that the command does not take, because they would silently have no effect. given: a bit for each row
 * of the table whose option is given.
 */
static int check_taken(const struct ctl_options *options, uint32_t given)
{
	const char *command = options->command->name;

	for (size_t i = 0; i < table.count; i++)
		if (given >> i & 1 && rows[i].command && !is_among(command, rows[i].command))
			return error_set(-EINVAL, "%s takes no --%s, which is for %s: see broker-ctl --help", command,
					 rows[i].name, rows[i].command);
	return 0;
}

/*
 * Parses the command's arguments: the argument command->value is parsed by command->take(), and the others are names of
 * buffers.
 */
static int arguments_take(struct ctl_options *options, int count, char **arguments)
{
	const struct ctl_command *command = options->command;
	int names = 0, error = 0;

	if (count < command->least || count > command->most)
		return error_set(-EINVAL, "%s takes %d argument%s%s and got %d: broker-ctl %s%s%s", command->name,
				 command->least, PLURAL(command->least),
				 command->most > command->least ? " or more" : "", count, command->name,
				 command->least ? " " : "", command->arguments);
	options->names = arguments;
	for (int i = 0; !error && i < count; i++) {
		if (command->take && i == command->value)
			error = command->take((char *)options + command->offset, arguments[i]);
		else
			error = name_check(options->names[names++] = arguments[i]);
	}
	options->names[names] = NULL;
	return error;
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
	return result ? result : arguments_take(options, argc - optind - 1, argv + optind + 1);
}
