/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c - see peer.h */
#include "peer.h"

#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "clients.h"

#define SAMPLES 400
#define WARM    20

struct run {
	const struct peer *peer;
	const char        *folder;
	struct bench       bench;
	unsigned           clients;
};

static void our_round(gpub_client *client, const char *name)
{
	gpub_lease lease;

	if (gpub_acquire(client, name, GPUB_READ, 0, &lease) || gpub_return(&lease))
		bench_fail("peer: %s", gpub_strerror_last());
}

/* All of them in turn, in an order without pattern. */
static const char *next_name(void)
{
	static char name[PEER_NAMES][CLIENTS_NAME];
	static unsigned at;

	if (!name[0][0])
		for (unsigned i = 0; i < PEER_NAMES; i++)
			clients_name(name[i], i * 387 % PEER_NAMES);
	at = (at + 1) % PEER_NAMES;
	return name[at];
}

static double timed(const struct peer *peer, gpub_client *client)
{
	uint64_t began;

	clients_meet();
	began = bench_now_ns();
	for (unsigned i = 0; i < peer->rounds; i++)
		if (client)
			our_round(client, next_name());
		else
			peer->round(next_name());
	return (double)(bench_now_ns() - began) / peer->rounds;
}

static void client_main(unsigned number, void *context)
{
	struct run *run = context;
	gpub_client *client;

	(void)number;
	bench_must(gpub_connect(&client, NULL));
	run->peer->open(run->folder);
	for (unsigned i = 0; i < PEER_NAMES; i++)
		our_round(client, next_name());
	for (int i = -WARM; i < SAMPLES; i++) {
		double ours = timed(run->peer, client), theirs = timed(run->peer, NULL);

		bench_round(&run->bench, i, theirs, ours);
	}
	gpub_disconnect(client);
}

static void compare(const struct peer *peer, const char *folder, unsigned clients)
{
	struct run run = { .peer = peer, .folder = folder, .clients = clients };
	char name[64];

	snprintf(name, sizeof name, clients == 1 ? "peer-%s" : "peer-%s-%u", peer->name, clients);
	bench_begin(&run.bench, name, "ns");
	clients_run(clients, client_main, &run);
	bench_end(&run.bench);
}

int peer_main(const struct peer *peer)
{
	char folder[] = "/dev/shm/gpub-bench-XXXXXX", command[64];
	struct bench_broker broker;

	if (!mkdtemp(folder))
		bench_fail("no folder in /dev/shm");
	bench_broker_start(&broker, "host");
	if (clients_create_apart(PEER_NAMES, 4096) < PEER_NAMES)
		bench_fail("peer: the broker has no room");
	peer->make(folder);
	compare(peer, folder, 1);
	compare(peer, folder, 2);
	peer->close();
	bench_broker_stop(&broker);
	snprintf(command, sizeof command, "rm -rf '%s'", folder);
	return system(command) ? 1 : 0;
}
