/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - see output.h */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/error.h"

#define TEMPORARY ".gpubroker-XXXXXX"

/* Returns the length of the path's folder, its last slash included; 0 if there is no slash. */
static int folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path) + 1 : 0;
}

/* ---- owner, group, mode and access control list ---- */

#define ACL "system.posix_acl_access"

/* Returns the permission bits that a new file gets by the umask. */
static mode_t mode_of_new(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

/*
 * Copies the access control list of the file at path to fd. If that file has none, removes a list that fd may have
 * inherited from its folder. Returns false if the list cannot be copied or removed.
 */
static bool list_keep(int fd, const char *path)
{
	ssize_t size = getxattr(path, ACL, NULL, 0);
	bool kept = false;
	char *list;

	if (size <= 0)
		return !fremovexattr(fd, ACL) || errno == ENODATA || errno == EOPNOTSUPP;
	list = malloc((size_t)size);
	if (list && getxattr(path, ACL, list, (size_t)size) == size)
		kept = !fsetxattr(fd, ACL, list, (size_t)size, 0);
	free(list);
	return kept;
}

/* Returns the mode with the rights of the group and of others reduced to the rights that both have. */
static mode_t mode_without_group(mode_t mode)
{
	mode_t common = mode >> 3 & mode & 07;

	return (mode & 0700) | common << 3 | common;
}

/*
 * Gives fd the owner, group, mode and access control list of the file at path, which it will replace. If one of these
 * cannot be set, the mode is reduced, so that nobody but the new owner gets rights that the old file's mode refused.
 * Returns 0 or negative errno.
 */
static int access_keep(int fd, const char *path, const struct stat *old)
{
	bool has_owner = !fchown(fd, old->st_uid, (gid_t)-1);
	bool has_group = !fchown(fd, (uid_t)-1, old->st_gid);
	mode_t mode = old->st_mode & 0777;

	if (!has_owner)
		mode = mode_of_new() & (mode | 0700);
	if (!has_group || !list_keep(fd, path))
		mode = mode_without_group(mode);
	return fchmod(fd, mode) ? -errno : 0;
}

/* ---- the temporary file ---- */

static int temporary_make(struct output *output, const struct stat *old)
{
	int error;

	if (asprintf(&output->temporary, "%.*s" TEMPORARY, folder_length(output->path), output->path) < 0) {
		output->temporary = NULL;
		return error_set(-ENOMEM, "out of memory");
	}
	output->fd = mkostemp(output->temporary, O_CLOEXEC);
	if (output->fd < 0)
		return error_set(-errno, "%.100s: no file can be made beside it: %m", output->path);
	if (old)
		error = access_keep(output->fd, output->path, old);
	else
		error = fchmod(output->fd, mode_of_new()) ? -errno : 0;
	if (!error)
		return 0;
	error_set(error, "%.100s: its mode cannot be set: %s", output->path, strerror(-error));
	unlink(output->temporary);
	close(output->fd);
	return error;
}

/*
 * Sets output->path, after following symbolic links: the file that a link points to is replaced, not the link, unless
 * the link leads to no file. Returns 1 and sets *old if the file exists; 0 if not; negative errno with the error
 * message.
 */
static int path_find(struct output *output, const char *path, struct stat *old)
{
	bool exists = !stat(path, old);

	if (!exists) {
		output->path = errno == ENOENT ? strdup(path) : NULL;
	} else {
		if (!S_ISREG(old->st_mode))
			return error_set(-EINVAL, "%.100s: it is no regular file: write to - and redirect that", path);
		output->path = realpath(path, NULL);
	}
	return output->path ? exists : error_set(-errno, "%.100s: it cannot be written: %m", path);
}

int output_open(struct output *output, const char *path)
{
	struct stat old;
	int error;

	*output = (struct output){ .fd = -1 };
	if (!strcmp(path, "-")) {
		output->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return output->fd < 0 ? error_set(-errno, "standard output cannot be written: %m") : 0;
	}
	error = path_find(output, path, &old);
	if (error >= 0)
		error = temporary_make(output, error ? &old : NULL);
	if (error) {
		free(output->temporary);
		free(output->path);
	}
	return error;
}

static void output_free(struct output *output)
{
	close(output->fd);
	free(output->temporary);
	free(output->path);
}

void output_abandon(struct output *output)
{
	if (output->temporary)
		unlink(output->temporary);
	output_free(output);
}

/* Syncs the folder, so that the rename survives a crash of the machine. Some file systems cannot; that is no error. */
static void folder_sync(const struct output *output)
{
	char *folder;
	int fd;

	if (asprintf(&folder, "%.*s.", folder_length(output->path), output->path) < 0)
		return;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	if (fd < 0)
		return;
	(void)fsync(fd);
	close(fd);
}

int output_commit(struct output *output)
{
	int error = 0;

	if (output->path && fsync(output->fd))
		error = error_set(-errno, "%.100s: it cannot be written: %m", output->path);
	else if (output->path && rename(output->temporary, output->path))
		error = error_set(-errno, "%.100s: it cannot get its name: %m", output->path);
	if (error) {
		output_abandon(output);
		return error;
	}
	if (output->path)
		folder_sync(output);
	output_free(output);
	return 0;
}
