/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - reads brokerd's configuration again for a reload, on a thread of its own, while the control loop runs.
 *
 * The file may be on a file system that hangs, and a look-up of users and groups may go over a network: the control
 * loop must not wait for either (invariant 5). Owns the thread, and the configuration until the hook gets it. Decides
 * nothing: the hook's owner applies the configuration.
 */
#ifndef GPUB_BROKERD_READER_H
#define GPUB_BROKERD_READER_H

#include <pthread.h>
#include <stdbool.h>

#include <event2/event.h>

#include "options.h"
#include "common/error.h"

/*
 * Called in the loop when the file was read. config: the configuration, which the hook owns from now on; NULL: the
 * reading failed, and text is the error message.
 */
typedef void receiver_hook(void *context, struct brokerd_config *config, const char *text);

struct reader {
	const struct brokerd_options *options;
	receiver_hook         *hook;
	void                  *context;  /* first argument of the hook */
	bool                   reading;  /* the thread runs, or the loop has not noticed its end yet */
	pthread_t              thread;   /* the thread that reads; valid while `reading` is true */
	int                    finished; /* eventfd: the thread writes to it when it has set config or text */
	struct event          *event;    /* event: finished can be read; NULL: the reader is not open */
	/* the result, which the thread writes while `reading` is true; NULL: none, or a failure */
	struct brokerd_config *config;
	char                   text[ERROR_TEXT_MAX]; /* error message; written by the thread while reading is true */
};

/*
 * Makes the reader, which reads nothing yet. options: used for each reading; must outlive the reader. Returns 0 or
 * negative errno with the error message.
 */
int reader_open(struct reader *reader, struct event_base *base, const struct brokerd_options *options,
		receiver_hook *hook, void *context);

/*
 * Starts to read the configuration; the loop calls the hook when the reading is done. Not called while `reading` is
 * true. Returns 0, or a negative errno with the error message if no thread can be started.
 */
int reader_start(struct reader *reader);

/*
 * Waits for the thread, at most a second, and frees the reader. If the thread hangs longer, reader->reading stays true,
 * and the process must end by _exit(2): since glibc 2.38 exit(3) waits for every open FILE, also for the one in which
 * the thread hangs. Does nothing if the reader is not open.
 */
void reader_close(struct reader *reader);

#endif
