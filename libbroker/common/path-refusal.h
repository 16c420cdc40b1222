/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path-refusal.h - finds the part of a socket's path that refuses this process: connect(2) does not say which.
 *
 * Owns nothing; checks the effective ids, as connect(2) does. Never opens anything.
 */
#ifndef GPUB_PATH_REFUSAL_H
#define GPUB_PATH_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define PATH_PART_MAX 108 /* as long as a socket's path */

enum path_fault { PATH_FINE, PATH_MISSING, PATH_UNREADABLE, PATH_WRONG_KIND, PATH_CLOSED };

/* The first part of a path that has a fault. */
struct path_part {
	enum path_fault fault;
	bool            is_last; /* the socket; else a directory on the way to it */
	struct stat     st;      /* of what is there */
	char            path[PATH_PART_MAX];
};

/* PATH_FINE: there is none, and part is unchanged. */
enum path_fault path_part_find(const char *path, struct path_part *part);

/*
 * Describes the first part of the path that is missing, is not the socket or directory that it must be, or refuses this
 * process, with its owner and mode and this process's ids. False: there is none.
 */
bool path_refusal(const char *path, char *text, size_t size);

#endif
