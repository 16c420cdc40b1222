/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines-mpi.c - the workers of all machines, by MPI. See machines.h.
 *
 * Owns the communicator. Each wait for another machine has a limit, options.timeout_s: a network that is cut is no error of MPI. Never
 * touches a device: what is sent lies in host memory.
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
		heat_refuse("--mpi: MPI has %d of this job's workers, and %u are on this machine; MPI must have all, at most %u: start them with "
			    "mpirun -n 8 broker-run --join -- heat --mpi", size, options->size, HEAT_RANKS);
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

static int requests_await(const struct heat *heat, MPI_Request *requests, int count, const char *what)
{
	double deadline = heat_now() + heat->options.timeout_s;
	int    done = 0;

	for (;;) {
		int error = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);

		if (error != MPI_SUCCESS)
			return mpi_fail(what, error);
		if (done)
			return 0;
		if (heat_now() > deadline)
			return heat_fail("%s: nothing came from another machine for %u s; is the network cut, or a worker there stopped?", what,
					 heat->options.timeout_s);
		sched_yield();
	}
}

int machines_meet(const struct heat *heat)
{
	MPI_Request all;
	int         error = MPI_Ibarrier(workers, &all);

	return error == MPI_SUCCESS ? requests_await(heat, &all, 1, "meeting the workers of all machines") : mpi_fail("meeting", error);
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
			error = MPI_Irecv(link->in + at, columns, MPI_FLOAT, (int)link->rank, TAG_EDGE, workers, &requests[count++]);
		if (error == MPI_SUCCESS)
			error = MPI_Isend(link->out + at, columns, MPI_FLOAT, (int)link->rank, TAG_EDGE, workers, &requests[count++]);
	}
	if (error != MPI_SUCCESS)
		return mpi_fail("cannot exchange edges", error);
	return requests_await(heat, requests, count, "exchanging edges");
}

int machines_tell(unsigned rank, const void *data, size_t bytes)
{
	int error = MPI_Send(data, (int)bytes, MPI_BYTE, (int)rank, TAG_TELL, workers);

	return error == MPI_SUCCESS ? 0 : mpi_fail("cannot send", error);
}

int machines_take(unsigned rank, void *data, size_t bytes)
{
	int error = MPI_Recv(data, (int)bytes, MPI_BYTE, (int)rank, TAG_TELL, workers, MPI_STATUS_IGNORE);

	return error == MPI_SUCCESS ? 0 : mpi_fail("cannot receive", error);
}

/* ---- the result ---- */

/* One row as a type, since a count of cells may be too large for MPI's int. */
static int row_type(const struct heat *heat, MPI_Datatype *row)
{
	int error = MPI_Type_contiguous((int)heat->options.nx, MPI_FLOAT, row);

	if (error == MPI_SUCCESS)
		error = MPI_Type_commit(row);
	return error == MPI_SUCCESS ? 0 : mpi_fail("cannot describe a row", error);
}

int machines_collect(const struct heat *heat, float *field)
{
	const struct options *options = &heat->options;
	MPI_Request          *requests = calloc(options->size, sizeof(*requests));
	MPI_Datatype          row;
	int                   count = 0, error = MPI_SUCCESS, result;

	if (!requests)
		return heat_fail("no memory for %u workers", options->size);
	result = row_type(heat, &row);
	for (unsigned rank = heat->machine.count; !result && rank < options->size && error == MPI_SUCCESS; rank++) {
		struct share share = field_share(options->ny, rank, options->size);

		error = MPI_Irecv(field + (size_t)share.first * options->nx, (int)share.rows, row, (int)rank, TAG_ROWS, workers,
				  &requests[count++]);
	}
	if (!result)
		result = error == MPI_SUCCESS ? requests_await(heat, requests, count, "fetching the rows of other machines") :
						mpi_fail("cannot fetch the rows of other machines", error);
	free(requests);
	return result;
}

int machines_deliver(const struct heat *heat, const float *rows)
{
	MPI_Request  request;
	MPI_Datatype row;
	int          error;

	if (row_type(heat, &row))
		return -1;
	error = MPI_Isend(rows, (int)heat->own.rows, row, 0, TAG_ROWS, workers, &request);
	return error == MPI_SUCCESS ? requests_await(heat, &request, 1, "sending the rows to worker 0") :
				      mpi_fail("cannot send the rows to worker 0", error);
}
