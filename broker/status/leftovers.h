/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leftovers.h - shared-memory objects and sockets of brokers that died without cleaning up.
 *
 * A broker holds a lock on its status file for its whole life; the kernel drops it with the process. So an unlocked
 * "/gpubroker.<instance>" is a dead broker's, and with it "/gpubroker.<instance>.*", the host device's memory, whose
 * directory has a lock of its own (device/host.h). The directory of a broker-run's private socket is there before the
 * status file, and has a lock of its own, too. Owns nothing; removes only what it locked itself.
 */
#ifndef GPUB_LEFTOVERS_H
#define GPUB_LEFTOVERS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Takes the lock that says "alive". -EAGAIN: somebody holds it. */
int leftovers_lock(int fd);

/*
 * Whether no broker has that status file any more. Takes the lock, so that no other process removes the file
 * meanwhile, unless a process that may only read the file keeps a lock on it: a reader's lock does not show that a
 * broker lives.
 */
bool leftovers_take(int fd);

/* Does the path, without following links, lead to that very file? */
bool leftovers_leads_to(const char *path, const struct stat *own);

/* The same for an open file and a name of shared memory. */
bool leftovers_still_named(int fd, const char *shm_name);

/* Whether a broker may take over the events of that file: nobody but its own user could have written it. */
bool leftovers_is_own(const struct stat *st);

/*
 * Removes what dead brokers left, as far as this user may. For a program's start, before it makes anything of its
 * own that bears its instance's name. The status file of a dead broker of the name starting (NULL: of none) stays,
 * if a broker of that name may take over its events: status_open() does. So does that of another one that may come
 * again (keeps_events), as long as nothing but its lock has changed for LEFTOVERS_KEPT.
 */
#define LEFTOVERS_KEPT 600 /* seconds since the file was last updated */

void leftovers_remove(const char *starting);

#define LEFTOVERS_PATH_SIZE 92

/*
 * The directory of a private socket, which only this user can enter. Its file "lock" is locked as long as its process
 * lives.
 */
struct leftovers_directory {
	char path[LEFTOVERS_PATH_SIZE]; /* ends in gpubroker-NAME.XXXXXX */
	int  fd;   /* with a BSD lock, for which systemd-tmpfiles(8) leaves the directory alone; -1: there is none */
	int  lock; /* of the file "lock" */
	struct stat own;      /* of the directory, and */
	struct stat own_lock; /* of the file "lock": from fstat() when they were made */
};

/* Makes one in /tmp, or where that fails in XDG_RUNTIME_DIR. 0 or negative errno, with the error message. */
int leftovers_directory_make(struct leftovers_directory *directory, const char *name);

/*
 * Looks whether directory and lock are still there. 1: they were removed, and are made again, at the same path.
 * Negative errno with the error message: they were removed, and cannot be made again; they are as before.
 */
int leftovers_directory_restore(struct leftovers_directory *directory);

/* Removes it, with the sockets (socket, and join of run/joined.h) and the directory mps (run/mps-keeper.h) in it. */
void leftovers_directory_remove(struct leftovers_directory *directory);

/*
 * Calls act() for each directory of that name that only this user can enter, wherever leftovers_directory_make() may
 * have made it, until act() returns something else than 0. Returns that, or 0. Nobody else can make such a directory.
 */
int leftovers_directory_each(const char *name, int (*act)(const char *path, void *context), void *context);

/*
 * Removes the objects that belong to an instance, but for its status file. Leaves a directory that a living broker
 * has locked: the status file may have been removed under that broker, and another one of the name be about to start.
 */
void leftovers_remove_instance(const char *instance);

#endif
