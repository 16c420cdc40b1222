/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.c - see leftovers.h */
#include "leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "broker/base/process-start.h"
#include "common/environment.h"
#include "common/error.h"
#include "common/name.h"
#include "format.h"

/* largest number of attempts to make a directory that nobody removes before its lock is taken */
#define TRIES         10
#define NAP_NS        2000000 /* from one attempt to remove the directory of an owner that is ending to the next */
#define NAPS          2500    /* such attempts at most: 5 seconds */
#define SHM_NAME_SIZE 300 /* size of a buffer for any name in SHM_DIR, with '/' and NUL */

/*
 * Uses a write lock on the open file description: the lock belongs to the broker's descriptor, and needs write access.
 */
int leftovers_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

bool leftovers_take(int fd)
{
	return !leftovers_lock(fd) || !status_file_is_held(fd);
}

bool leftovers_leads_to(const char *path, const struct stat *own)
{
	struct stat named;

	return !lstat(path, &named) && own->st_dev == named.st_dev && own->st_ino == named.st_ino;
}

int leftovers_identify(const char *path, const struct stat *own)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_dev == own->st_dev && st.st_ino == own->st_ino)
		return fd;
	close(fd);
	return -ENOENT;
}

bool leftovers_still_named(int fd, const char *shm_name)
{
	char path[SHM_NAME_SIZE + sizeof SHM_DIR];
	struct stat own;

	snprintf(path, sizeof path, SHM_DIR "%s", shm_name);
	return !fstat(fd, &own) && leftovers_leads_to(path, &own);
}

/* Calls act(name, context) for each entry of the directory that begins with the prefix. */
static void each_entry(const char *directory, const char *prefix, void (*act)(const char *name, const char *context),
		       const char *context)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			act(entry->d_name, context);
	closedir(dir);
}

/*
 * Opens a directory, but no symbolic link: other users can put links into its parent, which lead to other files.
 * Returns the descriptor or -1.
 */
static int directory_open(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/*
 * Removes all files in the directory fd and closes fd. Uses no path, because the path's name may be replaced at any
 * time.
 */
static void remove_entries(int fd)
{
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (fd >= 0 && !dir)
		close(fd);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		unlinkat(fd, entry->d_name, 0);
	closedir(dir);
}

/* Removes the directory of a dead broker's memory. A living broker has a BSD lock on it, until its process ends. */
static void remove_unlocked_directory(const char *path)
{
	int fd = directory_open(path);

	if (fd < 0)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB)) {
		remove_entries(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
		rmdir(path);
	}
	close(fd);
}

/* Removes the file `name` in SHM_DIR. If it is a directory that is not locked, removes the directory with its files. */
static void remove_object(const char *name, const char *context)
{
	char path[600];

	(void)context;
	snprintf(path, sizeof path, SHM_DIR "/%s", name);
	if (unlink(path))
		remove_unlocked_directory(path);
}

void leftovers_remove_instance(const char *instance)
{
	char prefix[64], memory[96];

	snprintf(prefix, sizeof prefix, "%s%s.", &STATUS_PREFIX[1], instance);
	each_entry(SHM_DIR, prefix, remove_object, NULL);
	/* if there was no memory to list SHM_DIR, the dead broker's directory can still be removed, if it is empty */
	snprintf(memory, sizeof memory, SHM_DIR "/%smem", prefix);
	remove_unlocked_directory(memory);
}

void leftovers_clear_instance(const char *instance)
{
	static const struct timespec nap = { .tv_nsec = NAP_NS };
	char path[sizeof SHM_DIR + sizeof STATUS_PREFIX + INSTANCE_SIZE + sizeof ".mem"];
	struct stat st;

	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s.mem", instance);
	leftovers_remove_instance(instance);
	for (int tries = 0; tries < NAPS && !lstat(path, &st) && st.st_uid == geteuid(); tries++) {
		nanosleep(&nap, NULL);
		leftovers_remove_instance(instance);
	}
}

/* ---- directories of private sockets ---- */

#define PARENTS 2

/*
 * Lists the directories in which a private socket's directory may be made, in the order of attempts. XDG_RUNTIME_DIR
 * comes last, because it is removed at the user's last logout, which broker-run may outlive. Returns their number.
 */
static int parents_list(const char *parents[PARENTS])
{
	const char *runtime = environment_get("XDG_RUNTIME_DIR");

	parents[0] = "/tmp";
	parents[1] = runtime;
	return runtime && *runtime == '/' && strlen(runtime) <= 50 ? 2 : 1;
}

/*
 * Makes and locks the file "lock" in the directory. Returns its descriptor, and sets *own to its fstat(); or a
 * negative errno. -EAGAIN: another process's leftovers_remove() found the file before it was locked, and removes the
 * directory.
 */
static int lock_make(int directory, struct stat *own)
{
	int fd = openat(directory, "lock", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), error;

	if (fd < 0)
		return -errno;
	error = leftovers_lock(fd);
	if (!error && !fstat(fd, own) && own->st_nlink)
		return fd;
	close(fd);
	return error ? error : -EAGAIN;
}

/* Opens and locks a directory that this process has made. Returns 0 or a negative errno. */
static int directory_hold(struct leftovers_directory *directory)
{
	int lock = -1, fd = directory_open(directory->path);

	if (fd < 0)
		return -errno;
	/* may fail while a cleaner has the lock; a cleaner leaves a directory alone that is as new as this one */
	flock(fd, LOCK_EX | LOCK_NB);
	lock = fstat(fd, &directory->own) ? -errno : lock_make(fd, &directory->own_lock);
	if (lock < 0) {
		close(fd);
		return lock;
	}
	directory->fd = fd;
	directory->lock = lock;
	return 0;
}

static void directory_drop(struct leftovers_directory *directory)
{
	close(directory->lock);
	close(directory->fd);
	directory->fd = directory->lock = -1;
}

/* Removes the directory and its files, by path, which is safe because no other user can enter the directory. */
static void own_directory_remove(const char *path)
{
	char name[LEFTOVERS_PATH_SIZE + sizeof "/socket"];

	snprintf(name, sizeof name, "%s/mps", path);
	remove_entries(directory_open(name));
	rmdir(name);
	snprintf(name, sizeof name, "%s/socket", path);
	unlink(name);
	snprintf(name, sizeof name, "%s/join", path);
	unlink(name);
	snprintf(name, sizeof name, "%s/lock", path);
	unlink(name);
	rmdir(path);
}

static int directory_make_in(struct leftovers_directory *directory, const char *parent, const char *name)
{
	int error = -EAGAIN;

	for (int tries = 0; error == -EAGAIN && tries < TRIES; tries++) {
		snprintf(directory->path, sizeof directory->path, "%s/gpubroker-%s.XXXXXX", parent, name);
		if (!mkdtemp(directory->path)) /* mode 0700 */
			return error_set(-errno, "no directory for the socket can be made in %s: %m", parent);
		error = directory_hold(directory);
		if (error)
			own_directory_remove(directory->path);
	}
	if (!error)
		return 0;
	return error_set(error, "the socket's directory in %s cannot be locked: %s", parent, strerror(-error));
}

int leftovers_directory_make(struct leftovers_directory *directory, const char *name)
{
	const char *parents[PARENTS];
	int count = parents_list(parents), error = -ENOENT;

	directory->fd = directory->lock = -1;
	for (int i = 0; error && i < count; i++)
		error = directory_make_in(directory, parents[i], name);
	return error;
}

int leftovers_directory_adopt(struct leftovers_directory *directory, const char *path, int fd, int lock)
{
	struct leftovers_directory last = { .fd = fd, .lock = lock };

	if (snprintf(last.path, sizeof last.path, "%s", path) >= (int)sizeof last.path)
		return error_set(-ENAMETOOLONG, "%s is no socket's directory: its path is too long", path);
	if (fstat(fd, &last.own) || fstat(lock, &last.own_lock))
		return error_set(-errno, "the socket's directory %s cannot be taken over: %m", path);
	if (leftovers_lock(lock))
		return error_set(-EBUSY, "the socket's directory %s cannot be taken over: another process has its lock",
				 path);
	*directory = last;
	return 0;
}

/* Returns true if this user owns the directory and only this user can enter it, so that no other user made it. */
static bool directory_is_own(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IRWXG | S_IRWXO));
}

static bool directory_is_named(const struct leftovers_directory *directory)
{
	return leftovers_leads_to(directory->path, &directory->own);
}

static bool lock_is_named(const struct leftovers_directory *directory)
{
	char name[LEFTOVERS_PATH_SIZE + sizeof "/lock"];

	snprintf(name, sizeof name, "%s/lock", directory->path);
	return leftovers_leads_to(name, &directory->own_lock);
}

static int cannot_be_locked(const char *path, int error)
{
	return error_set(error, "%s was removed, and cannot be locked again: %s", path, strerror(-error));
}

/* Makes the file "lock" again. The descriptor of the directory stays, and with it the directory's BSD lock. */
static int lock_again(struct leftovers_directory *directory)
{
	struct stat own;
	int lock = lock_make(directory->fd, &own);

	if (lock < 0)
		return cannot_be_locked(directory->path, lock);
	close(directory->lock);
	directory->own_lock = own;
	directory->lock = lock;
	return 1;
}

int leftovers_directory_restore(struct leftovers_directory *directory)
{
	struct leftovers_directory again = *directory;
	int error;

	if (directory_is_named(directory))
		return lock_is_named(directory) ? 0 : lock_again(directory);
	error = mkdir(again.path, 0700) ? -errno : 0;
	if (error == -EEXIST && !directory_is_own(again.path))
		return error_set(error, "%s was removed, and cannot be made again: something of that name, which is "
					"not this user's alone, is in its place", again.path);
	if (error && error != -EEXIST)
		return error_set(error, "%s was removed, and cannot be made again: %s", again.path, strerror(-error));
	error = directory_hold(&again);
	if (error)
		return cannot_be_locked(again.path, error);
	directory_drop(directory);
	*directory = again;
	return 1;
}

void leftovers_directory_remove(struct leftovers_directory *directory)
{
	if (directory->fd < 0)
		return;
	if (directory_is_named(directory))
		own_directory_remove(directory->path);
	directory_drop(directory);
}

static int each_own_in(const char *parent, const char *name, int (*act)(const char *path, void *context), void *context)
{
	char path[LEFTOVERS_PATH_SIZE], pattern[LEFTOVERS_PATH_SIZE];
	DIR *dir = opendir(parent);
	struct dirent *entry;
	int result = 0;

	snprintf(pattern, sizeof pattern, "gpubroker-%s.??????", name);
	while (dir && !result && (entry = readdir(dir)))
		if (!fnmatch(pattern, entry->d_name, 0) &&
		    snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) < (int)sizeof path &&
		    directory_is_own(path))
			result = act(path, context);
	if (dir)
		closedir(dir);
	return result;
}

int leftovers_directory_each(const char *name, int (*act)(const char *path, void *context), void *context)
{
	const char *parents[PARENTS];
	int count = parents_list(parents), result = 0;

	for (int i = 0; !result && i < count; i++)
		result = each_own_in(parents[i], name, act, context);
	return result;
}

/* Returns true if the directory has a file `name` that a living process has locked. */
static bool is_locked(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool locked = fd >= 0 && status_file_is_held(fd);

	if (fd >= 0)
		close(fd);
	return locked;
}

/*
 * Removes the directory of a private socket whose process is dead. fd: descriptor of the directory. Does nothing unless
 * this user owns the directory (root: any user), and only its owner can write in it, so that nobody else made its
 * files.
 */
static void remove_if_unlocked(int fd, const char *path)
{
	struct stat st;
	int lock;

	if (fstat(fd, &st) || (geteuid() && st.st_uid != geteuid()) || st.st_mode & (S_IWGRP | S_IWOTH))
		return;
	lock = openat(fd, "lock", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (lock < 0)
		return;
	/* the MPS daemon of a job whose broker-run was killed serves until its last client has ended */
	if (!is_locked(fd, "mps/lock") && !leftovers_lock(lock)) {
		remove_entries(openat(fd, "mps", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
		unlinkat(fd, "mps", AT_REMOVEDIR);
		unlinkat(fd, "socket", 0);
		unlinkat(fd, "join", 0);
		unlinkat(fd, "lock", 0);
		rmdir(path);
	}
	close(lock);
}

static void remove_socket(const char *name, const char *parent)
{
	char path[LEFTOVERS_PATH_SIZE];
	int fd;

	if (fnmatch("gpubroker-*.??????", name, 0) ||
	    snprintf(path, sizeof path, "%s/%s", parent, name) >= (int)sizeof path)
		return;
	fd = directory_open(path);
	if (fd < 0)
		return;
	remove_if_unlocked(fd, path);
	close(fd);
}

/* ---- what dead brokers left ---- */

bool leftovers_is_own(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Returns true if the file has keeps_events and was updated less than LEFTOVERS_KEPT ago. */
static bool may_come_again(int fd)
{
	uint64_t now = (uint64_t)time(NULL);
	struct status_header header;

	return pread(fd, &header, sizeof header, 0) == sizeof header && header.magic == STATUS_MAGIC &&
	       status_format_is_known(header.format) && header.keeps_events && header.updated <= now &&
	       now - header.updated < LEFTOVERS_KEPT;
}

/* Removes the files of a dead broker. Its status file is removed last, because it identifies the other files. */
static void remove_if_dead(const char *name, const char *starting)
{
	const char *instance = name + strlen(STATUS_PREFIX) - 1;
	char shm_name[SHM_NAME_SIZE], path[SHM_NAME_SIZE + sizeof SHM_DIR];
	struct stat st;
	int fd;

	/* skips other files of an instance, and names that another user chose, which must not get into the log */
	if (instance_check(instance))
		return;
	snprintf(shm_name, sizeof shm_name, "/%s", name);
	snprintf(path, sizeof path, SHM_DIR "%s", shm_name);
	/* not shm_open(3), which would wait for a pipe, or for a file that its owner has a lease on */
	fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && leftovers_take(fd) && leftovers_still_named(fd, shm_name)) {
		leftovers_remove_instance(instance);
		if (!may_come_again(fd) && (!starting || strcmp(instance, starting) || !leftovers_is_own(&st))) {
			shm_unlink(shm_name);
			log_say("removed what the dead broker '%s' left behind", instance);
		}
	}
	close(fd);
}

#define AWAIT_MS 5000 /* until the processes of a dead broker have ended */

/* Whether a status file is locked, though the process that it names is gone. */
static bool is_ending(int fd)
{
	struct status_header header;

	return pread(fd, &header, sizeof header, 0) == sizeof header && header.magic == STATUS_MAGIC &&
	       process_start(header.pid, NULL) != header.start_time && status_file_is_held(fd);
}

void leftovers_await(const char *instance)
{
	char path[sizeof SHM_DIR + sizeof STATUS_PREFIX + INSTANCE_SIZE];
	struct stat st;
	int fd;

	snprintf(path, sizeof path, SHM_DIR STATUS_PREFIX "%s", instance);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	for (int ms = 0; ms < AWAIT_MS && !fstat(fd, &st) && leftovers_is_own(&st) && is_ending(fd); ms++)
		poll(NULL, 0, 1);
	close(fd);
}

void leftovers_remove(const char *starting)
{
	const char *parents[PARENTS];
	int count = parents_list(parents);

	each_entry(SHM_DIR, &STATUS_PREFIX[1], remove_if_dead, starting);
	for (int i = 0; i < count; i++)
		each_entry(parents[i], "gpubroker-", remove_socket, parents[i]);
}
