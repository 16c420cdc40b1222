/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links.c - edges to and from the neighbours on other machines.
 *
 * Where a neighbour's buffer cannot be acquired, its edge row comes into a buffer of this worker's own, the ghost, with
 * one row for even steps and one for odd. By MPI a step's rows pass through pinned host memory: the device copies its
 * edge out behind the kernel of the edges, the CPU exchanges it when the timeline says that it is there, while the
 * device computes the inside, and queues the copy into the ghost before the next step. So nothing is queued that waits
 * for another machine, and a stream that is shared by all (gpub_signal_on(3), "Waiting streams block others") works,
 * too. By NCCL all of that is queued.
 *
 * Owns the ghosts, their leases and the pinned memory.
 */
#include "machines.h"

#define NAME_SIZE 32 /* "heat/RANK/above" */

static size_t row_bytes(const struct heat *heat)
{
	return (size_t)heat->options.nx * sizeof(float);
}

static int ghost_create(struct heat *heat, struct link *link)
{
	gpub_spec spec = GPUB_SPEC_INIT;
	char      name[NAME_SIZE];

	snprintf(name, sizeof(name), "heat/%u/%s", heat->options.rank, link == heat->link ? "above" : "below");
	spec.flags = GPUB_EPHEMERAL;
	spec.size = 2 * row_bytes(heat);
	spec.device = GPUB_CURRENT;
	if (gpub_create(heat->client, name, &spec))
		return heat_fail("cannot create the buffer %s: %s", name, gpub_strerror_last());
	if (gpub_acquire(heat->client, name, GPUB_READ | GPUB_WRITE, 0, &link->ghost))
		return heat_fail("cannot acquire the buffer %s: %s", name, gpub_strerror_last());
	return 0;
}

static int link_open(struct heat *heat, struct link *link, unsigned rank, uint32_t row)
{
	link->rank = rank;
	link->row = row;
	if (ghost_create(heat, link))
		return -1;
	if (heat->options.nccl)
		return nccl_open(heat, link);
	if (gpub_host_alloc(heat->client, 2 * row_bytes(heat), (void **)&link->out) ||
	    gpub_host_alloc(heat->client, 2 * row_bytes(heat), (void **)&link->in))
		return heat_fail("no pinned memory for an edge: %s", gpub_strerror_last());
	return 0;
}

int links_open(struct heat *heat)
{
	unsigned rank = heat->options.rank;

	if (rank > 0 && !heat_near(heat, rank - 1) && link_open(heat, &heat->link[0], rank - 1, 0))
		return -1;
	if (rank + 1 < heat->options.size && !heat_near(heat, rank + 1))
		return link_open(heat, &heat->link[1], rank + 1, heat->own.rows - 1);
	return 0;
}

static void link_close(struct heat *heat, struct link *link)
{
	nccl_close(link);
	gpub_host_free(heat->client, link->in);
	gpub_host_free(heat->client, link->out);
	if (link->ghost.client)
		gpub_return(&link->ghost);
}

void links_close(struct heat *heat)
{
	link_close(heat, &heat->link[0]);
	link_close(heat, &heat->link[1]);
}

bool links_any(const struct heat *heat)
{
	return heat->link[0].ghost.client || heat->link[1].ghost.client;
}

const float *links_row(const struct heat *heat, const struct link *link, unsigned which)
{
	return (const float *)link->ghost.ptr + (size_t)which * heat->options.nx;
}

int links_queue(struct heat *heat, uint64_t k)
{
	const float *own = heat->peers[heat->options.rank].buffer[k % 2].ptr;
	size_t       columns = heat->options.nx;

	for (struct link *link = heat->link; link < heat->link + 2; link++)
		if (link->out && gpub_copy_on(heat->client, link->out + k % 2 * columns, own + link->row * columns,
					      row_bytes(heat), heat->edges))
			return heat_fail("cannot copy an edge from the device: %s", gpub_strerror_last());
	return 0;
}

int links_exchange(struct heat *heat, uint64_t k)
{
	size_t at = k % 2 * heat->options.nx;

	if (heat->options.nccl)
		return nccl_swap(heat, k);
	if (machines_swap(heat, k))
		return -1;
	for (struct link *link = heat->link; link < heat->link + 2; link++)
		if (link->in && gpub_copy_on(heat->client, (float *)link->ghost.ptr + at, link->in + at,
					     row_bytes(heat), heat->edges))
			return heat_fail("cannot copy an edge to the device: %s", gpub_strerror_last());
	return 0;
}
