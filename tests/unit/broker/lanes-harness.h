/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lanes-harness.h - jobs whose owner is the test: the lanes' other ends, and jobs that note when they are done.
 *
 * For one test at a time, between lanes_setup() and lanes_teardown(). A failure fails the test.
 */
#ifndef GPUB_LANES_HARNESS_H
#define GPUB_LANES_HARNESS_H

#include <stdint.h>

#include "broker/memory/jobs.h"

#define LANES     2 /* of one device, and of questions */
#define QUESTIONS 1

extern struct event_base *base;
extern struct jobs jobs;
extern int owners[LANES];   /* the owner's ends; -1: closed */
extern unsigned losses;     /* number of owners that were lost */
extern unsigned done_count; /* number of jobs that were done */
extern struct job last;     /* the job that was done last */

/* The jobs' start and end; the first owner begins with them. */
int lanes_setup(void **state);
int lanes_teardown(void **state);

void pass(void); /* one pass of the loop */

void owner_ends(void);
void next_owner(void);

void jobs_begin(void); /* starts the jobs, with this owner, again after a jobs_stop() */

/* A job for note_done(), which counts it, keeps it in `last`, and frees it. */
struct job *job_new(enum order_kind kind, uint64_t memory);
void note_done(struct job *job);
void submit(enum order_kind kind, uint64_t memory);

/* Receives an order, which is of that kind. Stores the descriptor that came beside it; -1: none. */
struct order receive_order(unsigned lane, enum order_kind kind, int *descriptor);
void expect_nothing_ordered(unsigned lane);

/* Sends the outcome, with the error, of the order with the number. */
void send_answer(unsigned lane, uint64_t number, int error);

unsigned descriptors(void); /* number of this process's descriptors, with those that counting needs */

#endif
