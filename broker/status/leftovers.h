/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leftovers.h - shared-memory objects and sockets of brokers that died without cleaning up.
 *
 * A broker holds a lock on its status file for its whole life; the kernel drops it with the process. So an
 * unlocked "/gpubroker.<instance>" is a dead broker's, and with it "/gpubroker.<instance>.*", the host
 * device's memory. The directory of a broker-run's private socket is there before the status file, and has a lock of its
 * own. Owns nothing; removes only what it locked itself.
 */
#ifndef GPUB_LEFTOVERS_H
#define GPUB_LEFTOVERS_H

#include <stdbool.h>
#include <sys/stat.h>

#define SHM_DIR "/dev/shm" /* where Linux keeps POSIX shared memory: shm_overview(7) */

#define STATUS_PREFIX "/gpubroker." /* of a status file's name, before the instance's */

/* Takes the lock that says "alive". -EAGAIN: somebody holds it. */
int leftovers_lock(int fd);

/* Does a living broker hold that lock? Works on a descriptor opened for reading. */
bool leftovers_locked(int fd);

/* Does the shared-memory name still lead to this very file? */
bool leftovers_still_named(int fd, const char *shm_name);

/* Whether a broker may take over the events of that file: nobody but its own user could have written it. */
bool leftovers_is_own(const struct stat *st);

/*
 * Removes what dead brokers left, as far as this user may. For a program's start, before it makes anything
 * of its own that bears its instance's name. The status file of a dead broker of the name starting (NULL: of none) stays, if a broker of
 * that name may take over its events: status_open() does. So does that of another one that may come again (keeps_events), as long as
 * nothing but its lock has changed for LEFTOVERS_KEPT.
 */
#define LEFTOVERS_KEPT 600 /* seconds since the file was last updated */

void leftovers_remove(const char *starting);

#define LEFTOVERS_PATH_SIZE 92

/*
 * Makes the directory of a private socket, "gpubroker-<instance>.XXXXXX" in $XDG_RUNTIME_DIR where that can be used, else
 * in /tmp. Returns the descriptor of the file "lock" in it, which says that the broker lives, or negative errno with the
 * error message.
 */
int leftovers_directory_make(const char *instance, char path[LEFTOVERS_PATH_SIZE]);

/* Where such directories are. */
const char *leftovers_parent(void);

/*
 * The same for a directory that several processes of a user find by its name; LEFTOVERS_PATH_SIZE is enough for it. One that a dead
 * process left is taken over. Negative errno with the error message; -EAGAIN, without one: a living process has it.
 */
int leftovers_directory_take(const char *path);

/* 0: nobody but this user can enter the directory. Else with the error message: -EPERM, or it is not there. */
int leftovers_directory_check(const char *path);

/* Removes it, with the sockets (socket, and join of run/joined.h) and the directory mps (run/mps-keeper.h) in it, and closes lock. */
void leftovers_directory_remove(const char *path, int lock);

/* Removes the objects that belong to an instance, but for its status file. */
void leftovers_remove_instance(const char *instance);

#endif
