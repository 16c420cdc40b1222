/* SPDX-License-Identifier: Apache-2.0 */
/*
 * refusals.h - checks inside a client, of calls that must be refused. The first that fails is named in the answer.
 */
#ifndef GPUB_TESTS_REFUSALS_H
#define GPUB_TESTS_REFUSALS_H

#include "harness.h"

/* The call must give that errno and an error message of at least 15 characters in one line. */
#define REFUSE(call, error) refuse_at(__LINE__, (call), (error))
#define ALSO(condition)     refuse_at(__LINE__, (condition) ? -1 : -2, -1)
void refuse_at(int line, int got, int wanted);

/* What a step answers: the line of the first check that failed, or 0. */
int verdict(void);

/* A broker with 1 MiB of memory, whose device fails as this says (GPUB_HOST_FAIL), or NULL. */
void small_broker_start(struct broker_process *broker, const char *faults);

#endif
