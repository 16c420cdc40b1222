/* SPDX-License-Identifier: Apache-2.0 */
/*
 * false-upgrade.c - a new brokerd for upgrade.sh that is not what it says. The file false in the current directory says
 * how:
 *
 *     hangs     does not say whether it could go on
 *     fails     says that it could, and ends before its keeper begins
 *     crashes   says that it could, and its brokers crash at once
 *
 * The latter two go back to the previous program.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <event2/event.h>

#include "broker/daemon/upgrade.h"
#include "broker/keeper/keeper.h"
#include "common/error.h"

static struct upgrade upgrade;
static struct keeper keeper;
static char how[16];

static int broker(void *context, struct keeper_end *end)
{
	(void)context;
	(void)end;
	signal(SIGABRT, SIG_DFL);
	abort();
}

/* What brokerd's own passes on besides is as it was. */
static bool pack(void *context, struct handover *handover)
{
	static const enum handover_kind same[] = { HANDOVER_CONFIG, HANDOVER_BOARD };

	(void)context;
	if (!keeper.begun)
		return false;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		handover_add(handover, same[i], 0, handover_fd(&upgrade.from, same[i]));
	keeper_pack(&keeper, handover);
	return true;
}

static void back(void *context)
{
	(void)context;
	upgrade_back(&upgrade);
}

static void on_end(void *context, int status)
{
	(void)context;
	exit(status);
}

static int keep(void)
{
	const struct keeper_program program = {
		.name = "false-upgrade", .broker = broker, .back = back, .ended = on_end, .from = &upgrade.from
	};
	struct event_base *base = event_base_new();

	if (!base || keeper_init(&keeper, base, &program))
		return 1;
	event_base_dispatch(base);
	return 1;
}

int main(int argc, char **argv)
{
	FILE *file = fopen("false", "re");

	(void)argc;
	if (!file || fscanf(file, "%15s", how) != 1)
		return 1;
	fclose(file);
	if (!strcmp(how, "hangs"))
		for (;;)
			pause();
	upgrade = (struct upgrade){ .argv = argv, .pack = pack };
	if (upgrade_open(&upgrade) != 1)
		return 1;
	if (upgrade_is_trial(&upgrade))
		return UPGRADE_YES;
	if (!strcmp(how, "fails"))
		upgrade_back(&upgrade);
	return keep();
}
