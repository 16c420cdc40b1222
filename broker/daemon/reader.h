/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - reads brokerd's configuration again, on a thread of its own, while the loop goes on.
 *
 * The file may be on a file system that hangs, and a look-up of users and groups may go over a network: the control loop
 * must not wait for either (invariant 5). Owns the thread, and what it has read until the loop gets it. Decides nothing: the
 * owner applies the configuration.
 */
#ifndef GPUB_BROKERD_READER_H
#define GPUB_BROKERD_READER_H

#include <pthread.h>
#include <stdbool.h>

#include <event2/event.h>

#include "options.h"
#include "common/error.h"

/* Called in the loop. config: now the hook's; NULL: it cannot be used, and the text says why. */
typedef void receiver_hook(void *context, struct brokerd_config *config, const char *text);

struct reader {
	const struct brokerd_options *options;
	receiver_hook         *hook;
	void                  *context;
	bool                   reading;
	pthread_t              thread;
	int                    finished; /* eventfd: it has read */
	struct event          *event;
	struct brokerd_config *config; /* it and the text are the thread's until then */
	char                   text[ERROR_TEXT_MAX];
};

/* options: with which the configuration is read; they must stay. 0 or negative errno with the error message. */
int reader_open(struct reader *reader, struct event_base *base, const struct brokerd_options *options,
		receiver_hook *hook, void *context);

/* Starts to read; the hook is called at the end. Not while it is reading. -EAGAIN: no thread; with the error message. */
int reader_start(struct reader *reader);

/*
 * Waits at most a second for a thread that hangs: that thread ends with the process, which must then end by _exit(2), since
 * exit(3) waits for every open FILE since glibc 2.38, also for the one in which the thread hangs. Does nothing if not opened.
 */
void reader_close(struct reader *reader);

#endif
