/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - checks twice a second whether the names of a broker in the file system still refer to the broker's own
 * files: its status file, its socket, the directory of its memory and, under broker-run --join, the socket of the job
 * (run/joined.h).
 *
 * A logout removes XDG_RUNTIME_DIR and a user's files in /dev/shm, and cleaners remove old files in /tmp. A name that
 * was removed is made again; if it cannot be, an event and a line of the log say so. Polling instead of inotify(7),
 * because it also notices a renamed directory, needs no inotify instance (a user has 128), and costs an idle broker
 * only a few calls of lstat(2). Owns the timer.
 */
#ifndef GPUB_NAMES_H
#define GPUB_NAMES_H

#include <stdbool.h>

#include <event2/event.h>

#include "broker/base/event-kinds.h"

#define NAMES_MAX 4

/*
 * Checks one name. Returns 0 if the name refers to the broker's file; 1 if the name did not and was made again, with
 * the name, and a hint if there is one, in text; or a negative errno with the error message set if it could not be made
 * again.
 */
typedef int names_look(void *context, char text[EVENT_TEXT_MAX]);

struct broker;

struct names {
	struct {
		names_look *look;
		void       *context;
		bool        lost; /* the last call of look() failed, and an event has reported the failure */
	} list[NAMES_MAX];
	unsigned       count;
	struct event  *timer;
	struct broker *broker;
};

/* Starts the timer. Returns 0, or -ENOMEM with the error message set. */
int names_begin(struct names *names, struct broker *broker);

/* Adds a name to be checked by look(context), up to NAMES_MAX in all. May be called before names_begin(). */
void names_watch(struct names *names, names_look *look, void *context);

void names_end(struct names *names);

#endif
