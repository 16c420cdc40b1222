/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - looks twice a second whether the names of a broker still lead to it: its status file, its socket and its
 * memory's directory.
 *
 * A logout removes XDG_RUNTIME_DIR and a user's files in /dev/shm, and cleaners remove old files in /tmp. What was
 * removed is made again; what cannot be is said in the log and as an event. A look by time, and not inotify(7): it
 * also notices a directory that was renamed, needs no instance of inotify, of which a user has 128, and costs an idle
 * broker a few calls of lstat(2). Owns the timer.
 */
#ifndef GPUB_NAMES_H
#define GPUB_NAMES_H

#include <stdbool.h>

#include <event2/event.h>

#include "broker/base/event-kinds.h"

#define NAMES_MAX 4

/*
 * 0: the name leads to the broker. 1: it did not, and does again; text says which name that is, and what else there
 * is to know. Negative errno, with the error message: it does not.
 */
typedef int names_look(void *context, char text[EVENT_TEXT_MAX]);

struct broker;

struct names {
	struct {
		names_look *look;
		void       *context;
		bool        lost; /* and an event has said so */
	} list[NAMES_MAX];
	unsigned       count;
	struct event  *timer;
	struct broker *broker;
};

/* 0 or -ENOMEM, with the error message. names is all zeroes. */
int names_begin(struct names *names, struct broker *broker);

/* One more name; there may be NAMES_MAX. */
void names_watch(struct names *names, names_look *look, void *context);

void names_end(struct names *names);

#endif
