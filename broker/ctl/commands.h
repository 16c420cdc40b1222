/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the commands of broker-ctl, each one or a few requests to the broker over an ordinary connection; events
 * reads the status file instead.
 *
 * One table holds each command with its arguments, its help and its function. A command with several names reports
 * each failure on a line of stderr, and goes on with the next name. Owns the connection. The broker alone decides who
 * may do what.
 */
#ifndef GPUB_CTL_COMMANDS_H
#define GPUB_CTL_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/values.h"
#include "gpubroker.h"
#include "values.h"

enum ctl_exit { CTL_EXIT_DONE, CTL_EXIT_REFUSED, CTL_EXIT_USAGE, CTL_EXIT_TIME };

struct ctl_options {
	/* address of the broker; NULL: the address that gpub_connect() takes by default */
	const char               *address;
	const struct ctl_command *command;
	char                    **names; /* names of buffers, from the arguments; ended by NULL */

	struct amount      amount; /* create: size, layout and device; load: only the device */
	unsigned           mode;   /* create, load: permission bits of the new buffer */
	bool               timeline, dedicated, same_address, replace;
	uint64_t           reserve; /* create, load: bytes that the buffer may grow to; 0: the buffer keeps its size */
	uint64_t           size;    /* resize: the new size in bytes */
	int                wait_ms; /* create, load, resize: milliseconds to wait for memory; 0: not at all */

	const char        *file; /* load, save: path of the file; "-": standard input or output */
	bool               seal, quiet;

	struct mode_change change; /* chmod: the change of each buffer's mode */
	struct owner       owner;  /* chown: the new owner and group */
	int                timeout_ms; /* drain: largest wait in milliseconds; -1: no limit */

	unsigned           rights; /* ticket: the rights that it gives: bits GPUB_READ, GPUB_WRITE */
	/* ticket: uid that may redeem it; events: only events about this uid; GPUB_ANY_USER: any user */
	uint32_t           user;
	/* ticket: milliseconds that it is valid; 0: as long as the buffer has its name */
	uint64_t           lifetime_ms;
	bool               many;   /* ticket: true: the ticket can be redeemed more than once */

	const char        *pattern; /* list: pattern of the names to show; NULL: all */
	bool               json; /* list, stat, sessions, quota, events, doctor: print JSON */

	const char        *instance; /* events: the broker's name; NULL: not given */
	uint64_t           since_ms; /* events: only events of the last since_ms milliseconds; 0: all */
	/* events: only events of buffers with this name pattern, and of this kind; NULL: any */
	const char        *buffer, *kind;
	unsigned           pid; /* events: only events about the process with this pid; 0: any */
	bool               follow; /* events: wait for new events, and print them */

	uint64_t           session; /* evict: id of the session */
	bool               kill; /* evict: kill the session's process, too */
};

struct ctl_command {
	const char *name, *arguments, *text; /* the command's name, arguments and description, as --help shows them */
	int         least, most;             /* smallest and largest number of arguments */
	int         value;                   /* index of the argument that is not a buffer's name */
	taker      *take;                    /* parses the argument `value`; NULL: all arguments are names */
	size_t      offset;                  /* offset of the field of struct ctl_options that take() sets */
	/*
	 * a command has one of three functions: local() makes its own connection or none, run() gets a connection, and
	 * each() gets a connection and is called for each name
	 */
	enum ctl_exit (*local)(const struct ctl_options *options);
	enum ctl_exit (*run)(gpub_client *client, const struct ctl_options *options);
	int           (*each)(gpub_client *client, const struct ctl_options *options, const char *name);
};

extern const struct ctl_command ctl_commands[]; /* ends with a command whose name is NULL */

/* Runs options->command, and prints its results and errors. Returns the exit status. */
enum ctl_exit ctl_command_run(const struct ctl_options *options);

#endif
