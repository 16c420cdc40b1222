/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path-refusal.h - finds the part of a socket's path that makes connect(2) fail.
 *
 * Checks permissions for the effective ids, as connect(2) does. Owns nothing. Never opens a file.
 */
#ifndef GPUB_PATH_REFUSAL_H
#define GPUB_PATH_REFUSAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define PATH_PART_MAX 108 /* bytes: the size of sockaddr_un.sun_path */

/*
 * PATH_UNREADABLE: stat(2) fails with another error than ENOENT. PATH_WRONG_KIND: the part is not a directory or, if it
 * is the last one, not a socket. PATH_CLOSED: permissions refuse this process.
 */
enum path_fault { PATH_FINE, PATH_MISSING, PATH_UNREADABLE, PATH_WRONG_KIND, PATH_CLOSED };

/* The first part of a path that has a fault. */
struct path_part {
	enum path_fault fault;
	bool            is_last; /* true: the part is the socket; false: a directory that leads to the socket */
	struct stat     st;      /* of the part; valid for PATH_WRONG_KIND and PATH_CLOSED */
	char            path[PATH_PART_MAX]; /* from the root to the part */
};

/* Finds the first part of `path` that has a fault. Returns the fault, or PATH_FINE and leaves *part unchanged. */
enum path_fault path_part_find(const char *path, struct path_part *part);

/*
 * Writes a description of the first part of `path` that has a fault into text; for PATH_CLOSED with the part's owner
 * and mode and this process's ids. Returns false, with text unchanged, if no part has a fault.
 */
bool path_refusal(const char *path, char *text, size_t size);

#endif
