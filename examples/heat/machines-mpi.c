/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines-mpi.c - the workers of all machines, by MPI. See machines.h.
 *
 * Owns the communicator. A network that is cut is no error of MPI. So from the meeting to the last row each wait for
 * another machine has
 * a limit: options.timeout_s in which nothing comes. What MPI does before, and its end, have none. Never touches a
 * device: what is sent lies in host memory.
 */
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "machines.h"

enum { TAG_EDGE = 1, TAG_TELL, TAG_ROWS };

static MPI_Comm workers = MPI_COMM_NULL; /* all of them, by rank */

static int mpi_fail(const char *what, int error)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int  length;

	MPI_Error_string(error, text, &length);
	return heat_fail("%s: MPI says: %s", what, text);
}

/* ---- beginning and end ---- */

int machines_start(struct options *options)
{
	int size, error = MPI_Init(NULL, NULL);

	if (error != MPI_SUCCESS)
		return mpi_fail("cannot join MPI's job", error);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if ((unsigned)size > HEAT_RANKS || (unsigned)size < options->size) {
		heat_refuse("--mpi: MPI has %d of this job's workers, and %u are on this machine; MPI must have all, "
			    "at most %u: start them with mpirun -n 8 broker-run --join -- heat --mpi",
			    size, options->size, HEAT_RANKS);
		MPI_Finalize();
		return -1;
	}
	options->size = (unsigned)size;
	return 0;
}

void machines_end(void)
{
	MPI_Finalize();
}

void machines_abort(void)
{
	MPI_Abort(MPI_COMM_WORLD, HEAT_FAILED);
}

/* ---- who is where ---- */

/* The lowest of MPI's ranks on the machine of that one. */
static int leader_of(char (*nodes)[GPUB_NODE_SIZE], int rank)
{
	int leader = 0;

	while (strcmp(nodes[leader], nodes[rank]) != 0)
		leader++;
	return leader;
}

/* Ranks by machine, in the order of the machines' leaders, and in MPI's order on each. */
static void place_find(struct heat *heat, char (*nodes)[GPUB_NODE_SIZE], int own)
{
	int leader = leader_of(nodes, own);

	heat->options.rank = 0;
	heat->machine = (struct machine){ 0, 0 };
	heat->machines = 0;
	for (int rank = 0; rank < (int)heat->options.size; rank++) {
		int other = leader_of(nodes, rank);

		heat->machines += other == rank;
		heat->machine.first += other < leader;
		heat->machine.count += other == leader;
		heat->options.rank += other < leader || (other == leader && rank < own);
	}
	heat_name(heat->options.rank);
}

int machines_place(struct heat *heat)
{
	char(*nodes)[GPUB_NODE_SIZE] = calloc(heat->options.size, GPUB_NODE_SIZE);
	char own[GPUB_NODE_SIZE];
	int  rank, error;

	if (!nodes)
		return heat_fail("no memory for %u workers", heat->options.size);
	if (gpub_node(heat->client, own)) {
		free(nodes);
		return heat_fail("cannot ask which broker this is: %s", gpub_strerror_last());
	}
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	error = MPI_Allgather(own, GPUB_NODE_SIZE, MPI_CHAR, nodes, GPUB_NODE_SIZE, MPI_CHAR, MPI_COMM_WORLD);
	if (error == MPI_SUCCESS) {
		place_find(heat, nodes, rank);
		error = MPI_Comm_split(MPI_COMM_WORLD, 0, (int)heat->options.rank, &workers);
	}
	free(nodes);
	return error == MPI_SUCCESS ? 0 : mpi_fail("cannot find out which workers are on this machine", error);
}

/* ---- waiting ---- */

/* All of them. The limit begins anew whenever one is done. */
static int requests_await(MPI_Request *requests, int count, unsigned limit_s, const char *what)
{
	double moved = heat_now();
	int    left = count, done = 0, which;

	while (left > 0) {
		int error = MPI_Testany(count, requests, &which, &done, MPI_STATUS_IGNORE);

		if (error != MPI_SUCCESS)
			return mpi_fail(what, error);
		if (done) {
			left--;
			moved = heat_now();
		} else if (heat_now() - moved > limit_s) {
			return heat_fail("%s: nothing came from another machine for %u s; is the network cut, or a "
					 "worker there stopped?",
					 what, limit_s);
		} else {
			sched_yield();
		}
	}
	return 0;
}

int machines_meet(const struct heat *heat)
{
	MPI_Request all;
	int         error = MPI_Ibarrier(workers, &all);

	return error == MPI_SUCCESS ?
		       requests_await(&all, 1, heat->options.timeout_s, "meeting the workers of all machines") :
		       mpi_fail("cannot meet the workers of all machines", error);
}

/* ---- edges ---- */

/* Messages of a pair of workers keep their order, so a step needs no number in them. */
int machines_swap(const struct heat *heat, uint64_t k)
{
	MPI_Request requests[4];
	int         count = 0, columns = (int)heat->options.nx, error = MPI_SUCCESS;

	for (const struct link *link = heat->link; link < heat->link + 2; link++) {
		size_t at = k % 2 * heat->options.nx;

		if (!link->ghost.client)
			continue;
		if (error == MPI_SUCCESS)
			error = MPI_Irecv(link->in + at, columns, MPI_FLOAT, (int)link->rank, TAG_EDGE, workers,
					  &requests[count++]);
		if (error == MPI_SUCCESS)
			error = MPI_Isend(link->out + at, columns, MPI_FLOAT, (int)link->rank, TAG_EDGE, workers,
					  &requests[count++]);
	}
	if (error != MPI_SUCCESS)
		return mpi_fail("cannot exchange edges", error);
	return requests_await(requests, count, heat->options.timeout_s, "exchanging edges");
}

int machines_tell(const struct heat *heat, unsigned rank, const void *data, size_t bytes)
{
	MPI_Request request;
	int         error = MPI_Isend(data, (int)bytes, MPI_BYTE, (int)rank, TAG_TELL, workers, &request);

	return error == MPI_SUCCESS ? requests_await(&request, 1, heat->options.timeout_s, "greeting a neighbour") :
				      mpi_fail("cannot send", error);
}

int machines_take(const struct heat *heat, unsigned rank, void *data, size_t bytes)
{
	MPI_Request request;
	int         error = MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)rank, TAG_TELL, workers, &request);

	return error == MPI_SUCCESS ? requests_await(&request, 1, heat->options.timeout_s, "greeting a neighbour") :
				      mpi_fail("cannot receive", error);
}

/* ---- the result ---- */

#define BLOCK_CELLS (1u << 20) /* of one message: so slow a network has some done within the limit */

static size_t share_cells(const struct heat *heat, unsigned rank)
{
	return (size_t)field_share(heat->options.ny, rank, heat->options.size).rows * heat->options.nx;
}

static size_t share_blocks(const struct heat *heat, unsigned rank)
{
	return (share_cells(heat, rank) + BLOCK_CELLS - 1) / BLOCK_CELLS;
}

/* Sends a share in blocks, or with receive receives it, and adds as many requests. */
static int share_start(const struct heat *heat, unsigned rank, float *cells, bool receive, MPI_Request *requests,
		       int *count)
{
	size_t left = share_cells(heat, rank);
	int    error = MPI_SUCCESS;

	for (; left && error == MPI_SUCCESS; (*count)++) {
		int block = left < BLOCK_CELLS ? (int)left : (int)BLOCK_CELLS;

		error = receive ? MPI_Irecv(cells, block, MPI_FLOAT, (int)rank, TAG_ROWS, workers, &requests[*count]) :
				  MPI_Isend(cells, block, MPI_FLOAT, 0, TAG_ROWS, workers, &requests[*count]);
		cells += block;
		left -= (size_t)block;
	}
	return error;
}

/* The requests of the shares of ranks first to last - 1. */
static int shares_move(const struct heat *heat, unsigned first, unsigned last, float *cells, bool receive,
		       const char *what)
{
	MPI_Request *requests;
	size_t       blocks = 0;
	int          count = 0, error = MPI_SUCCESS, result;

	for (unsigned rank = first; rank < last; rank++)
		blocks += share_blocks(heat, rank);
	requests = calloc(blocks + 1, sizeof(*requests)); /* a share has rows, which calloc() does not know */
	if (!requests)
		return heat_fail("no memory for %zu messages", blocks);
	for (unsigned rank = first; rank < last && error == MPI_SUCCESS; rank++) {
		error = share_start(heat, rank, cells, receive, requests, &count);
		cells += share_cells(heat, rank);
	}
	result = error == MPI_SUCCESS ? requests_await(requests, count, heat->options.timeout_s, what) :
					mpi_fail(what, error);
	free(requests);
	return result;
}

/* Rank 0's machine has the first ranks. */
int machines_collect(const struct heat *heat, float *field)
{
	unsigned     first = heat->machine.count;
	struct share share = field_share(heat->options.ny, first, heat->options.size);

	return shares_move(heat, first, heat->options.size, field + (size_t)share.first * heat->options.nx, true,
			   "fetching the rows of other machines");
}

int machines_deliver(const struct heat *heat, float *rows)
{
	return shares_move(heat, heat->options.rank, heat->options.rank + 1, rows, false,
			   "sending the rows to worker 0");
}
