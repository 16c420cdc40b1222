/* SPDX-License-Identifier: Apache-2.0 */
/*
 * why.h - explains in plain words what drains, creates, acquires and streams wait for, from the records of a status
 * file.
 *
 * Follows each wait from process to process to the one that could end it; the line ends with what to do. Processes
 * that wait for each other in a circle are a deadlock, which is reported once. Equal records and processes give equal
 * lines in the same order. Records are claims of the status file's owner. Owns nothing; changes nothing; asks no
 * broker.
 */
#ifndef GPUB_SHOW_WHY_H
#define GPUB_SHOW_WHY_H

#include "why-question.h"

/*
 * Passes lines to why->say(): one for each deadlock, each other wait, and each process that has not answered INQUIRE;
 * or one line that nothing waits; then one for each quota that is nearly used up. If no process owns the device memory,
 * says so first, and has a line for each create that waits for the next one. With why->about only those deadlocks
 * and waits that concern it; if there are none, a line for each draining buffer of the name, or for each session of the
 * pid; no quotas. Returns 0, or a negative errno with the error message set: -ENOENT if why->about is no name of a
 * buffer or request and no pid of a session, or -ENOMEM.
 */
int why_explain(const struct why *why, struct why_found *found);

#endif
