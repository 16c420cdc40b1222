/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event-failure.h - what a program logs and undoes when libevent cannot go on and would end the process.
 *
 * When its loop gets no descriptor or memory, as under "ulimit -n 6", libevent prints a line and calls exit(1); sockets and
 * directories that the program has made would stay. Owns libevent's callbacks for failures and for its log, whose lines go
 * to the program's log (log.h). Never returns to libevent after a failure.
 */
#ifndef GPUB_EVENT_FAILURE_H
#define GPUB_EVENT_FAILURE_H

/* Before the event base is made. At a failure: the error message, clean(context), and the end with exit_code. */
void event_failure_watch(int exit_code, void (*clean)(void *context), void *context);

#endif
