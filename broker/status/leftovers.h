/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leftovers.h - shared-memory objects and sockets of brokers that died without cleaning up.
 *
 * A broker holds a lock on its status file for its whole life; the kernel releases the lock when the process ends. So a
 * status file "/gpubroker.<instance>" without a lock belongs to a dead broker, and so does "/gpubroker.<instance>.*",
 * the host device's memory, whose directory has a lock of its own (device/host.h). The directory of a broker-run's
 * private socket is made before the status file, and has a lock of its own, too. Owns nothing but struct
 * leftovers_directory; removes only the program's own files, and files whose broker does not live, as the lock shows.
 */
#ifndef GPUB_LEFTOVERS_H
#define GPUB_LEFTOVERS_H

#include <stdbool.h>
#include <sys/stat.h>

/* Locks the file as a living broker does. Returns 0 or a negative errno; -EAGAIN: another process has a lock. */
int leftovers_lock(int fd);

/*
 * Locks a dead broker's status file. Returns true if no living broker has the file: the file is then locked, so that no
 * other process removes it meanwhile, unless another process has a read lock on it (a read lock does not show that a
 * broker lives).
 */
bool leftovers_take(int fd);

/* Returns true if the path, without following links, refers to the file that `own` describes. */
bool leftovers_leads_to(const char *path, const struct stat *own);

/*
 * Opens the file that `own` describes, without following links, so that the descriptor identifies the file and does
 * nothing else: a later broker gets *own again by fstat(). Returns the descriptor, or a negative errno without an error
 * message; -ENOENT: the path does not lead to the file.
 */
int leftovers_identify(const char *path, const struct stat *own);

/* Returns true if the name of shared memory refers to the open file. */
bool leftovers_still_named(int fd, const char *shm_name);

/* Returns true if only this user could have written the file, so that a broker may take over the file's events. */
bool leftovers_is_own(const struct stat *st);

#define LEFTOVERS_KEPT 600 /* seconds after its last update for which a dead broker's file with keeps_events is kept */

/*
 * Waits, for some seconds at most, until all processes of a dead broker of the name have ended: as long as its status
 * file is locked, and the process that the file names is gone. Called before leftovers_remove().
 */
void leftovers_await(const char *instance);

/*
 * Removes the files of dead brokers, as far as this user may. Called at a program's start, before the program makes
 * files with its instance's name. Keeps two kinds of status files, for a later broker of the same name to take over
 * their events: that of a dead broker with the name `starting` (NULL: none) if leftovers_is_own(), and any with
 * keeps_events that was last updated less than LEFTOVERS_KEPT ago.
 */
void leftovers_remove(const char *starting);

#define LEFTOVERS_PATH_SIZE 92

/*
 * The directory of a private socket, which only this user can enter. Its file "lock" is locked as long as the process
 * that made the directory lives.
 */
struct leftovers_directory {
	char path[LEFTOVERS_PATH_SIZE]; /* ends in gpubroker-NAME.XXXXXX */
	/* descriptor of the directory, with a BSD lock, which keeps systemd-tmpfiles(8) from cleaning it; -1: none */
	int  fd;
	int  lock; /* descriptor of the file "lock" */
	struct stat own;      /* fstat() of the directory when it was made */
	struct stat own_lock; /* fstat() of the file "lock" when it was made */
};

/*
 * Makes a private directory in /tmp or, if that fails, in XDG_RUNTIME_DIR. Returns 0 or a negative errno with the error
 * message set.
 */
int leftovers_directory_make(struct leftovers_directory *directory, const char *name);

/*
 * Takes over the directory of a process that has died: `path` is its path, `fd` and `lock` are duplicates of its
 * descriptors, with their locks, which are the directory's from then on. Returns 0, or a negative errno with the error
 * message set, and then both stay the caller's.
 */
int leftovers_directory_adopt(struct leftovers_directory *directory, const char *path, int fd, int lock);

/*
 * Checks that directory and lock still have their names. Returns 0 if they have; 1 if one was removed, and was made
 * again at the same path; or a negative errno with the error message set if one was removed and cannot be made again,
 * and then *directory is unchanged.
 */
int leftovers_directory_restore(struct leftovers_directory *directory);

/* Removes the directory with its sockets (socket, and join of run/joined.h) and the directory mps (mps-keeper.h). */
void leftovers_directory_remove(struct leftovers_directory *directory);

/*
 * Calls act() for each directory gpubroker-NAME.XXXXXX in the places of leftovers_directory_make() that this user
 * owns and only this user can enter, until act() returns other than 0. Returns the last result of act(), or 0. Other
 * users cannot make such a directory.
 */
int leftovers_directory_each(const char *name, int (*act)(const char *path, void *context), void *context);

/*
 * Removes the files of an instance except its status file. Keeps a directory that a living broker has locked: that
 * broker's status file may have been removed, and another broker of the name may be starting.
 */
void leftovers_remove_instance(const char *instance);

/*
 * Does so for an instance whose status file this broker has locked. Waits some seconds while a process of this user has
 * locked the directory: a dead broker's owner may still be ending.
 */
void leftovers_clear_instance(const char *instance);

#endif
