/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - what keeps drains, creates, acquires and streams from going on, in plain words, from the records of a status file.
 *
 * Each wait is followed from process to process to the one that could end it, and the line ends with what to do. Processes that
 * wait for each other in a circle are a deadlock, told once. The same records and processes give the same lines in the same
 * order. What stands in a record is a claim, as everything in a status file. Owns nothing; changes nothing; asks no broker.
 */
#ifndef GPUB_SHOW_WHY_H
#define GPUB_SHOW_WHY_H

#include "why-question.h"

/*
 * Says a line for each deadlock, then for each wait that is none, then for each process that has not said what it waits for; or one
 * line that nothing waits. -ENOENT: about names neither a buffer nor a process of a session; -ENOMEM. The error message is set.
 */
int why_explain(const struct why *why, struct why_found *found);

#endif
