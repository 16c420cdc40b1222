/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event-failure.h - what a program says and undoes where libevent cannot go on and would end the process.
 *
 * libevent does so where its loop gets no descriptor or memory, as under "ulimit -n 6": with a line of its own and exit(1),
 * and what the program has made so far stays. Owns libevent's callbacks for failures and for its log, whose lines go where
 * the program's go (log.h). Never returns to libevent after a failure.
 */
#ifndef GPUB_EVENT_FAILURE_H
#define GPUB_EVENT_FAILURE_H

/* Before the event base is made. At a failure: the error message, clean(context), and the end with exit_code. */
void event_failure_watch(int exit_code, void (*clean)(void *context), void *context);

#endif
