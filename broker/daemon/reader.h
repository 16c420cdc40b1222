/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - reads brokerd's configuration again, on a thread of its own, while the loop goes on.
 *
 * The file may lie on a file system that hangs, and names of users and groups be asked for over a network: the control
 * loop must not be the one who waits (invariant 5). Owns the thread, and what it has read until the loop is given it.
 * Decides nothing: what becomes of it is the owner's.
 */
#ifndef GPUB_BROKERD_READER_H
#define GPUB_BROKERD_READER_H

#include <pthread.h>
#include <stdbool.h>

#include <event2/event.h>

#include "options.h"
#include "common/error.h"

/* In the loop. config: now the hook's; NULL: it cannot be used, and the text says why. */
typedef void reader_hook(void *context, struct brokerd_config *config, const char *text);

struct reader {
	const struct brokerd_options *options;
	reader_hook           *hook;
	void                  *context;
	bool                   reading;
	pthread_t              thread;
	int                    finished; /* eventfd: it has read */
	struct event          *event;
	struct brokerd_config *config; /* this and the text are the thread's until then */
	char                   text[ERROR_TEXT_MAX];
};

/* options: what the configuration is read by; they must stay. 0 or negative errno, sentence set. */
int reader_open(struct reader *reader, struct event_base *base, const struct brokerd_options *options,
		reader_hook *hook, void *context);

/* Begins; the hook is called once it has read. Not while it is reading. -EAGAIN: no thread, sentence set. */
int reader_start(struct reader *reader);

/*
 * Where the reading hangs it does not wait long: that thread ends with the process, which has to end by _exit(2) then. exit(3)
 * waits for every open FILE since glibc 2.38, also for one that a thread hangs in. Does nothing if not opened.
 */
void reader_close(struct reader *reader);

#endif
