/* SPDX-License-Identifier: Apache-2.0 */
/*
 * solver.c - the time steps, ordered on the device, and the gathering of the result.
 *
 * Step k (1, 2, ...) reads the field of step k-1 from the buffers number (k-1) % 2, this worker's own and the
 * edge rows of the workers above and below, and writes buffer k % 2. Where a neighbour is on another device or machine
 * (heat->overlap), the edges, the worker's own first and last row, come first. So they reach it while the rows between
 * them are computed: each has a stream of its own. The timeline of a worker's buffer 0 counts: PEER_STEP(k) is "the
 * edges of step k are there, and all of step k-1". For each step such a worker queues
 *     edges:   wait until the worker above, and the one below, are at PEER_STEP(k-1), and for the inside of step k-1;
 *              the kernel of the edges; signal PEER_STEP(k)
 *     inside:  wait for the edges of step k-1; the kernel of the rows between
 * and that orders all directions:
 *   - what step k reads: the neighbour's edge in buffer (k-1) % 2 is complete, since the edges of its step k-1 are
 *     done;
 *   - what step k overwrites: buffer k % 2 holds step k-2, whose edges the neighbours read for those of their step k-1:
 *     done too. What is inside nobody else reads.
 * So two neighbours are never more than one step apart, and nothing but the device waits. All this would also work if
 * both streams were one (gpub_signal_on(3), "Waiting streams block others"). Other workers compute all rows by one
 * kernel, between the wait and the signal: their device has rows of more workers to compute meanwhile.
 *
 * The CPU runs ahead of the device by QUEUE_DEPTH steps at most. Then it does not block in a synchronisation but sleeps
 * and polls: its own timeline for the progress, and its neighbours' for their death. The broker releases the waits for
 * a dead neighbour, so the steps after them compute nonsense. So a worker that gets -EOWNERDEAD stops, without
 * disconnecting, and its own neighbours learn of it in the same way. If the broker dies as well, nobody releases a
 * wait, but every poll returns an error and ends this worker.
 *
 * Owns nothing; holds no lease itself.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "heat.h"
#include "machines.h"
#include "kernels/kernels.h"

#define ALONE_EVERY 16u   /* steps between two signals that only this worker reads: each keeps the device busy */
#define QUEUE_DEPTH 128u  /* steps; four commands each on either stream */
#define SPINS       2000u /* scans of a timeline, before the CPU sleeps between them */
#define STALL       1.0   /* seconds without a step after which the device is asked whether it still works */
#define NAP_LEAST   20e-6 /* seconds */
#define NAP_MOST    20e-3

/* What step k launches; one for even k, one for odd. */
struct stride {
	float       *next;
	const float *now, *above, *below;
	uint32_t     rows, columns;
	float        r;
};

struct solver {
	struct heat  *heat;
	struct stride stride[2];
	double        began, moved; /* when the steps began, when the last one was seen to end */
	double        probed;       /* when the device was asked whether it still works */
	uint64_t      done;
};

/* ---- queueing ---- */

static const float *row_above(const struct heat *heat, unsigned which)
{
	unsigned     rank = heat->options.rank;
	struct share share;

	if (rank == 0)
		return NULL;
	if (!heat_near(heat, rank - 1))
		return links_row(heat, &heat->link[0], which);
	share = field_share(heat->options.ny, rank - 1, heat->options.size);
	return (const float *)heat->peers[rank - 1].buffer[which].ptr + (size_t)(share.rows - 1) * heat->options.nx;
}

static const float *row_below(const struct heat *heat, unsigned which)
{
	unsigned rank = heat->options.rank;

	if (rank + 1 == heat->options.size)
		return NULL;
	return heat_near(heat, rank + 1) ? heat->peers[rank + 1].buffer[which].ptr :
					   links_row(heat, &heat->link[1], which);
}

static struct stride solver_stride(const struct heat *heat, unsigned target)
{
	const struct peer *own = &heat->peers[heat->options.rank];

	return (struct stride){
		.next = own->buffer[target].ptr,
		.now = own->buffer[!target].ptr,
		.above = row_above(heat, !target),
		.below = row_below(heat, !target),
		.rows = heat->own.rows,
		.columns = heat->options.nx,
		.r = (float)HEAT_R,
	};
}

/* The neighbours whose buffers and timelines this worker has: 0, 1 or 2. */
static unsigned near_neighbours(const struct heat *heat, unsigned ranks[2])
{
	unsigned rank = heat->options.rank, count = 0;

	if (rank > 0 && heat_near(heat, rank - 1))
		ranks[count++] = rank - 1;
	if (heat_near(heat, rank + 1))
		ranks[count++] = rank + 1;
	return count;
}

/* Both streams: what they queue next comes behind the other's last step. */
static int step_order(const struct heat *heat)
{
	return gpub_stream_wait(heat->inside, heat->edges) || gpub_stream_wait(heat->edges, heat->inside);
}

static int inside_launch(const struct heat *heat, const struct stride *stride)
{
	gpub_launch_config config;
	float             *next = stride->next + stride->columns;
	const float       *above = stride->now, *now = above + stride->columns;
	const float       *below = above + (size_t)(stride->rows - 1) * stride->columns;
	uint32_t           rows = stride->rows - 2, columns = stride->columns;
	float              r = stride->r;
	void              *args[] = { &next, &now, &above, &below, &rows, &columns, &r };

	if (stride->rows <= 2)
		return 0;
	config = heat_grid(rows, columns, heat->inside);
	return gpub_launch(heat->kernel_step, &config, args);
}

static int edges_wait(const struct heat *heat, uint64_t k)
{
	const gpub_lease *leases[2];
	uint64_t          values[2] = { PEER_STEP(k - 1), PEER_STEP(k - 1) };
	unsigned          ranks[2], count = near_neighbours(heat, ranks);

	for (unsigned i = 0; i < count; i++)
		leases[i] = &heat->peers[ranks[i]].buffer[0];
	return gpub_wait_many_on(leases, values, count, heat->edges);
}

/* A kernel of all arguments of the step, which computes so many rows. */
static int stride_launch(const struct heat *heat, gpub_kernel kernel, struct stride *stride, uint32_t rows)
{
	gpub_launch_config config = heat_grid(rows, stride->columns, heat->edges);
	void              *args[] = { &stride->next,  &stride->now,     &stride->above, &stride->below,
				      &stride->rows,  &stride->columns, &stride->r };

	return gpub_launch(kernel, &config, args);
}

static int step_signal(const struct heat *heat, uint64_t k)
{
	return gpub_signal_on(&heat->peers[heat->options.rank].buffer[0], PEER_STEP(k), heat->edges);
}

/*
 * All rows by one kernel: while a neighbour waits for its edge, the device computes others' rows. A lone worker signals
 * for itself.
 */
static int step_whole(struct heat *heat, struct stride *stride, uint64_t k)
{
	bool awaited = heat->options.size > 1 || k % ALONE_EVERY == 0;

	return edges_wait(heat, k) || stride_launch(heat, heat->kernel_step, stride, stride->rows) ||
	       (awaited && step_signal(heat, k));
}

static int step_overlapped(struct heat *heat, struct stride *stride, uint64_t k)
{
	return step_order(heat) || edges_wait(heat, k) || stride_launch(heat, heat->kernel_edges, stride, 2) ||
	       links_queue(heat, k) || step_signal(heat, k) || inside_launch(heat, stride);
}

static int step_queue(struct solver *solver, uint64_t k)
{
	struct heat   *heat = solver->heat;
	struct stride *stride = &solver->stride[k % 2];

	if (heat->overlap ? step_overlapped(heat, stride, k) : step_whole(heat, stride, k))
		return heat_fail("cannot queue step %llu: %s", (unsigned long long)k, gpub_strerror_last());
	return 0;
}

/* One more value, behind all of the last step. */
static int last_queue(const struct heat *heat)
{
	if (gpub_stream_wait(heat->edges, heat->inside) || step_signal(heat, heat->options.steps + 1))
		return heat_fail("cannot queue the end of the steps: %s", gpub_strerror_last());
	return 0;
}

/* ---- watching ---- */

/* A failed device advances nothing and reports nothing by itself; any call returns its error. */
static int solver_probe(struct solver *solver)
{
	static float       cell; /* outlives the copy */
	const struct heat *heat = solver->heat;
	const void        *from = heat->peers[heat->options.rank].buffer[0].ptr;

	if (gpub_copy_on(heat->client, &cell, from, sizeof(cell), heat->probe) || gpub_stream_sync(heat->probe))
		return heat_fail("the device failed: %s", gpub_strerror_last());
	return 0;
}

/* Reads the progress, then the neighbours: a wait that was released by a death is seen in this order. */
static int solver_look(struct solver *solver)
{
	struct heat *heat = solver->heat;
	unsigned     ranks[2], count = near_neighbours(heat, ranks);
	uint64_t     at, done, other;

	if (peer_reached(heat, heat->options.rank, 0, PEER_STEP(0), &at) < 0)
		return -1;
	done = at - PEER_STEP(0);
	for (unsigned i = 0; i < count; i++)
		if (peer_reached(heat, ranks[i], 0, 0, &other) < 0)
			return -1;
	if (done > solver->done)
		solver->moved = heat_now();
	solver->done = done;
	progress_show(&heat->options, done < heat->options.steps ? done : heat->options.steps,
		      heat_now() - solver->began);
	return 0;
}

/* Half of what the steps in between should take. */
static void solver_nap(const struct solver *solver, uint64_t target)
{
	double nap = NAP_LEAST;

	if (solver->done > 0)
		nap = (heat_now() - solver->began) / (double)solver->done * (double)(target - solver->done) / 2;
	heat_nap(nap < NAP_LEAST ? NAP_LEAST : nap > NAP_MOST ? NAP_MOST : nap);
}

/* A step that takes long may be a device that has failed, or, by NCCL, another machine that is out of reach. */
static int solver_stalls(struct solver *solver)
{
	struct heat *heat = solver->heat;
	double       now = heat_now();

	if (heat->options.nccl && links_any(heat) && now - solver->moved > heat->options.timeout_s)
		return heat_fail("no step ended for %u s; is the network to another machine cut, or a worker there "
				 "stopped?",
				 heat->options.timeout_s);
	if (now - solver->moved < STALL || now - solver->probed < STALL)
		return 0;
	solver->probed = now;
	return solver_probe(solver);
}

static int solver_drain(struct solver *solver, uint64_t target)
{
	for (;;) {
		if (solver_look(solver))
			return -1;
		if (solver->done >= target)
			return 0;
		if (solver_stalls(solver))
			return -1;
		solver_nap(solver, target);
	}
}

/* A neighbour that ended in good order, but too early, released our waits as well. */
static int solver_confirm(const struct heat *heat, unsigned rank)
{
	uint64_t at; /* one less than this worker has reached: the value of its last wait */
	int      reached = peer_reached(heat, rank, 0, PEER_STEP(heat->options.steps) - 1, &at);

	if (reached < 0)
		return -1;
	return reached ? 0 : heat_fail("worker %u ended before its last step", rank);
}

static int solver_finish(struct solver *solver)
{
	struct heat *heat = solver->heat;
	unsigned     ranks[2], count = near_neighbours(heat, ranks);

	if (last_queue(heat) || solver_drain(solver, heat->options.steps + 1))
		return -1;
	if (gpub_stream_sync(heat->edges) || gpub_stream_sync(heat->inside))
		return heat_fail("the device failed: %s", gpub_strerror_last());
	for (unsigned i = 0; i < count; i++)
		if (solver_confirm(heat, ranks[i]))
			return -1;
	return heat->options.rank == 0 ? peers_everybody(heat, PEER_STEP(heat->options.steps + 1)) : 0;
}

/* ---- edges of other machines ---- */

/* Until the edges of step k are done. The CPU spins: another machine waits for it. */
static int solver_reach(struct solver *solver, uint64_t k)
{
	for (unsigned scans = 0; solver->done < k; scans++) {
		if (scans > SPINS)
			return solver_drain(solver, k);
		if (solver_look(solver))
			return -1;
		sched_yield();
	}
	return 0;
}

/* What step k + 1 reads of other machines: queued before that step is. */
static int solver_exchange(struct solver *solver, uint64_t k)
{
	struct heat *heat = solver->heat;

	if (!links_any(heat) || k == heat->options.steps)
		return 0;
	if (!heat->options.nccl && solver_reach(solver, k))
		return -1;
	return links_exchange(heat, k);
}

/* The initial field's edges, which no step has put on the way. */
static int solver_begin(struct solver *solver)
{
	struct heat *heat = solver->heat;

	if (!links_any(heat))
		return 0;
	if (links_queue(heat, 0))
		return -1;
	if (gpub_stream_sync(heat->edges))
		return heat_fail("the device failed: %s", gpub_strerror_last());
	return solver_exchange(solver, 0);
}

int solver_run(struct heat *heat)
{
	struct solver solver = { .heat = heat, .stride = { solver_stride(heat, 0), solver_stride(heat, 1) } };

	solver.began = solver.moved = heat_now();
	if (solver_begin(&solver))
		return -1;
	for (uint64_t k = 1; k <= heat->options.steps; k++) {
		if (k > solver.done + QUEUE_DEPTH && solver_drain(&solver, k - QUEUE_DEPTH / 2))
			return -1;
		if (step_queue(&solver, k) || solver_exchange(&solver, k))
			return -1;
	}
	if (solver_finish(&solver))
		return -1;
	heat->seconds = heat_now() - solver.began;
	progress_end();
	return 0;
}

/* ---- gathering ---- */

static int gather_copy(struct heat *heat, float *field)
{
	const struct options *options = &heat->options;

	for (unsigned rank = 0; heat_near(heat, rank); rank++) {
		struct share share = field_share(options->ny, rank, options->size);

		if (gpub_copy_on(heat->client, field + (size_t)share.first * options->nx,
				 heat->peers[rank].buffer[options->steps % 2].ptr,
				 (uint64_t)share.rows * options->nx * sizeof(float), heat->inside))
			return heat_fail("cannot fetch the rows of worker %u: %s", rank, gpub_strerror_last());
	}
	if (gpub_signal_on(&heat->peers[0].buffer[1], PEER_GATHERED, heat->inside) || gpub_stream_sync(heat->inside))
		return heat_fail("cannot fetch the result: %s", gpub_strerror_last());
	return heat->machines > 1 ? machines_collect(heat, field) : 0;
}

/* This worker's rows to another machine, where rank 0 is. */
static int gather_deliver(struct heat *heat)
{
	size_t size = (size_t)heat->own.rows * heat->options.nx * sizeof(float);
	float *rows = malloc(size);
	int    result;

	if (!rows)
		return heat_fail("no memory for this worker's rows, %zu bytes", size);
	if (gpub_copy_on(heat->client, rows, heat->peers[heat->options.rank].buffer[heat->options.steps % 2].ptr, size,
			 heat->inside) ||
	    gpub_stream_sync(heat->inside))
		result = heat_fail("cannot fetch the result: %s", gpub_strerror_last());
	else
		result = machines_deliver(heat, rows);
	free(rows);
	return result;
}

/*
 * Rank 0 holds leases on all buffers of its machine. When it has seen all ranks finish, it copies the buffers out and
 * signals that on its second timeline; the others stay until they see that. No rank waits for one that waits for it, so
 * the end cannot deadlock. When rank 0 has the result, every rank is done with its neighbours' timelines or finds them
 * complete, so a rank that leaves first is not taken for dead. Workers on other machines send their rows, and may leave
 * then.
 */
int solver_gather(struct heat *heat, float **field)
{
	size_t cells = (size_t)heat->options.ny * heat->options.nx;

	*field = NULL;
	if (!heat_near(heat, 0))
		return gather_deliver(heat);
	if (heat->options.rank != 0)
		return peer_await(heat, 0, 1, PEER_GATHERED, 0);
	*field = malloc(cells * sizeof(**field));
	if (!*field)
		return heat_fail("no memory for the whole field, %zu bytes", cells * sizeof(**field));
	return gather_copy(heat, *field);
}
