/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - what broker-run and brokerd both need around a broker: the event loop with its signals and the timer of a
 * drain, and what is logged about the broker at its end.
 *
 * Owns the event base, the signal descriptor and their events. Decides nothing: the program's callbacks do.
 */
#ifndef GPUB_CONTROL_H
#define GPUB_CONTROL_H

#include <signal.h>
#include <sys/signalfd.h>

#include <event2/event.h>

#include "broker/base/context.h"

/* The program sets the first four. */
struct control {
	void (*on_signal)(void *context, const struct signalfd_siginfo *info);
	void (*on_patience)(void *context); /* the seconds of control_expect() are over */
	void (*on_failure)(void *context);  /* libevent cannot go on: undo what outlives the process */
	void               *context;
	struct event_base  *base;
	struct event       *signals, *patience;
	int                 signal_fd;
};

/* Blocks the signals and ignores SIGPIPE. Call it before the first thread starts. */
void control_block(const sigset_t *signals);

/* 0 or negative errno with the error message; control_end() follows in either case. exit_code: of a failure of libevent. */
int control_begin(struct control *control, const sigset_t *signals, int exit_code);
void control_end(struct control *control);

/* on_patience() follows after so many seconds. */
void control_expect(struct control *control, unsigned seconds);

/* Logs a line for each session that still holds grants, up to a bound; hint: what to do about it. */
void control_log_holders(const struct broker *broker, const char *hint);

/* "buffers 8 created, ...; balanced": what the broker counted. */
#define CONTROL_ACCOUNT_MAX 320
const char *control_account(const struct broker *broker, char text[CONTROL_ACCOUNT_MAX]);

#endif
