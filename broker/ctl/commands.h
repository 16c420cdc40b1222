/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commands.h - the commands of broker-ctl, each one or a few requests to the broker over an ordinary connection.
 *
 * One table holds each command with its arguments, its help and its function. What is refused is reported on stderr, a
 * line each; the rest goes on. Owns the connection while it lasts. Never decides who may do what: that is the broker's.
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
	const char               *address; /* NULL: wherever gpub_connect() looks */
	const struct ctl_command *command;
	char                    **names; /* of buffers; NULL-terminated */

	struct amount      amount; /* create; of load the device alone */
	unsigned           mode;   /* create, load */
	bool               timeline, dedicated, same_address, replace;
	uint64_t           reserve; /* create, load */
	uint64_t           size;    /* resize */
	int                wait_ms;

	const char        *file; /* load, save */
	bool               seal, quiet;

	struct mode_change change; /* chmod */
	struct owner       owner;  /* chown */
	int                timeout_ms; /* drain */

	unsigned           rights; /* ticket */
	uint32_t           user;
	uint64_t           lifetime_ms; /* 0: as long as the buffer has its name */
	bool               many;

	const char        *pattern; /* list; NULL: all */
	bool               json; /* doctor and events, too */

	const char        *instance; /* events; NULL: the only one */
	uint64_t           since_ms; /* 0: all; user, too */
	const char        *buffer, *kind; /* NULL: any */
	unsigned           pid; /* 0: any */
	bool               follow;

	uint64_t           session; /* evict */
	bool               kill;
};

struct ctl_command {
	const char *name, *arguments, *text; /* as --help shows them */
	int         least, most;             /* arguments */
	int         value;                   /* the argument that is no buffer's name: take puts it at offset */
	taker      *take;                    /* NULL: there is none */
	size_t      offset;
	/* one of them: without a connection, or with one of its own; over one; over one for each name */
	enum ctl_exit (*local)(const struct ctl_options *options);
	enum ctl_exit (*run)(gpub_client *client, const struct ctl_options *options);
	int           (*each)(gpub_client *client, const struct ctl_options *options, const char *name);
};

extern const struct ctl_command ctl_commands[]; /* the last one has no name */

/* Returns the exit status. */
enum ctl_exit ctl_command_run(const struct ctl_options *options);

#endif
