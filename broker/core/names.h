/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - checks whether the names of a broker in the file system still refer to the broker's own files: its status
 * file, its socket and the directory of its memory.
 *
 * A logout removes XDG_RUNTIME_DIR and a user's files in /dev/shm, and cleaners remove old files in /tmp. A name that
 * was removed is made again; if it cannot be, an event and a line of the log say so. The files themselves are watched
 * by inotify(7), so an idle broker is not woken. All names are checked half a second after one of these files was
 * removed, renamed or changed its attributes, and then twice a second until all names are there and all files are
 * watched. A file cannot be watched without an inotify instance (a user has 128). inotify does not tell that a
 * directory further up was renamed, nor that an empty directory of memory was removed, which the next create makes
 * again. Owns the inotify instance and the timer.
 */
#ifndef GPUB_NAMES_H
#define GPUB_NAMES_H

#include <stdbool.h>

#include <event2/event.h>

#include "broker/base/event-kinds.h"

#define NAMES_MAX       4
#define NAMES_PATHS     8
#define NAMES_PATH_SIZE 128

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
	char           paths[NAMES_PATHS][NAMES_PATH_SIZE]; /* the files that are watched */
	unsigned       path_count;
	int            inotify; /* the inotify instance; -1: there is none, and the timer never stops */
	struct event  *change;  /* event: inotify can be read; NULL: none */
	struct event  *timer;   /* pending while names are to be checked */
	struct broker *broker;
};

/* Starts the timer, which checks all names and watches all paths. Returns 0, or -ENOMEM with the error message set. */
int names_begin(struct names *names, struct broker *broker);

/*
 * Adds a name to be checked by look(context), up to NAMES_MAX in all. Called before the loop runs, as is names_path().
 */
void names_watch(struct names *names, names_look *look, void *context);

/* Adds the path of a file whose removal has all names checked, up to NAMES_PATHS in all; format: as for printf(3). */
void names_path(struct names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Has all names checked in half a second, although no file has changed. */
void names_again(const struct names *names);

void names_end(struct names *names);

#endif
