/* SPDX-License-Identifier: Apache-2.0 */
/* leftovers.c - see leftovers.h */
#include "leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/environment.h"
#include "log.h"
#include "status.h"

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
	char path[64];
	struct stat own, named;

	snprintf(path, sizeof path, SHM_DIR "%s", shm_name);
	return !fstat(fd, &own) && !stat(path, &named) && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

static void each_object(const char *prefix, void (*act)(const char *name))
{
	DIR *dir = opendir(SHM_DIR);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			act(entry->d_name);
	closedir(dir);
}

/* Everybody may write where these lie: a link that somebody put in the place leads to what is not ours to remove. */
static int directory_open(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Entries go by the directory's descriptor: its name may be another one's by the next call. */
static void remove_directory(const char *path)
{
	int fd = directory_open(path);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (fd >= 0 && !dir)
		close(fd);
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		unlinkat(fd, entry->d_name, 0);
	closedir(dir);
	rmdir(path);
}

/* An object, or a directory of them. */
static void remove_object(const char *name)
{
	char path[600];

	snprintf(path, sizeof path, SHM_DIR "/%s", name);
	if (unlink(path))
		remove_directory(path);
}

void leftovers_remove_instance(const char *instance)
{
	char prefix[64], memory[96];

	snprintf(prefix, sizeof prefix, "%s%s.", &STATUS_PREFIX[1], instance);
	each_object(prefix, remove_object);
	/* the one that is there as a rule, and empty: to look into it would want memory, which there may be none of */
	snprintf(memory, sizeof memory, SHM_DIR "/%smem", prefix);
	rmdir(memory);
}

const char *leftovers_socket_parent(void)
{
	const char *parent = environment_get("XDG_RUNTIME_DIR");

	if (!parent || *parent != '/' || strlen(parent) > 50 || access(parent, W_OK | X_OK))
		return "/tmp";
	return parent;
}

/* Only where the directory is the dead broker's own, and no link to somebody else's. */
static void remove_socket(const char *path, uid_t owner)
{
	int fd = directory_open(path);
	struct stat st;

	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_uid == owner && !(st.st_mode & (S_IWGRP | S_IWOTH)) && !unlinkat(fd, "socket", 0))
		rmdir(path);
	close(fd);
}

static void remove_sockets(const char *instance, uid_t owner)
{
	char pattern[100];
	glob_t found;

	snprintf(pattern, sizeof pattern, "%s/gpubroker-%s.??????", leftovers_socket_parent(), instance);
	if (glob(pattern, GLOB_ONLYDIR, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		remove_socket(found.gl_pathv[i], owner);
	globfree(&found);
}

/* The status file goes last: as long as it stands, the rest is recognised as its broker's. */
static void remove_if_dead(const char *name)
{
	const char *instance = name + strlen(STATUS_PREFIX) - 1;
	char shm_name[300], path[300 + sizeof SHM_DIR];
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
		remove_sockets(instance, st.st_uid);
		shm_unlink(shm_name);
		log_say("removed what the dead broker '%s' left behind", instance);
	}
	close(fd);
}

void leftovers_remove(void)
{
	each_object(&STATUS_PREFIX[1], remove_if_dead);
}
