/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the commands of broker-ctl, each one or a few requests to the broker over an ordinary connection.
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
	const char               *address; /* of the broker; NULL: where gpub_connect() looks by default */
	const struct ctl_command *command;
	char                    **names; /* of buffers, from the arguments; NULL-terminated */

	struct amount      amount; /* create; load uses only its device */
	unsigned           mode;   /* create, load: of the buffer */
	bool               timeline, dedicated, same_address, replace;
	uint64_t           reserve; /* create, load: bytes that the buffer may grow to; 0: it keeps its size */
	uint64_t           size;    /* resize: the new size in bytes */
	int                wait_ms; /* create, load, resize: how long to wait for memory; 0: not at all */

	const char        *file; /* load, save; "-": standard input or output */
	bool               seal, quiet;

	struct mode_change change; /* chmod: the change of each buffer's mode */
	struct owner       owner;  /* chown: the new owner and group */
	int                timeout_ms; /* drain: limit of the wait; -1: no limit */

	unsigned           rights; /* ticket: GPUB_READ, GPUB_WRITE */
	uint32_t           user;   /* ticket: who may redeem it; events: only of this user; GPUB_ANY_USER: any user */
	uint64_t           lifetime_ms; /* ticket: how long it is valid; 0: as long as the buffer has its name */
	bool               many;   /* ticket: it can be redeemed more than once */

	const char        *pattern; /* list: of the names to show; NULL: all */
	bool               json; /* list, stat, sessions, quota, events, doctor: print JSON */

	const char        *instance; /* events: the broker's name; NULL: not given */
	uint64_t           since_ms; /* events: only of the last since_ms milliseconds; 0: all */
	const char        *buffer, *kind; /* events: only with this name pattern, of this kind; NULL: any */
	unsigned           pid; /* events: only of this process; 0: any */
	bool               follow; /* events: wait for new events, and print them */

	uint64_t           session; /* evict: number of the session */
	bool               kill; /* evict: kill the session's process, too */
};

struct ctl_command {
	const char *name, *arguments, *text; /* as --help shows them */
	int         least, most;             /* number of arguments */
	int         value;                   /* index of the argument that is not a buffer's name */
	taker      *take;                    /* parses the argument `value`; NULL: all arguments are names */
	size_t      offset;                  /* in struct ctl_options, of the field that take sets */
	/* one of three functions: local() makes its own connection or none, each() is called for each name */
	enum ctl_exit (*local)(const struct ctl_options *options);
	enum ctl_exit (*run)(gpub_client *client, const struct ctl_options *options);
	int           (*each)(gpub_client *client, const struct ctl_options *options, const char *name);
};

extern const struct ctl_command ctl_commands[]; /* ends with a command whose name is NULL */

/* Runs options->command, and prints its results and errors. Returns the exit status. */
enum ctl_exit ctl_command_run(const struct ctl_options *options);

#endif
