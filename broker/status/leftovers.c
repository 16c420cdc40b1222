/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.c - see leftovers.h */
#include "leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker/base/log.h"
#include "common/environment.h"
#include "common/error.h"
#include "common/name.h"
#include "format.h"

#define TRIES         10  /* for a directory that no cleaner saw before its lock */
#define SHM_NAME_SIZE 300 /* of any name in SHM_DIR, with its / and its zero */

/* Open-file-description locks: they belong to the broker's descriptor and need write access to take. */
int leftovers_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_OFD_SETLK, &lock) ? -errno : 0;
}

bool leftovers_locked(int fd)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_WRLCK;
}

bool leftovers_still_named(int fd, const char *shm_name)
{
	char path[SHM_NAME_SIZE + sizeof SHM_DIR];
	struct stat own, named;

	snprintf(path, sizeof path, SHM_DIR "%s", shm_name);
	return !fstat(fd, &own) && !stat(path, &named) && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

static void each_entry(const char *directory, const char *prefix, void (*act)(const char *name, const char *starting), const char *starting)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			act(entry->d_name, starting);
	closedir(dir);
}

/* Everybody may write where these lie: a link that somebody put in the place leads to what is not ours to remove. */
static int directory_open(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* By the directory's descriptor, which it closes: its name may be another one's by the next call. */
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

static void remove_directory(const char *path)
{
	remove_entries(directory_open(path));
	rmdir(path);
}

/* An object, or a directory of them. */
static void remove_object(const char *name, const char *starting)
{
	char path[600];

	(void)starting;
	snprintf(path, sizeof path, SHM_DIR "/%s", name);
	if (unlink(path))
		remove_directory(path);
}

void leftovers_remove_instance(const char *instance)
{
	char prefix[64], memory[96];

	snprintf(prefix, sizeof prefix, "%s%s.", &STATUS_PREFIX[1], instance);
	each_entry(SHM_DIR, prefix, remove_object, NULL);
	/* the one that is there as a rule, and empty: to look into it would want memory, which there may be none of */
	snprintf(memory, sizeof memory, SHM_DIR "/%smem", prefix);
	rmdir(memory);
}

/* ---- directories of private sockets ---- */

const char *leftovers_parent(void)
{
	const char *parent = environment_get("XDG_RUNTIME_DIR");

	if (!parent || *parent != '/' || strlen(parent) > 50 || access(parent, W_OK | X_OK))
		return "/tmp";
	return parent;
}

static int directory_lock(const char *path)
{
	char name[LEFTOVERS_PATH_SIZE + sizeof "/lock"];
	struct stat st;
	int fd, error;

	snprintf(name, sizeof name, "%s/lock", path);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	error = leftovers_lock(fd);
	if (!error && !fstat(fd, &st) && st.st_nlink)
		return fd;
	/* a cleaner saw the file before its lock, and removes the directory */
	close(fd);
	return error ? error : -EAGAIN;
}

/* By path, which needs no descriptor: nobody else can enter the directory. */
static void own_directory_remove(const char *path)
{
	char name[LEFTOVERS_PATH_SIZE + sizeof "/socket"];

	snprintf(name, sizeof name, "%s/mps", path);
	if (!access(name, F_OK))
		remove_directory(name);
	snprintf(name, sizeof name, "%s/socket", path);
	unlink(name);
	snprintf(name, sizeof name, "%s/join", path);
	unlink(name);
	snprintf(name, sizeof name, "%s/lock", path);
	unlink(name);
	rmdir(path);
}

int leftovers_directory_make(const char *instance, char path[LEFTOVERS_PATH_SIZE])
{
	const char *parent = leftovers_parent();
	int lock = -EAGAIN;

	for (int tries = 0; lock == -EAGAIN && tries < TRIES; tries++) {
		snprintf(path, LEFTOVERS_PATH_SIZE, "%s/gpubroker-%s.XXXXXX", parent, instance);
		if (!mkdtemp(path)) /* mode 0700 */
			return error_set(-errno, "no directory for the socket can be made in %s: %m", parent);
		lock = directory_lock(path);
		if (lock < 0)
			own_directory_remove(path);
	}
	return lock >= 0 ? lock : error_set(lock, "the socket's directory in %s cannot be locked: %s", parent, strerror(-lock));
}

int leftovers_directory_check(const char *path)
{
	struct stat st;

	if (lstat(path, &st))
		return error_set(-errno, "%s: %m", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & (S_IRWXG | S_IRWXO))
		return error_set(-EPERM, "%s belongs to another user, or others may enter it: remove it", path);
	return 0;
}

/* One that is there may be a dead process's: its lock can be taken. Or a cleaner is about to remove it: then it is made anew. */
static int directory_take(const char *path)
{
	char name[LEFTOVERS_PATH_SIZE + sizeof "/lock"];
	struct stat st;
	int fd, error;

	if (mkdir(path, 0700) && errno != EEXIST)
		return error_set(-errno, "%s cannot be made: %m", path);
	error = leftovers_directory_check(path);
	if (error)
		return error == -ENOENT ? -EAGAIN : error;
	snprintf(name, sizeof name, "%s/lock", path);
	fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : error_set(-errno, "%s cannot be made: %m", name);
	error = leftovers_lock(fd);
	if (!error && (fstat(fd, &st) || !st.st_nlink))
		error = -EAGAIN;
	if (!error)
		return fd;
	close(fd);
	return error;
}

int leftovers_directory_take(const char *path)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	int lock = -EAGAIN;

	for (int tries = 0; lock == -EAGAIN && tries < TRIES; tries++) {
		if (tries)
			nanosleep(&pause, NULL);
		lock = directory_take(path);
	}
	return lock;
}

void leftovers_directory_remove(const char *path, int lock)
{
	own_directory_remove(path);
	close(lock);
}

/* Only what nobody but its owner could have put there, and by the directory's descriptor: see remove_directory(). */
static bool is_locked(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool locked = fd >= 0 && leftovers_locked(fd);

	if (fd >= 0)
		close(fd);
	return locked;
}

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

static void remove_socket(const char *name, const char *starting)
{
	char path[LEFTOVERS_PATH_SIZE];
	int fd;

	(void)starting;
	if (fnmatch("gpubroker-*.??????", name, 0) ||
	    snprintf(path, sizeof path, "%s/%s", leftovers_parent(), name) >= (int)sizeof path)
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

/* A broker that is started again has the time that this takes. */
static bool may_come_again(int fd)
{
	uint64_t now = (uint64_t)time(NULL);
	struct status_header header;

	return pread(fd, &header, sizeof header, 0) == sizeof header && header.magic == STATUS_MAGIC &&
	       status_format_is_known(header.format) && header.keeps_events && header.updated <= now &&
	       now - header.updated < LEFTOVERS_KEPT;
}

/* The status file goes last: as long as it stands, the rest is recognised as its broker's. */
static void remove_if_dead(const char *name, const char *starting)
{
	const char *instance = name + strlen(STATUS_PREFIX) - 1;
	char shm_name[SHM_NAME_SIZE], path[SHM_NAME_SIZE + sizeof SHM_DIR];
	struct stat st;
	int fd;

	/* an instance's own objects, or a name that somebody else chose, which must not reach the log */
	if (instance_check(instance))
		return;
	snprintf(shm_name, sizeof shm_name, "/%s", name);
	snprintf(path, sizeof path, SHM_DIR "%s", shm_name);
	/* not shm_open(3): a pipe, or a file that its owner has a lease on, would be waited for */
	fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !leftovers_lock(fd) && leftovers_still_named(fd, shm_name)) {
		leftovers_remove_instance(instance);
		if (!may_come_again(fd) && (!starting || strcmp(instance, starting) || !leftovers_is_own(&st))) {
			shm_unlink(shm_name);
			log_say("removed what the dead broker '%s' left behind", instance);
		}
	}
	close(fd);
}

void leftovers_remove(const char *starting)
{
	each_entry(SHM_DIR, &STATUS_PREFIX[1], remove_if_dead, starting);
	each_entry(leftovers_parent(), "gpubroker-", remove_socket, NULL);
}
