/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machines.h - what heat needs of other machines.
 *
 * A broker's names are its machine's own. So a worker acquires the buffers of those on its machine (peers.c), and
 * exchanges edges with a neighbour on another one (links.c). machines-mpi.c does that by MPI, machines-nccl.c by NCCL
 * in stream order. Where heat was built without them, machines.c refuses --mpi and --nccl, and nothing of the rest is
 * called.
 */
#ifndef HEAT_MACHINES_H
#define HEAT_MACHINES_H

#include "heat.h"

/* Joins MPI's job. options->size becomes the number of all workers; the rank is not known before machines_place(). */
int machines_start(struct options *options);

/*
 * Connected: finds out who is on this machine, and numbers all so that the workers of a machine have neighbouring rows.
 */
int machines_place(struct heat *heat);

/* Until all workers of all machines are here. */
int machines_meet(const struct heat *heat);

/* Sends both links' rows of step k out of their pinned memory, and receives the neighbours' there. */
int machines_swap(const struct heat *heat, uint64_t k);

/* Bytes for the worker of that rank, who takes as many. */
int machines_tell(const struct heat *heat, unsigned rank, const void *data, size_t bytes);
int machines_take(const struct heat *heat, unsigned rank, void *data, size_t bytes);

/* Rank 0: the rows of all workers on other machines, each in its place of field. */
int machines_collect(const struct heat *heat, float *field);

/* Another machine than rank 0's: this worker's rows, for machines_collect(). */
int machines_deliver(const struct heat *heat, float *rows);

void machines_end(void);
void machines_abort(void); /* ends the job everywhere */

/* Whether heat was built with NCCL. */
int nccl_check(void);

/* NCCL's side of a link: its communicator of two. */
int  nccl_open(const struct heat *heat, struct link *link);
int  nccl_swap(const struct heat *heat, uint64_t k); /* queues it behind the edges of step k */
void nccl_close(struct link *link);

#endif
