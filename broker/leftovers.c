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

/* An object, or a directory of them. */
static void remove_object(const char *name)
{
	char path[600];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof path, SHM_DIR "/%s", name);
	dir = unlink(path) ? opendir(path) : NULL;
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof path, SHM_DIR "/%s/%s", name, entry->d_name);
		unlink(path);
	}
	if (!dir)
		return;
	closedir(dir);
	snprintf(path, sizeof path, SHM_DIR "/%s", name);
	rmdir(path);
}

void leftovers_remove_instance(const char *instance)
{
	char prefix[64];

	snprintf(prefix, sizeof prefix, "%s%s.", STATUS_PREFIX + 1, instance);
	each_object(prefix, remove_object);
}

const char *leftovers_socket_parent(void)
{
	const char *parent = getenv("XDG_RUNTIME_DIR");

	if (!parent || *parent != '/' || strlen(parent) > 50 || access(parent, W_OK | X_OK))
		return "/tmp";
	return parent;
}

static void remove_sockets(const char *instance)
{
	char pattern[100], path[100];
	glob_t found;

	snprintf(pattern, sizeof pattern, "%s/gpubroker-%s.??????", leftovers_socket_parent(), instance);
	if (glob(pattern, GLOB_ONLYDIR, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		snprintf(path, sizeof path, "%s/socket", found.gl_pathv[i]);
		unlink(path);
		rmdir(found.gl_pathv[i]);
	}
	globfree(&found);
}

/* The status file goes last: as long as it stands, the rest is recognised as its broker's. */
static void remove_if_dead(const char *name)
{
	const char *instance = name + strlen(STATUS_PREFIX) - 1;
	char shm_name[300];
	int fd;

	/* an instance's own objects, or a name that somebody else chose, which must not reach the log */
	if (instance_check(instance))
		return;
	snprintf(shm_name, sizeof shm_name, "/%s", name);
	fd = shm_open(shm_name, O_RDWR, 0);
	if (fd < 0)
		return;
	if (!leftovers_lock(fd) && leftovers_still_named(fd, shm_name)) {
		leftovers_remove_instance(instance);
		remove_sockets(instance);
		shm_unlink(shm_name);
		log_say("removed what the dead broker '%s' left behind", instance);
	}
	close(fd);
}

void leftovers_remove(void)
{
	each_object(STATUS_PREFIX + 1, remove_if_dead);
}
