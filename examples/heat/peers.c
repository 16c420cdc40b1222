/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c - the buffers of the workers on this machine: each makes its own two, finds the others' by name, and watches
 * their timelines.
 *
 * Owns the leases in heat->peers, all held from peers_meet() to peers_leave(): a rank holds its own buffers (to read
 * and write), those of the ranks above and below it, and buffer 1 of the machine's first rank, which holds everybody's.
 *
 * The buffers are ephemeral: the broker removes their names when their worker's session ends. That is safe, because
 * each worker acquires all its leases before any goes on (peers_meet()). It is useful, because a missing name means
 * that a worker ended before its first signal, when its timeline had no writer yet. For the same reason no stream waits
 * for a timeline before the CPU has seen its first value. Never unlinks, never frees.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"
#include "machines.h"

#define NAME_SIZE 32 /* "heat/RANK/0" */

static const char *peer_name(char *text, unsigned rank, unsigned which)
{
	snprintf(text, NAME_SIZE, "heat/%u/%u", rank, which);
	return text;
}

/* ---- this worker's own ---- */

static int peer_create(struct heat *heat, unsigned which)
{
	gpub_lease *lease = &heat->peers[heat->options.rank].buffer[which];
	gpub_spec   spec = GPUB_SPEC_INIT;
	char        name[NAME_SIZE];

	spec.flags = GPUB_TIMELINE | GPUB_EPHEMERAL;
	spec.size = (uint64_t)heat->own.rows * heat->options.nx * sizeof(float);
	spec.device = GPUB_CURRENT;
	if (gpub_create(heat->client, peer_name(name, heat->options.rank, which), &spec))
		return heat_fail("cannot create the buffer %s: %s", name, gpub_strerror_last());
	if (gpub_acquire(heat->client, name, GPUB_READ | GPUB_WRITE, 0, lease))
		return heat_fail("cannot acquire the buffer %s: %s", name, gpub_strerror_last());
	return 0;
}

/* The first signal makes this session the timeline's writer: from then on its death is seen by the others. */
int peers_publish(struct heat *heat, const float *initial)
{
	struct peer *own = &heat->peers[heat->options.rank];
	uint64_t     size = (uint64_t)heat->own.rows * heat->options.nx * sizeof(float);

	if (peer_create(heat, 0) || peer_create(heat, 1))
		return -1;
	if (gpub_copy_on(heat->client, own->buffer[0].ptr, initial, size, heat->inside) ||
	    gpub_signal_on(&own->buffer[0], PEER_PUBLISHED, heat->inside) ||
	    gpub_signal_on(&own->buffer[1], PEER_PUBLISHED, heat->inside) || gpub_stream_sync(heat->inside))
		return heat_fail("cannot fill the first buffer: %s", gpub_strerror_last());
	return 0;
}

/* ---- the others' ---- */

static bool peer_needed(const struct heat *heat, unsigned rank, unsigned which)
{
	unsigned own = heat->options.rank, first = heat->machine.first;

	if (rank == own)
		return false;
	return own == first || rank + 1 == own || rank == own + 1 || (rank == first && which == 1);
}

static int peer_acquire(struct heat *heat, unsigned rank, unsigned which, double deadline)
{
	double left = deadline - heat_now();
	char   name[NAME_SIZE];
	int    result;

	peer_name(name, rank, which);
	result = gpub_acquire(heat->client, name, GPUB_READ, left > 0 ? (int)(left * 1000) + 1 : 0,
			      &heat->peers[rank].buffer[which]);
	if (result == -ETIMEDOUT || result == -ENOENT)
		return heat_fail("worker %u did not make its buffer %s within %u s: it failed, or never started", rank,
				 name, heat->options.timeout_s);
	if (result)
		return heat_fail("cannot acquire %s of worker %u: %s", name, rank, gpub_strerror_last());
	return 0;
}

static int peers_acquire(struct heat *heat)
{
	double deadline = heat_now() + heat->options.timeout_s;

	for (unsigned rank = heat->machine.first; heat_near(heat, rank); rank++)
		for (unsigned which = 0; which < 2; which++)
			if (peer_needed(heat, rank, which) && peer_acquire(heat, rank, which, deadline))
				return -1;
	return 0;
}

/* While all are here: their names are gone with them. */
static int peer_place(struct heat *heat, unsigned rank, uint8_t uuid[16])
{
	gpub_info info = { .struct_size = sizeof(info) };
	char      name[NAME_SIZE];

	if (gpub_stat(heat->client, peer_name(name, rank, 0), &info))
		return heat_fail("cannot look at %s: %s", name, gpub_strerror_last());
	memcpy(uuid, info.device_uuid, sizeof(info.device_uuid));
	return 0;
}

/*
 * Sets heat->overlap: a neighbour is on another device or machine. Under MPS two workers of one device do so as well,
 * since otherwise both wait at a time (bench/README.md). Without MPS the device is given to one process after the
 * other, and a stream more makes that worse.
 */
static int peers_compare(struct heat *heat)
{
	uint8_t  own[16], other[16];
	unsigned rank = heat->options.rank, first = rank ? rank - 1 : rank;

	heat->overlap = heat->options.size == 2 && getenv("CUDA_MPS_PIPE_DIRECTORY");
	if (peer_place(heat, rank, own))
		return -1;
	for (unsigned neighbour = first; neighbour <= rank + 1 && neighbour < heat->options.size; neighbour++) {
		if (!heat_near(heat, neighbour)) {
			heat->overlap = true;
			continue;
		}
		if (peer_place(heat, neighbour, other))
			return -1;
		heat->overlap = heat->overlap || memcmp(own, other, sizeof(own)) != 0;
	}
	return 0;
}

static int peers_await(struct heat *heat)
{
	for (unsigned rank = heat->machine.first; heat_near(heat, rank); rank++)
		for (unsigned which = 0; which < 2; which++)
			if (peer_needed(heat, rank, which) &&
			    peer_await(heat, rank, which, PEER_PUBLISHED, heat->options.timeout_s))
				return -1;
	return 0;
}

static int peers_tell(struct heat *heat, unsigned which, uint64_t value)
{
	if (gpub_signal_on(&heat->peers[heat->options.rank].buffer[which], value, heat->inside) ||
	    gpub_stream_sync(heat->inside))
		return heat_fail("cannot tell the other workers to begin: %s", gpub_strerror_last());
	return 0;
}

static int machine_meet(struct heat *heat)
{
	if (heat->options.rank != heat->machine.first)
		return peer_await(heat, heat->machine.first, 1, PEER_BEGIN, 0);
	return peers_everybody(heat, PEER_STEP(0)) ? -1 : peers_tell(heat, 1, PEER_BEGIN);
}

/*
 * A barrier: each worker signals that it holds all the leases that it needs, and the machine's first rank signals when
 * all have. After that no name is needed, and a timeline shows the end of each worker. Rank 0's clock starts at a
 * common point, too.
 */
int peers_meet(struct heat *heat)
{
	if (peers_acquire(heat) || peers_compare(heat) || peers_await(heat) || peers_tell(heat, 0, PEER_STEP(0)) ||
	    machine_meet(heat))
		return -1;
	return heat->options.mpi ? machines_meet(heat) : 0;
}

/* ---- timelines, read by the CPU ---- */

int peer_reached(const struct heat *heat, unsigned rank, unsigned which, uint64_t value, uint64_t *reached)
{
	int result = gpub_timeline(&heat->peers[rank].buffer[which], reached);

	if (result == -EOWNERDEAD)
		return heat_fail("worker %u died: the field cannot be finished without its rows", rank);
	if (result)
		return heat_fail("cannot read the timeline of worker %u: %s", rank, gpub_strerror_last());
	return *reached >= value;
}

/* 1: the session that made the buffer has ended; 0: it lives; -1: the broker cannot be asked. */
static int peer_gone(const struct heat *heat, unsigned rank, unsigned which)
{
	gpub_info info = { .struct_size = sizeof(info) };
	char      name[NAME_SIZE];
	int       result = gpub_stat(heat->client, peer_name(name, rank, which), &info);

	if (result == -ENOENT)
		return 1;
	return result ? heat_fail("cannot look at %s: %s", name, gpub_strerror_last()) : 0;
}

/* Quick at first, since that is how a step ends, then gentle: 64 workers may share two processors. */
static void peer_nap(unsigned scans)
{
	heat_nap(scans < 32 ? 20e-6 : scans < 128 ? 500e-6 : 5e-3);
}

/* timeout_s 0: as long as that worker lives. */
int peer_await(struct heat *heat, unsigned rank, unsigned which, uint64_t value, unsigned timeout_s)
{
	double   deadline = heat_now() + timeout_s;
	uint64_t at;

	for (unsigned scans = 0;; scans++) {
		int gone = scans % 64 == 63 ? peer_gone(heat, rank, which) : 0; /* before its value is read */
		int reached = gone < 0 ? -1 : peer_reached(heat, rank, which, value, &at);

		if (reached)
			return reached > 0 ? 0 : -1;
		if (gone)
			return heat_fail("worker %u ended before its part was done", rank);
		if (timeout_s && heat_now() > deadline)
			return heat_fail("worker %u did not begin within %u s", rank, timeout_s);
		peer_nap(scans);
	}
}

int peers_everybody(struct heat *heat, uint64_t value)
{
	for (unsigned rank = heat->machine.first + 1; heat_near(heat, rank); rank++)
		if (peer_await(heat, rank, 0, value, 0))
			return -1;
	return 0;
}

void peers_leave(struct heat *heat)
{
	for (unsigned rank = 0; rank < heat->options.size; rank++)
		for (unsigned which = 0; which < 2; which++)
			if (heat->peers[rank].buffer[which].client)
				gpub_return(&heat->peers[rank].buffer[which]);
}
