/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - an order of the broker for the owner of the device memory, and what the loop does when it is carried out. */
#ifndef GPUB_JOB_H
#define GPUB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/base/round-robin.h"
#include "broker/base/tracked.h"
#include "broker/owner/order.h"

/* Whoever submits the job owns it before, and again from done() on; between, the jobs do (jobs.h). */
struct job {
	struct order         order;
	struct outcome       outcome;
	uint32_t             range;      /* ZERO: number of the range, for done() */
	uint64_t             serial;     /* ZERO: serial of the buffer that had the range, for done() */
	struct tracked       tracked;    /* ZERO of a range: what the ledger notes of it */
	uint64_t             session;    /* GONE: id of the process's session, for done() */
	void (*done)(struct job *job);   /* called in the loop with the result; owns the job from then on */
	void                *context, *subject; /* pointers that done() needs */
	/*
	 * goes beside the order; -1: none. ADOPT: the allocation's, which has it on. RELEASE: the job's, which closes
	 * it when it is sent, so that the last close, which frees the memory, is the owner's. Otherwise unused.
	 */
	int                  descriptor;
	unsigned             blame;      /* for owners that ended while they carried it out (jobs_blame) */
	bool                 unusable;   /* the memory that the ALLOCATE made is freed again, and the job fails */
	struct rr_item       item;       /* links in the queue that the job waits in, or in lane.sent */
	struct rr_user       queue;      /* head of its user's queue, while the job is the first in it */
	/* links in the list fair_jobs.first, while the job is the first of its user */
	struct job          *same_prev, *same_next;
};

#endif
