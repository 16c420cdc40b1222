/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privileged.h - a program with more rights than who starts it, and a server of that user's that waits for it.
 *
 * The program is a copy of the test itself, made set-user-ID or set-group-ID by root; whoever starts it chooses its
 * environment and its arguments. Owns the copies' directory.
 */
#ifndef GPUB_TESTS_PRIVILEGED_H
#define GPUB_TESTS_PRIVILEGED_H

#include <stdbool.h>
#include <sys/types.h>

#define PRIVILEGED_PATH_SIZE 64

/*
 * As root, where another user may start it: a copy of this program, root's and of root's group, with that mode. False:
 * set-user-ID programs do not work here, or there is no place for one.
 */
bool privileged_install(char path[PRIVILEGED_PATH_SIZE], mode_t mode);

/* A copy with no rights of its own. */
bool privileged_copy(char path[PRIVILEGED_PATH_SIZE]);

void privileged_remove(const char *path);

/* First in main(): true where this is such a copy, which has done what it was told. */
bool privileged_main(int argc, char **argv, int *status);

enum privileged_deed { PRIVILEGED_CONNECT, PRIVILEGED_MODULE };

/* What the copy is told to do. */
struct privileged_order {
	enum privileged_deed deed;
	const char          *address; /* NULL: gpub_connect() is given none */
	const char          *module;
	const char          *variable, *value; /* added to its environment */
	uid_t                user;    /* who starts it; 0: this process's */
};

/* Starts it, and waits: the library's error, and its message. */
int privileged_run(const char *path, const struct privileged_order *order, char text[512]);

/*
 * A server of that user's, at directory/gpubroker/socket, which hangs up on everybody. Its process, which dies with
 * this one.
 */
pid_t lure_start(const char *directory, uid_t user, int *caught);

/* A module of that user's, by the name LURE_MODULE in that directory. */
#define LURE_MODULE "lure-kernels"
bool lure_module(const char *directory);

/* How many came so far. */
unsigned lure_caught(int caught);

#endif
