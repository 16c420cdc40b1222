/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the parts of a program around a broker, for broker-run and brokerd: the event loop with its signals,
 * the timer for the drain at the end, and what is logged about the broker then.
 *
 * Owns the event base, the signalfd and their events. Decides nothing: the program's callbacks do.
 */
#ifndef GPUB_CONTROL_H
#define GPUB_CONTROL_H

#include <signal.h>
#include <sys/signalfd.h>

#include <event2/event.h>

#include "broker/base/context.h"

/*
 * The event loop and the signals of a broker program. broker-run and brokerd set on_signal, on_patience, on_failure and
 * context before control_begin(), which sets the other members.
 */
struct control {
	void (*on_signal)(void *context, const struct signalfd_siginfo *info);
	void (*on_patience)(void *context); /* called when the timer of control_expect() expires */
	void (*on_failure)(void *context);  /* called when libevent cannot go on: undoes what outlives the process */
	void               *context;        /* the first argument of the callbacks */
	struct event_base  *base;
	struct event       *signals, *patience;
	int                 signal_fd;
};

/* Blocks the signals and ignores SIGPIPE. Called before the first thread starts. */
void control_block(const sigset_t *signals);

/*
 * Makes the event base and reads the signals by a signalfd from now on. exit_code: exit status of the process if
 * libevent cannot go on. Returns 0 or a negative errno with the error message set; the caller calls control_end() in
 * either case.
 */
int control_begin(struct control *control, const sigset_t *signals, int exit_code);
void control_end(struct control *control);

/* Starts the timer that calls on_patience() once, after `seconds` seconds. */
void control_expect(struct control *control, unsigned seconds);

/*
 * Logs a line for each session that still has mappings, for a limited number of sessions. hint: end of each line, which
 * says what to do.
 */
void control_log_holders(const struct broker *broker, const char *hint);

/* Writes a summary of the broker's counters to text: "buffers 8 created, ...; balanced". Returns text. */
#define CONTROL_ACCOUNT_MAX 320
const char *control_account(const struct broker *broker, char text[CONTROL_ACCOUNT_MAX]);

#endif
