/* SPDX-License-Identifier: Apache-2.0 */
/*
 * false-upgrade.c - a brokerd that says it could go on, and whose brokers crash at once, for upgrade.sh: it goes back
 * to the program of before.
 */
#include <signal.h>
#include <stdlib.h>

#include <event2/event.h>

#include "broker/daemon/upgrade.h"
#include "broker/keeper/keeper.h"
#include "common/error.h"

static struct upgrade upgrade;
static struct keeper keeper;

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

int main(int argc, char **argv)
{
	const struct keeper_program program = {
		.name = "false-upgrade", .broker = broker, .back = back, .ended = on_end, .from = &upgrade.from
	};
	struct event_base *base = event_base_new();

	(void)argc;
	upgrade = (struct upgrade){ .argv = argv, .pack = pack };
	if (!base || upgrade_open(&upgrade) != 1)
		return 1;
	if (upgrade_is_trial(&upgrade))
		return 0;
	if (keeper_init(&keeper, base, &program))
		return 1;
	event_base_dispatch(base);
	return 1;
}
