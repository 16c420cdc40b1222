/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privileged.c - attacks on a set-user-ID program that uses the library, by who starts it: its environment is the
 * attacker's.
 *
 * Owns the program, which root installs before the first attack (attacks.h).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "attacks.h"
#include "tests/privileged.h"

static char program[PRIVILEGED_PATH_SIZE];

bool privileged_begin(void)
{
	return privileged_install(program, 04755);
}

void privileged_end(void)
{
	privileged_remove(program);
}

static int start(const char *variable, const char *value, bool loads)
{
	struct privileged_order order = { .deed = loads ? PRIVILEGED_MODULE : PRIVILEGED_CONNECT,
					  .address = loads ? arena_broker.address : NULL,
					  .module = LURE_MODULE,
					  .variable = variable,
					  .value = value };
	char text[512];

	return privileged_run(program, &order, text);
}

/* A server and a module of the attacker's, in every variable that could lead there. */
static void lead_astray(void)
{
	char directory[] = "/tmp/gpub-lure-XXXXXX", address[64], command[64];
	int caught;
	pid_t pid;

	WANT(mkdtemp(directory) && !chmod(directory, 0755) && lure_module(directory));
	pid = lure_start(directory, geteuid(), &caught);
	WANT(pid > 0);
	snprintf(address, sizeof address, "unix:%s/gpubroker/socket", directory);
	start("GPUBROKER", address, false);
	start("XDG_RUNTIME_DIR", directory, false);
	WANT(!lure_caught(caught));
	WANT(start("GPUBROKER_MODULE_PATH", directory, true) == -ENOENT);
	kill(pid, SIGKILL);
	snprintf(command, sizeof command, "rm -rf %s", directory);
	WANT(!system(command));
}

const struct attack privileged[] = {
	{ "leads a privileged program astray",
	  "a set-user-ID program takes no server and no module from its caller's environment", .run = lead_astray,
	  .flags = NEEDS_USERS },
	{ 0 },
};
