/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - what /proc tells of the processes behind a broker's sessions.
 *
 * Adds to each session of a status, where it can be found out: "process" (its state), "container", and "cpus" where it may not run on all. A pid
 * in a status file is the word of the file's owner, and may be another process's by now: one that did not start when the session's
 * did is not taken for it. Where broker and reader have different pid namespaces, nothing is added. Owns nothing; reads /proc alone.
 */
#ifndef GPUB_SHOW_PROCESS_H
#define GPUB_SHOW_PROCESS_H

#include "read.h"

#define PROCESSES_MAX 4096 /* sessions that are looked at: a file may claim any number of them */

/* "process" is one of "running", "stopped", "no main thread" (others of its threads run), "zombie", "gone". */
void processes_add(struct shown *shown);

#endif
