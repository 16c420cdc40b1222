/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - adds the state of each session's process, from /proc, to a broker's status.
 *
 * Adds to each session's JSON object, if it can be found out: "process" (the state), "container", and "cpus" if the
 * process may not run on all processors. A pid in a status file is a claim of the file's owner, and may have been
 * reused, so a process counts only if its start time is that of the session's process. Adds nothing if a living broker
 * is in another pid namespace than the reader. Owns nothing; reads only /proc, and asks kill(2) whether a pid is in
 * use.
 */
#ifndef GPUB_SHOW_PROCESS_H
#define GPUB_SHOW_PROCESS_H

#include "read.h"

#define PROCESSES_MAX 4096 /* largest number of sessions that are looked up, because a file may claim any number */

/*
 * Adds the keys to each session in shown->text. "process" is "running", "stopped", "no main thread" (other threads
 * run), "zombie" or "gone".
 */
void processes_add(struct shown *shown);

#endif
