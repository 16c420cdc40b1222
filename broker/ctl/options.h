/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - what broker-ctl was told: the command, its options and its arguments.
 *
 * One table holds every command, one every option with the commands that take it; --help is printed from both. All that
 * can be wrong on the command line is found here, before anybody is asked. Owns nothing: texts are argv's.
 */
#ifndef GPUB_CTL_OPTIONS_H
#define GPUB_CTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "values.h"

enum ctl_command {
	CTL_CREATE,
	CTL_UNLINK,
	CTL_CHMOD,
	CTL_CHOWN,
	CTL_DRAIN,
	CTL_TICKET,
	CTL_EVICT,
	CTL_DOCTOR,
	CTL_COMMANDS
};

struct ctl_options {
	const char       *address; /* NULL: wherever gpub_connect() looks */
	enum ctl_command  command;
	char            **names; /* of buffers; NULL-terminated */

	uint64_t          size;   /* create */
	unsigned          device; /* the broker's index */
	unsigned          mode;
	bool              timeline, dedicated;
	int               wait_ms;

	struct mode_change change;       /* chmod */
	uint32_t           owner, group; /* chown: GPUB_KEEP where not given */
	int                timeout_ms;   /* drain */

	unsigned           rights; /* ticket */
	uint32_t           user;
	uint64_t           lifetime_ms; /* 0: as long as the buffer has its name */
	bool               many;

	uint64_t           session; /* evict */
	bool               kill;
};

/* 0; 1: --help or --version was printed, exit 0; -EINVAL: the sentence is set, exit 2. */
int ctl_options_parse(struct ctl_options *options, int argc, char **argv);

#endif
