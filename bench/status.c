/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c - what a change costs a broker that has 100,000 buffers, against one that has 10: the status file among it,
 * which follows each change before the answer.
 *
 * The change is of a buffer's mode. Its cost is the broker's own processor time, as the kernel counts it, over many of
 * them: the way of a message between two processors is in neither.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"

#define FEW     10
#define MANY    100000
#define ROUNDS  60
#define WARM    5
#define CHANGES 500 /* a round */

struct side {
	struct bench_broker broker;
	gpub_client        *client;
};

/* Counted when the broker waits for the next message: it has stopped running then. */
static double change_us(const struct side *side)
{
	double before = bench_worked_ns(side->broker.serving);

	for (unsigned i = 0; i < CHANGES; i++)
		bench_must(gpub_chmod(side->client, "changed", i % 2 ? 0600 : 0640));
	return (bench_worked_ns(side->broker.serving) - before) / CHANGES / 1e3;
}

static void fill(struct side *side, unsigned buffers)
{
	gpub_spec spec = GPUB_SPEC_INIT;

	bench_must(gpub_connect(&side->client, side->broker.address));
	spec.size = 1;
	spec.flags = GPUB_DEDICATED;
	bench_must(gpub_create(side->client, "changed", &spec));
	clients_create(side->client, buffers - 1, 4096);
}

static void client_main(unsigned number, void *context)
{
	struct side *sides = context;
	struct bench bench;

	(void)number;
	fill(&sides[BENCH_OURS], clients_buffers(MANY));
	fill(&sides[BENCH_PEER], FEW);
	bench_begin(&bench, "status-change", "us");
	for (int i = -WARM; i < ROUNDS; i++) {
		double few = change_us(&sides[BENCH_PEER]);

		bench_round(&bench, i, few, change_us(&sides[BENCH_OURS]));
	}
	bench_end(&bench);
	gpub_disconnect(sides[BENCH_OURS].client);
	gpub_disconnect(sides[BENCH_PEER].client);
}

int main(void)
{
	struct side sides[2];

	clients_broker_start(&sides[BENCH_OURS].broker, clients_buffers(MANY));
	clients_broker_start(&sides[BENCH_PEER].broker, FEW);
	clients_run(1, client_main, sides);
	bench_broker_stop(&sides[BENCH_PEER].broker);
	bench_broker_stop(&sides[BENCH_OURS].broker);
	return 0;
}
