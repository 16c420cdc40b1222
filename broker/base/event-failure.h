/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event-failure.h - ends a program in order when libevent cannot go on.
 *
 * If libevent's loop gets no descriptor or memory, as under "ulimit -n 6", libevent prints a line and calls exit(1),
 * and the sockets and directories that the program has made would stay. Owns libevent's callbacks for fatal errors
 * and for its log, whose warnings, and last error if it is fatal, go to the program's log (log.h). Never returns to
 * libevent after a fatal error.
 */
#ifndef GPUB_EVENT_FAILURE_H
#define GPUB_EVENT_FAILURE_H

/*
 * Installs the callbacks; call it before the event base is made. When libevent cannot go on, logs an error message,
 * calls clean(context), which undoes what would outlive the process, and exits with exit_code.
 */
void event_failure_watch(int exit_code, void (*clean)(void *context), void *context);

#endif
