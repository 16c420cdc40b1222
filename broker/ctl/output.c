/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - see output.h */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

#define TEMPORARY ".gpubroker-XXXXXX"

/* Bytes of the path before the last part, with the slash. */
static int folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash - path) + 1 : 0;
}

/* As a new file has it. */
static mode_t mode_of_new(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int temporary_make(struct output *output)
{
	if (asprintf(&output->temporary, "%.*s" TEMPORARY, folder_length(output->path), output->path) < 0) {
		output->temporary = NULL;
		return error_set(-ENOMEM, "out of memory");
	}
	output->fd = mkostemp(output->temporary, O_CLOEXEC);
	if (output->fd < 0)
		return error_set(-errno, "%.100s: no file can be made beside it: %m", output->path);
	if (!fchmod(output->fd, mode_of_new()))
		return 0;
	error_set(-errno, "%.100s: its mode cannot be set: %m", output->path);
	unlink(output->temporary);
	close(output->fd);
	return -EIO;
}

/* Of a symbolic link, what it points to is replaced. */
static int path_find(struct output *output, const char *path)
{
	struct stat st;

	if (stat(path, &st)) {
		output->path = errno == ENOENT ? strdup(path) : NULL;
	} else {
		if (!S_ISREG(st.st_mode))
			return error_set(-EINVAL, "%.100s: it is no regular file: write to - and redirect that", path);
		output->path = realpath(path, NULL);
	}
	return output->path ? 0 : error_set(-errno, "%.100s: it cannot be written: %m", path);
}

int output_open(struct output *output, const char *path)
{
	int error;

	*output = (struct output){ .fd = -1 };
	if (!strcmp(path, "-")) {
		output->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return output->fd < 0 ? error_set(-errno, "standard output cannot be written: %m") : 0;
	}
	error = path_find(output, path);
	if (!error)
		error = temporary_make(output);
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

/* The folder, so that the name stays after a crash of the machine. Some file systems cannot. */
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
