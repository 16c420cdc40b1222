/* SPDX-License-Identifier: Apache-2.0 */
/* machines.c - heat without MPI, or without NCCL: refuses the option. */
#include "machines.h"

#ifndef HEAT_MPI

int machines_start(struct options *options)
{
	(void)options;
	heat_refuse("--mpi: this heat was built without MPI; install it (Debian: libopenmpi-dev) and build again");
	return -1;
}

/* Not called: machines_start() comes before all of these. */
int machines_place(struct heat *heat)
{
	(void)heat;
	return -1;
}

int machines_meet(const struct heat *heat)
{
	(void)heat;
	return -1;
}

int machines_swap(const struct heat *heat, uint64_t k)
{
	(void)heat;
	(void)k;
	return -1;
}

int machines_collect(const struct heat *heat, float *field)
{
	(void)heat;
	(void)field;
	return -1;
}

int machines_deliver(const struct heat *heat, float *rows)
{
	(void)heat;
	(void)rows;
	return -1;
}

void machines_end(void)
{
}

void machines_abort(void)
{
}

#endif

#ifndef HEAT_NCCL

int nccl_check(void)
{
	heat_refuse("--nccl: this heat was built without NCCL; build it with --with-nccl=DIR, or take --mpi");
	return -1;
}

/* Nor are these called. */
int nccl_open(const struct heat *heat, struct link *link)
{
	(void)heat;
	(void)link;
	return -1;
}

int nccl_swap(const struct heat *heat, uint64_t k)
{
	(void)heat;
	(void)k;
	return -1;
}

void nccl_close(struct link *link)
{
	(void)link;
}

#endif
